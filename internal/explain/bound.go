package explain

import (
	"fmt"
	"strings"
	"time"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// Resolved is a destination that was asked for right before an attempt.
type Resolved struct {
	// Address is masked unless destinations are shown.
	Address string        `json:"address"`
	By      machine.Means `json:"by"`
	// Fence is that of the attempt that was to go there, and At when that was stored.
	Fence int64     `json:"fence"`
	At    time.Time `json:"at"`
}

// resolved is where the newest attempt of a generation was to go; nil where that is what
// the job was given.
func resolved(g machine.Generation, p Private) *Resolved {
	b := g.Bound
	if b.Address == "" {
		return nil
	}
	shown := &Resolved{Address: Mask(b.Address), By: b.By, Fence: b.Fence, At: b.At.UTC()}
	if p.Destination {
		shown.Address = b.Address
	}
	return shown
}

// bound notes where the generation goes, if that is asked for.
func (e *explainer) bound() {
	g, means := e.g, e.g.Promises.Resolve
	if !g.Fixed {
		means = g.Kind.Promises.Resolve
	}
	if means == "" {
		return
	}
	asked := fmt.Sprintf("its destination is asked for by %s right before an attempt", means)
	sent := fmt.Sprintf("; the newest was to go to %s, which was stored at %s under fence %d", Mask(g.Bound.Address), instant(g.Bound.At), g.Bound.Fence)
	switch {
	case g.Pinned:
		e.Notes = append(e.Notes, "a person gave its destination with a redrive: it is not asked for any more")
	case g.Bound.Address == "" && g.InDoubt():
		e.Notes = append(e.Notes, asked+"; no address was stored yet, so that nothing of it was sent")
	case g.Bound.Address == "":
		e.Notes = append(e.Notes, asked)
	case g.InDoubt():
		e.Notes = append(e.Notes, asked+sent+"; while that may have happened, whatever repeats it goes there too")
	default:
		e.Notes = append(e.Notes, asked+sent)
	}
}

// receiptOf is a receipt as it is shown: where the effect went is masked, unless it is a hash
// or destinations are shown.
func receiptOf(r *job.Receipt, p Private) *job.Receipt {
	if r == nil || p.Destination || r.To == "" || strings.HasPrefix(r.To, job.HashPrefix) {
		return r
	}
	shown := *r
	shown.To = Mask(r.To)
	return &shown
}
