package execute

import (
	"context"
	"slices"
	"sync"
	"time"

	"duly.dev/duly/internal/pause"
	"duly.dev/duly/pkg/job"
)

const (
	// holdSlotsFor is how long a reference is held for which there was no slot.
	holdSlotsFor = time.Second
	// firstHold and longestHold bound how long jobs of a kind that this worker does not
	// know are held; the time doubles for as long as they keep coming.
	firstHold   = time.Minute
	longestHold = 30 * time.Minute
)

// hold puts jobs back that may not run now, and closes their claims, which hold no
// slots any more.
func (l *lane) hold(claims []*claim, why job.Hold, d time.Duration) {
	if len(claims) == 0 {
		return
	}
	refs := refsOf(claims)
	var locked []job.Ref
	err := l.worker.persist(l.worker.soft, "holding references", func(ctx context.Context) (err error) {
		locked, err = l.worker.o.Ledger.HoldRefs(ctx, refs, why, d)
		return err
	})
	if err != nil {
		leave(claims)
		return
	}
	var again []*claim
	for _, c := range claims {
		if slices.Contains(locked, c.ref) {
			again = append(again, c)
			continue
		}
		c.settled()
	}
	l.worker.metrics.held.WithLabelValues(string(why)).Add(float64(len(claims) - len(again)))
	l.holdLater(again, why, d)
}

// holdLater holds jobs whose rows somebody has locked; the lane does not wait for it. The
// order to stop gives their messages back.
func (l *lane) holdLater(claims []*claim, why job.Hold, d time.Duration) {
	if len(claims) == 0 {
		return
	}
	go func() {
		if !pause.For(l.worker.soft, lockedFor) {
			leave(claims)
			return
		}
		l.hold(claims, why, d)
	}()
}

// holdUnknown holds jobs of a kind that this worker does not know: a newer worker
// may. They are never failed here and cost no attempt.
func (l *lane) holdUnknown(kind string, claims []*claim) {
	d := l.holds.next(kind)
	l.worker.log.Warn("jobs of a kind that this worker does not know are held", "lane", l.name,
		"kind", job.Storable(kind, job.MaxName), "references", len(claims), "for", d)
	l.slots.give(len(claims))
	l.hold(claims, job.HoldUnknownKind, d)
}

// leave lets the messages of the claims come again.
func leave(claims []*claim) {
	for _, c := range claims {
		c.left()
	}
}

func refsOf(claims []*claim) []job.Ref {
	refs := make([]job.Ref, len(claims))
	for i, c := range claims {
		refs[i] = c.ref
	}
	return refs
}

// holds remember for how long an unknown kind was held last.
type holds struct {
	mu     sync.Mutex
	byKind map[string]holdState
}

type holdState struct {
	d     time.Duration
	until time.Time
}

// next returns how long to hold the kind's jobs: as long as the last ones while
// those are held, then twice as long.
func (h *holds) next(kind string) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	last, seen := h.byKind[kind]
	switch {
	case !seen:
		last = holdState{firstHold, now.Add(firstHold)}
	case !now.Before(last.until):
		d := min(2*last.d, longestHold)
		last = holdState{d, now.Add(d)}
	}
	if h.byKind == nil || len(h.byKind) >= maxUnknownKinds {
		h.byKind = make(map[string]holdState)
	}
	h.byKind[kind] = last
	return last.d
}

// maxUnknownKinds bounds what is remembered about names that come from outside.
const maxUnknownKinds = 1000
