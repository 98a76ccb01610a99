package execute

import (
	"context"
	"sync"
	"time"

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
	err := l.worker.persist(l.worker.soft, "holding references", func(ctx context.Context) error {
		return l.worker.o.Ledger.HoldRefs(ctx, refs, why, d)
	})
	if err != nil {
		leave(claims)
		return
	}
	l.worker.metrics.held.WithLabelValues(string(why)).Add(float64(len(claims)))
	for _, c := range claims {
		c.settled()
	}
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
