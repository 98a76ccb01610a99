package execute

import (
	"context"
	"errors"
	"time"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/pause"
	"duly.dev/duly/pkg/job"
)

// Leaser leases references.
type Leaser interface {
	// Lease leases every reference of the request that can be leased, in one round
	// trip. ErrWorkerEnded means that the worker's row was ended. After any other error
	// some references may have been leased: the caller reads back.
	Lease(ctx context.Context, r machine.LeaseRequest) (machine.Leases, error)
	// LeasedBy returns what the worker holds among the references.
	LeasedBy(ctx context.Context, workerID string, refs []job.Ref) ([]machine.Grant, error)
}

// soon is how early a reference may be to be waited for here.
const soon = time.Second

// lease leases the claims of a kind, until the ledger has said what becomes of
// each, or the worker drains: then those that are left go back to the bus.
func (l *lane) lease(ctx context.Context, k *kind, claims []*claim) {
	claims = l.pair(claims)
	var wait pause.Backoff
	for len(claims) > 0 {
		s, err := l.worker.board.fresh(l.worker.soft, l.worker.need(k))
		if err != nil {
			l.slots.give(len(claims))
			leave(claims)
			return
		}
		batch := claims[:min(len(claims), maxBatch)]
		undecided, err := l.leaseOnce(ctx, s, k, batch)
		claims = append(undecided, claims[len(batch):]...)
		switch {
		case err == nil:
			wait.Reset()
		case errors.Is(err, machine.ErrWorkerEnded):
			l.worker.endSession(s)
		case len(claims) == 0: // all of them were read back
		default:
			l.worker.log.WarnContext(ctx, "cannot lease, trying again", "lane", l.name, "kind", k.Name, "references", len(claims), "error", err)
			l.worker.metrics.trouble.Inc()
			pause.For(l.worker.soft, wait.Next())
		}
	}
}

// pair joins claims of the same reference out of several messages: it is leased and
// performed once, and ends for all of them.
func (l *lane) pair(claims []*claim) []*claim {
	first := make(map[job.Ref]*claim, len(claims))
	kept := claims[:0:len(claims)]
	for _, c := range claims {
		if other := first[c.ref]; other != nil {
			c.twin, other.twin = other.twin, c
			l.slots.give(1)
			continue
		}
		first[c.ref] = c
		kept = append(kept, c)
	}
	return kept
}

// leaseOnce makes one lease call and acts on what it decided. It returns the claims
// about which nothing was decided.
func (l *lane) leaseOnce(ctx context.Context, s *session, k *kind, claims []*claim) (undecided []*claim, err error) {
	refs := refsOf(claims)
	out := s.calling(refs)
	sent := time.Now()
	for _, c := range claims {
		if c.asked.IsZero() {
			c.asked = sent
		}
	}
	var leases machine.Leases
	err = l.worker.call(func(ctx context.Context) (err error) {
		leases, err = l.worker.o.Ledger.Lease(ctx, machine.LeaseRequest{Worker: s.worker, Kind: k.Kind.Kind, Refs: refs})
		return err
	})
	if err != nil {
		leases = machine.Leases{Grants: l.readBack(ctx, s, refs, err)}
		sent = time.Time{} // nobody knows which call leased them
	} else {
		l.worker.metrics.leaseBatch.Observe(float64(len(refs)))
		l.worker.claimed()
	}
	waiting := make(map[job.Ref]*claim, len(claims))
	for _, c := range claims {
		waiting[c.ref] = c
	}
	attempts, known := s.returned(out, l.newAttempts(s, k, sent, leases.Grants, waiting))
	for _, a := range attempts {
		delete(waiting, a.claim.ref)
		l.worker.metrics.observeLease(k, &a.grant.Row)
		go l.worker.perform(a)
	}
	for _, a := range known { // it runs here already: this copy is stale
		a.cancel()
		leases.Stale = append(leases.Stale, a.claim.ref)
	}
	l.stale(k, leases.Stale, waiting)
	l.early(k, leases.Early, waiting)
	for _, c := range claims {
		if waiting[c.ref] != nil {
			undecided = append(undecided, c)
		}
	}
	return undecided, err
}

// readBack asks what a lease call of which nobody knows the end has leased. Nothing
// else happens with its references before the answer is there. A lease that is
// committed even later is found by the heartbeats.
func (l *lane) readBack(ctx context.Context, s *session, refs []job.Ref, cause error) []machine.Grant {
	if errors.Is(cause, machine.ErrWorkerEnded) {
		return nil
	}
	l.worker.log.WarnContext(ctx, "a lease call failed; reading back what it did", "references", len(refs), "error", cause)
	var grants []machine.Grant
	// Only the end of the worker ends this: an error here means that it has come.
	err := l.worker.persist(ctx, "reading leases back", func(ctx context.Context) (err error) {
		grants, err = l.worker.o.Ledger.LeasedBy(ctx, s.worker.ID, refs)
		return err
	})
	if err != nil {
		return nil
	}
	return grants
}

// stale settles references that can never be leased.
func (l *lane) stale(k *kind, refs []job.Ref, waiting map[job.Ref]*claim) {
	n := 0
	for _, ref := range refs {
		if c := waiting[ref]; c != nil {
			delete(waiting, ref)
			c.settled()
			n++
		}
	}
	l.slots.give(n)
	l.worker.metrics.stale.WithLabelValues(k.Name).Add(float64(n))
}

// early waits for references that come within a second. Those that come later are
// settled by the schedule that the ledger holds: it promotes them.
func (l *lane) early(k *kind, refs []machine.EarlyRef, waiting map[job.Ref]*claim) {
	var again []*claim
	var in time.Duration
	n := 0
	for _, e := range refs {
		c := waiting[e.Ref]
		switch {
		case c == nil:
			continue
		case e.In < soon:
			again, in = append(again, c), max(in, e.In)
		default:
			c.settled()
			n++
		}
		delete(waiting, e.Ref)
	}
	l.slots.give(n)
	l.worker.metrics.early.WithLabelValues(k.Name).Add(float64(n + len(again)))
	if len(again) > 0 {
		time.AfterFunc(in, func() { l.inbox.put(parcel{kind: k.Name, claims: again}) })
	}
}
