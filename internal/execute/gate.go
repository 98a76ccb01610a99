package execute

import (
	"cmp"
	"fmt"
	"time"

	"duly.dev/duly/internal/failpoint"
)

// refusal is why an attempt must not begin. The set is closed; it is a metric label.
type refusal string

const (
	refusedLease     refusal = "lease"     // the effect would not fit into what is left of the lease
	refusedEnded     refusal = "ended"     // the ledger has ended the worker's row
	refusedSuspended refusal = "suspended" // the clocks have moved apart since the last renewal
	refusedDrain     refusal = "drain"     // the effect would not fit into what is left of the drain
	refusedDeadline  refusal = "deadline"  // the deadline has passed
	refusedWindow    refusal = "window"    // a repeat would not fit into the receiver's window
	refusedLimit     refusal = "limit"     // the attempt's own limit is over
)

// reasons says each refusal in words.
var reasons = map[refusal]string{
	refusedLease:     "the limit does not fit into what is left of the lease",
	refusedEnded:     "the worker's row was ended in the ledger",
	refusedSuspended: "the machine was suspended, or its clock was set, since the last renewal of the lease",
	refusedDrain:     "the limit does not fit into what is left of the shutdown",
	refusedDeadline:  "the deadline has passed",
	refusedWindow:    "a repeat would not end inside the receiver's window",
	refusedLimit:     "the limit was over before it began",
}

// errNotBegun is what Effect.Begin returns when it refuses.
type errNotBegun struct{ why refusal }

// Error says why the attempt did not begin.
func (e errNotBegun) Error() string { return "not begun: " + reasons[e.why] }

// begin is channel.Effect.Begin: the last check before the first byte. Everything
// is measured on the monotonic clock, from instants at which something was sent.
func (a *attempt) begin() error {
	if why := a.mayNot(time.Now()); why != "" {
		a.refused.Store(true)
		a.worker.metrics.refused.WithLabelValues(string(why)).Inc()
		return errNotBegun{why}
	}
	a.begun.Store(true)
	failpoint.Pass(failpoint.WorkerBegun)
	return nil
}

// mayNot says why the attempt must not begin at now; empty when it may.
func (a *attempt) mayNot(now time.Time) refusal {
	limit := a.limit()
	left, why := a.session.left(now)
	// A lease also ends by itself, one limit and one lease time after it was taken.
	left = min(left, a.leaseSent.Add(limit+a.session.worker.LeaseTime).Sub(now))
	if left < a.worker.need(a.kind) {
		return why
	}
	if end := a.worker.drainEnd.Load(); end != nil && now.Add(limit).After(*end) {
		return refusedDrain
	}
	// The ledger's clock now, at the latest: the lease was taken after it was sent.
	row := &a.grant.Row
	ledgerNow := row.LeasedAt.Add(now.Sub(a.leaseSent))
	switch {
	case !row.Deadline.IsZero() && !ledgerNow.Before(row.Deadline):
		return refusedDeadline
	case !row.DoubtSince.IsZero() && !row.Repeatable(ledgerNow):
		return refusedWindow
	case a.ctx.errAt(now) != nil:
		return refusedLimit
	}
	return ""
}

// need is how much of the lease must be left for an effect of the kind to begin: its
// whole limit, since nothing but the limit ends it. A Go handler lives on renewals
// and is ended before its lease is, so it only needs a good start.
func (w *Worker) need(k *kind) time.Duration {
	if k.Handler {
		return min(k.Policy.Limit, w.o.LeaseTime/2)
	}
	return k.Policy.Limit
}

// checkLimit refuses a kind whose effects could never begin.
func (o Options) checkLimit(k Kind) error {
	most, resolve := o.LeaseTime-o.Heartbeat, time.Duration(0)
	if k.Resolve != nil {
		resolve = cmp.Or(k.Resolve.Timeout, defaultResolveTimeout)
	}
	switch {
	case resolve < 0 || k.Resolve != nil && k.Resolve.Resolver == nil:
		return fmt.Errorf("kind %s: its resolve needs a resolver, and a timeout above 0", k.Name)
	case k.Handler && resolve >= most/2:
		return fmt.Errorf("kind %s: the timeout of its resolve, %s: it must be below half of lease time − heartbeat (%s)", k.Name, resolve, most/2)
	case !k.Handler && k.Policy.Limit+resolve >= most:
		return fmt.Errorf("kind %s: limit %s, and %s for its resolve: together they must be below lease time − heartbeat (%s), or no effect could begin", k.Name, k.Policy.Limit, resolve, most)
	}
	return nil
}
