package execute

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"duly.dev/duly/internal/channel"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// Binder stores where attempts are sent.
type Binder interface {
	// Bind stores, durably, where the worker is about to send attempts, and says of each, in
	// their order, whether it was taken. One that was not must not begin: its lease is over,
	// or an earlier attempt that may have happened went elsewhere. It is idempotent.
	Bind(ctx context.Context, w machine.Worker, bindings []machine.Binding) ([]bool, error)
}

// Resolve says how the destinations of a kind's jobs are asked for.
type Resolve struct {
	// Resolver is asked.
	Resolver channel.Resolver
	// Timeout is the longest that an answer may take; default 5 s.
	Timeout time.Duration
	// Plain keeps the address itself in the receipt; else job.ToHash of it.
	Plain bool
}

// defaultResolveTimeout is Resolve.Timeout where it is 0.
const defaultResolveTimeout = 5 * time.Second

// The phases of an attempt before it begins.
const (
	phaseOn        = iota // it runs, or may
	phaseResolving        // its destination is asked for
	phaseOver             // it was given up meanwhile, and never begins
)

// begin performs the attempts that were admitted. Those whose destination is to be asked
// for first are asked about together, and hold up neither the others nor the lane.
func (l *lane) begin(k *kind, attempts []*attempt) {
	var late []*attempt
	now := attempts[:0:len(attempts)]
	for _, a := range attempts {
		switch {
		case a.grant.Resolves():
			a.phase.Store(phaseResolving)
			late = append(late, a)
			continue
		case a.grant.Repeats():
			a.sendTo(a.grant.Bound.Address)
		case a.grant.Row.Promises.Resolve != "": // a person has given it
			a.sendTo(a.grant.Destination)
		}
		now = append(now, a)
	}
	l.worker.crew.start(now)
	if len(late) > 0 {
		go l.worker.resolve(k, late)
	}
}

// sendTo sets where the attempt goes, for its receipt too.
func (a *attempt) sendTo(address string) { a.grant.Destination, a.bound = address, address }

// saying is the result with where the effect went in its receipt, if that was asked for.
func (a *attempt) saying(r job.Result) job.Result {
	if a.bound == "" || r.Receipt == nil {
		return r
	}
	receipt := *r.Receipt
	receipt.To = job.ToHash(a.effectKey(), a.bound)
	if a.kind.Resolve != nil && a.kind.Resolve.Plain {
		receipt.To = a.bound
	}
	r.Receipt = &receipt
	return r
}

// resolve asks where the attempts go, stores it, and then performs them. Nothing was sent
// yet: whatever goes wrong is an effect that did not happen.
func (w *Worker) resolve(k *kind, attempts []*attempt) {
	addresses, by := w.addresses(k, attempts)
	var bind []*attempt
	var bindings []machine.Binding
	for i, a := range attempts {
		address := addresses[i]
		if address.Destination != "" {
			address = checked(k, a, address)
		}
		if address.Destination == "" {
			w.metrics.resolutions.WithLabelValues(k.Name, string(address.Why.Class)).Inc()
			address.Why.Detail = "its destination: " + address.Why.Detail
			w.abandon(a, address.Why)
			continue
		}
		a.sendTo(address.Destination)
		bind, bindings = append(bind, a), append(bindings, machine.Binding{Attempt: a.id, Address: address.Destination, By: by})
	}
	if len(bind) == 0 {
		return
	}
	taken, err := w.bind(bind[0].session, bindings)
	var begin []*attempt
	for i, a := range bind {
		a.ctx.restart(time.Now().Add(a.limit())) // the time of the asking is not the effect's
		switch {
		case err != nil:
			w.abandon(a, job.NotBegun("where it was to go could not be stored"))
		case !taken[i]:
			w.abandon(a, job.NotBegun("its lease was over before it was stored where it was to go"))
		case !a.phase.CompareAndSwap(phaseResolving, phaseOn):
			w.abandon(a, job.Result{}) // it was reported by whoever gave it up
		default:
			begin = append(begin, a)
		}
	}
	w.metrics.resolutions.WithLabelValues(k.Name, resolved).Add(float64(len(begin)))
	w.crew.start(begin)
}

