package redrive

import (
	"context"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// Ledger decides, under the lock of the job's row.
type Ledger interface {
	Redrive(ctx context.Context, req machine.RedriveRequest) (machine.Successor, error)
	Resolve(ctx context.Context, a machine.Answer) (machine.Standing, error)
	Cancel(ctx context.Context, c machine.Cancellation) (machine.Standing, error)
}

// Finder finds the body that corrections are made to.
type Finder interface {
	// Find returns a job's current generation.
	Find(ctx context.Context, kind, key string) (machine.Story, error)
}

// Check says whether the channel of a kind could use a destination and a payload, as a
// refusal, or nil.
type Check func(kind, destination string, payload []byte) *job.Refusal

// Options say what a desk checks requests against. The zero value checks by the rules
// alone.
type Options struct {
	// MaxPayload is the largest corrected payload, in bytes; 0 means
	// job.DefaultMaxPayload.
	MaxPayload int
	// KnownZone reports whether a zone is one; nil skips the check.
	KnownZone func(zone string) bool
	// Check asks the kind's channel about a corrected body; nil skips it.
	Check Check
}

// Desk takes what persons decide, checks it, and hands it to the ledger.
type Desk struct {
	ledger  Ledger
	finder  Finder
	options Options
}

// NewDesk makes a desk.
func NewDesk(ledger Ledger, finder Finder, options Options) *Desk {
	return &Desk{ledger, finder, options}
}

// Redrive opens the next generation of a job. Errors: refusals that name every field
// that is wrong (job.Refusals), job.ErrNotFound, and a *machine.Denied that says what is
// in the way.
func (d *Desk) Redrive(ctx context.Context, req machine.RedriveRequest) (machine.Successor, error) {
	if err := CheckRequest(req, d.options); err != nil {
		return machine.Successor{}, err
	}
	if err := d.checkBody(ctx, req); err != nil {
		return machine.Successor{}, err
	}
	return d.ledger.Redrive(ctx, req)
}

// checkBody asks the channel about the body as it will be.
func (d *Desk) checkBody(ctx context.Context, req machine.RedriveRequest) error {
	if d.options.Check == nil || (req.Destination == "" && len(req.Payload) == 0) {
		return nil
	}
	story, err := d.finder.Find(ctx, req.Kind, req.Key)
	if err != nil {
		return err
	}
	g, ok := story.Current()
	if !ok || g.Generation != req.Generation {
		return nil // the ledger says what that means
	}
	destination, payload := g.Destination, g.Payload
	if req.Destination != "" {
		destination = req.Destination
	}
	if len(req.Payload) > 0 {
		payload = req.Payload
	}
	if refusal := d.options.Check(req.Kind, destination, payload); refusal != nil {
		return refusal
	}
	return nil
}

// Resolve applies a person's answer. Errors are as those of Redrive.
func (d *Desk) Resolve(ctx context.Context, a machine.Answer) (machine.Standing, error) {
	if err := CheckAnswer(a); err != nil {
		return machine.Standing{}, err
	}
	return d.ledger.Resolve(ctx, a)
}

// Cancel withdraws a job. Errors are as those of Redrive.
func (d *Desk) Cancel(ctx context.Context, c machine.Cancellation) (machine.Standing, error) {
	if err := CheckCancellation(c); err != nil {
		return machine.Standing{}, err
	}
	return d.ledger.Cancel(ctx, c)
}
