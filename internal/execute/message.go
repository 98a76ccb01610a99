package execute

import (
	"sync/atomic"
	"time"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/pkg/job"
)

// message is a bus message in hand. It is acknowledged when each of its references
// is settled: the ledger has committed what became of it, or found it stale.
type message struct {
	delivery bus.Delivery
	lane     *lane
	open     atomic.Int32 // references that are not settled
	back     atomic.Bool  // some reference was left as it was: the message must come again
}

// claim is one reference of a message in hand.
type claim struct {
	ref     job.Ref
	message *message
	// asked is when a lease of it was asked for the first time.
	asked time.Time
	// decided: the last lease call that asked for it has said what becomes of it.
	decided bool
	// twin is the same reference out of another message that was there at the same
	// time; both share one lease and one end.
	twin *claim
}

// newMessage opens the message and returns a claim for each of its references.
func newMessage(l *lane, d bus.Delivery, refs []job.Ref) []*claim {
	m := &message{delivery: d, lane: l}
	m.open.Store(int32(len(refs))) //nolint:gosec // at most bus.MaxRefs
	claims, all := make([]*claim, len(refs)), make([]claim, len(refs))
	for i, ref := range refs {
		all[i] = claim{ref: ref, message: m}
		claims[i] = &all[i]
	}
	return claims
}

// join makes the other claim, which may have twins of its own, a twin of this one.
func (c *claim) join(other *claim) {
	last := other
	for last.twin != nil {
		last = last.twin
	}
	c.twin, last.twin = other, c.twin
}

// settled tells the message that the ledger has committed what became of the
// reference.
func (c *claim) settled() {
	for ; c != nil; c = c.twin {
		c.message.close()
	}
}

// left tells the message that nothing became of the reference here.
func (c *claim) left() {
	for ; c != nil; c = c.twin {
		c.message.back.Store(true)
		c.message.close()
	}
}

func (m *message) close() {
	if m.open.Add(-1) > 0 {
		return
	}
	if m.back.Load() {
		m.lane.release(m.delivery)
		return
	}
	m.lane.ack(m.delivery)
}
