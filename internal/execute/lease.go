package execute

import (
	"context"
	"errors"
	"slices"
	"time"

	"duly.dev/duly/internal/failpoint"
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

// pair sorts claims and joins those of the same reference out of several messages: it is
// leased and performed once, and ends for all of them.
func (l *lane) pair(claims []*claim) []*claim {
	if !slices.IsSortedFunc(claims, byRef) {
		slices.SortStableFunc(claims, byRef)
	}
	kept := claims[:0:len(claims)]
	for _, c := range claims {
		if n := len(kept); n > 0 && kept[n-1].ref == c.ref {
			kept[n-1].join(c)
			l.slots.give(1)
			continue
		}
		kept = append(kept, c)
	}
	return kept
}

func byRef(a, b *claim) int { return a.ref.Compare(b.ref) }

// asking is what one lease call asks for, in the order of references, each once.
type asking struct {
	claims []*claim
	next   int // where the next answer is, if answers come in order
}

// take returns the claim of the reference, unless it was not asked for or was taken.
func (a *asking) take(ref job.Ref) *claim {
	i := a.next
	if i >= len(a.claims) || a.claims[i].ref != ref {
		var ok bool
		if i, ok = slices.BinarySearchFunc(a.claims, ref, func(c *claim, ref job.Ref) int { return c.ref.Compare(ref) }); !ok {
			return nil
		}
	}
	a.next = i + 1
	if c := a.claims[i]; !c.decided {
		c.decided = true
		return c
	}
	return nil
}

// leaseOnce makes one lease call and acts on what it decided. It returns the claims
// about which nothing was decided.
func (l *lane) leaseOnce(ctx context.Context, s *session, k *kind, claims []*claim) (undecided []*claim, err error) {
	refs := refsOf(claims)
	out := s.calling(refs)
	sent := time.Now()
	for _, c := range claims {
		c.decided = false
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
	asked := asking{claims: claims}
	attempts, known := s.returned(out, l.newAttempts(s, k, sent, leases.Grants, &asked))
	for _, a := range attempts {
		failpoint.Pass(failpoint.WorkerLeased)
		l.worker.metrics.observeLease(k, &a.grant.Row)
	}
	l.begin(k, attempts)
	stale := make([]*claim, 0, len(known)+len(leases.Stale))
	for _, a := range known { // it runs here already: this copy is stale
		a.cancel()
		stale = append(stale, a.claim)
	}
	for _, ref := range leases.Stale {
		if c := asked.take(ref); c != nil {
			stale = append(stale, c)
		}
	}
	l.stale(k, stale)
	l.early(k, leases.Early, &asked)
	for _, c := range claims {
		if !c.decided {
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
func (l *lane) stale(k *kind, claims []*claim) {
	if len(claims) == 0 {
		return
	}
	for _, c := range claims {
		c.settled()
	}
	l.slots.give(len(claims))
	k.stale.Add(float64(len(claims)))
}

// early waits for references that come within a second, or whose rows somebody has locked
// for the moment. Those that come later are
// settled by the schedule that the ledger holds: it promotes them.
func (l *lane) early(k *kind, refs []machine.EarlyRef, asked *asking) {
	if len(refs) == 0 {
		return
	}
	var again []*claim
	var in time.Duration
	n := 0
	for _, e := range refs {
		c := asked.take(e.Ref)
		if c == nil {
			continue
		}
		if e.Locked {
			k.locked.Inc()
		} else {
			k.early.Inc()
		}
		if e.In < soon {
			again, in = append(again, c), max(in, e.In)
			continue
		}
		c.settled()
		n++
	}
	l.slots.give(n)
	if len(again) > 0 {
		time.AfterFunc(in, func() { l.inbox.put(parcel{kind: k.Name, claims: again}) })
	}
}