// resolved is the label of destinations that were found; the others are classes.
const resolved = "resolved"

// abandon reports an attempt that does not begin, unless it was given up before, and frees
// its slot.
func (w *Worker) abandon(a *attempt, r job.Result) {
	if a.phase.CompareAndSwap(phaseResolving, phaseOver) {
		w.report(a, judge(r, false, false))
	}
	a.cancel()
	a.lane.slots.give(1)
}

// bind stores where attempts go. While the ledger does not answer it tries again, for no
// longer than a lease is good.
func (w *Worker) bind(s *session, bindings []machine.Binding) (taken []bool, err error) {
	ctx, cancel := context.WithTimeout(w.work, w.o.LeaseTime/2)
	defer cancel()
	err = w.persist(ctx, "storing where attempts go", func(ctx context.Context) (err error) {
		taken, err = w.o.Ledger.Bind(ctx, s.worker, bindings)
		return err
	})
	return taken, err
}

// addresses asks where the attempts go, and says by which means that was found. A resolver
// that does not return in time is left alone.
func (w *Worker) addresses(k *kind, attempts []*attempt) ([]channel.Address, machine.Means) {
	if k.Resolve == nil {
		return given(attempts), machine.MeansGiven
	}
	jobs := make([]channel.Addressee, len(attempts))
	for i, a := range attempts {
		g := a.grant
		jobs[i] = channel.Addressee{
			Kind: k.Name, Key: g.Key, Subject: g.Subject, Period: g.Period, Destination: g.Destination, Generation: g.Row.Generation,
		}
	}
	timeout := cmp.Or(k.Resolve.Timeout, defaultResolveTimeout)
	ctx, cancel := context.WithTimeout(w.work, timeout)
	defer cancel()
	answered := make(chan []channel.Address, 1)
	go func() {
		answer := channel.Unresolved(len(jobs), job.NotDone(job.ClassTransient, job.CodeHandlerError, "the resolve ended its goroutine"))
		defer func() { answered <- answer }()
		defer func() {
			if v := recover(); v != nil {
				w.log.ErrorContext(ctx, "a resolve panicked", "kind", k.Name, "stack", string(debug.Stack()))
				answer = channel.Unresolved(len(jobs), job.NotDone(job.ClassTransient, job.CodeHandlerPanic, fmt.Sprintf("the resolve panicked (%T)%s", v, panicPlace())))
			}
		}()
		answer = k.Resolve.Resolver.Resolve(ctx, jobs)
	}()
	select {
	case answer := <-answered:
		return answer, k.Promises.Resolve
	case <-ctx.Done():
	}
	select { // a resolver that is done in time, at the last moment
	case answer := <-answered:
		return answer, k.Promises.Resolve
	case <-time.After(resolveGrace):
	}
	return channel.Unresolved(len(jobs), job.NotDone(job.ClassTransient, job.CodeTimeout, fmt.Sprintf("no answer in %s", timeout))), k.Promises.Resolve
}

// resolveGrace is what a resolver has to return once its context has ended.
const resolveGrace = 500 * time.Millisecond

// given are the addresses that jobs have, whose kind has nothing any more by which they
// could be asked for.
func given(attempts []*attempt) []channel.Address {
	all := make([]channel.Address, len(attempts))
	for i, a := range attempts {
		if all[i].Destination = a.grant.Destination; a.grant.Destination == "" {
			all[i] = channel.NoAddress("the kind has no resolve any more, and the job was given no destination")
		}
	}
	return all
}

// checked is the address, unless it is one that cannot be kept or that the kind's channel
// cannot use. What is wrong with it is told without it.
func checked(k *kind, a *attempt, address channel.Address) channel.Address {
	if err := job.CheckText("destination", address.Destination, job.MaxDestination, false); err != nil {
		return channel.NoAddress("what was found is no destination: " + job.Refusals(err)[0].Rule.Text())
	}
	if refusal := k.Performer.Check(address.Destination, a.grant.Payload); refusal != nil {
		why := refusal.Rule.Text()
		if refusal.Field != "destination" {
			why = refusal.Field + ": " + why
		}
		return channel.NoAddress("what was found cannot be used: " + why)
	}
	return address
}
