package execute

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

var errDown = errors.New("the ledger is down")

// fault is what goes wrong with one call.
type fault struct {
	// fail is the call's error; nil for none.
	fail error
	// done: the call has its effect all the same, before it fails.
	done bool
	// later: the effect comes only when the test calls books.late.
	later bool
	// wait holds the call until it is closed.
	wait chan struct{}
}

// books is the ledger of these tests: a map and machine.Next, with its relay built
// in, and faults on request.
type books struct {
	t   *testing.T
	bus bus.Publisher

	mu       sync.Mutex
	jobs     map[int64]*machine.Row
	bodies   map[int64]machine.Grant
	workers  map[string]bool // alive
	records  []machine.Record
	leases   [][]job.Ref
	settles  [][]machine.Report
	settled  map[machine.Attempt]int
	held     []holding
	marks    []int64
	rejects  []string
	outbox   int64
	late     []func()
	ended    []string
	onLease  func(n int, r machine.LeaseRequest) fault
	onSettle func(n int, reports []machine.Report) fault
	onBeat   func(n int) fault
	onEach   func(doing string) error // every other call
	beats    int
}

type holding struct {
	refs []job.Ref
	why  job.Hold
	d    time.Duration
}

func newBooks(t *testing.T, p bus.Publisher) *books {
	t.Helper()
	return &books{
		t: t, bus: p, jobs: map[int64]*machine.Row{}, bodies: map[int64]machine.Grant{}, workers: map[string]bool{},
		settled: map[machine.Attempt]int{},
	}
}

// put adds a job that is due now and returns its reference, without announcing it.
func (b *books) put(k machine.Kind, g machine.Grant) job.Ref {
	b.mu.Lock()
	defer b.mu.Unlock()
	id := int64(len(b.jobs) + 1)
	row, _ := machine.Begin(k, time.Time{}, g.Row.Deadline, time.Now())
	row.Job = id
	b.jobs[id], b.bodies[id] = &row, g
	return job.Ref{Job: id, Generation: row.Generation, Emission: row.Emission}
}

// change puts a job's row into a state that the test needs.
func (b *books) change(id int64, do func(*machine.Row)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	do(b.jobs[id])
}

func (b *books) row(id int64) machine.Row {
	b.mu.Lock()
	defer b.mu.Unlock()
	return *b.jobs[id]
}

// announce publishes references as one message.
func (b *books) announce(kind, lane string, refs ...job.Ref) {
	b.mu.Lock()
	b.outbox++
	e := bus.Envelope{Kind: kind, Lane: lane, Refs: refs, Outbox: []int64{b.outbox}}
	b.mu.Unlock()
	b.publish(e.Message())
}

func (b *books) publish(m bus.Message) {
	if err := b.bus.Publish(context.Background(), []bus.Message{m})[0]; err != nil {
		b.t.Errorf("publishing: %v", err)
	}
}

// apply decides an event, with the lock held, and returns what to publish.
func (b *books) apply(id int64, ev machine.Event) (machine.Row, machine.Change, []bus.Message) {
	row := b.jobs[id]
	next, change := machine.Next(*row, ev, time.Now())
	if change.Refused != machine.Applied {
		return *row, change, nil
	}
	*row = next
	if change.Record != nil {
		b.records = append(b.records, *change.Record)
	}
	var messages []bus.Message
	for _, e := range change.Emissions {
		if e.Dead {
			continue
		}
		b.outbox++
		messages = append(messages, bus.Envelope{
			Kind: row.Kind.Name, Lane: row.Kind.Lane, Outbox: []int64{b.outbox}, At: e.At,
			Refs: []job.Ref{{Job: id, Generation: row.Generation, Emission: e.Number}},
		}.Message())
	}
	return next, change, messages
}

func (b *books) publishAll(messages []bus.Message) {
	for _, m := range messages {
		b.publish(m)
	}
}

func (b *books) each(doing string) error {
	b.mu.Lock()
	on := b.onEach
	b.mu.Unlock()
	if on == nil {
		return nil
	}
	return on(doing)
}

// meet acts on a fault around do.
func (b *books) meet(ctx context.Context, f fault, do func()) error {
	if f.wait != nil {
		select {
		case <-f.wait:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	switch {
	case f.later:
		b.mu.Lock()
		b.late = append(b.late, do)
		b.mu.Unlock()
	case f.fail == nil || f.done:
		do()
	}
	return f.fail
}

// comeLate lets everything happen that was to come later.
func (b *books) comeLate() {
	b.mu.Lock()
	late := b.late
	b.late = nil
	b.mu.Unlock()
	for _, do := range late {
		do()
	}
}

func (b *books) Lease(ctx context.Context, r machine.LeaseRequest) (machine.Leases, error) {
	b.mu.Lock()
	b.leases = append(b.leases, slices.Clone(r.Refs))
	f := fault{}
	if b.onLease != nil {
		f = b.onLease(len(b.leases), r)
	}
	b.mu.Unlock()
	var out machine.Leases
	var ended bool
	err := b.meet(ctx, f, func() { out, ended = b.lease(r) })
	if err == nil && ended {
		err = machine.ErrWorkerEnded
	}
	if err != nil {
		return machine.Leases{}, err
	}
	return out, nil
}

func (b *books) lease(r machine.LeaseRequest) (out machine.Leases, ended bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.workers[r.Worker.ID] {
		return out, true
	}
	out.Now = time.Now()
	for _, ref := range r.Refs {
		row := b.jobs[ref.Job]
		if row == nil || row.Generation != ref.Generation {
			out.Stale = append(out.Stale, ref)
			continue
		}
		next, change, _ := b.apply(ref.Job, machine.Event{Name: machine.Lease, Emission: ref.Emission, Worker: r.Worker.ID})
		switch {
		case change.Refused == machine.Early:
			out.Early = append(out.Early, machine.EarlyRef{Ref: ref, In: next.WakeAt.Sub(out.Now)})
		case change.Refused != machine.Applied || next.State != job.Leased:
			out.Stale = append(out.Stale, ref)
		default:
			out.Grants = append(out.Grants, b.grant(next))
		}
	}
	return out, false
}

func (b *books) grant(row machine.Row) machine.Grant {
	g := b.bodies[row.Job]
	g.Row = row
	return g
}

func (b *books) LeasedBy(_ context.Context, workerID string, refs []job.Ref) ([]machine.Grant, error) {
	if err := b.each("leased by"); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []machine.Grant
	for _, ref := range refs {
		row := b.jobs[ref.Job]
		if row != nil && row.State == job.Leased && row.Worker == workerID && row.Generation == ref.Generation && row.Emission == ref.Emission {
			out = append(out, b.grant(*row))
		}
	}
	return out, nil
}

var eventOf = map[job.Outcome]machine.Name{
	job.OutcomeDelivered: machine.Done, job.OutcomeFailed: machine.NotDone,
	job.OutcomeUnknown: machine.MayBeDone, job.OutcomeNotBegun: machine.HandedBack,
}

func (b *books) Settle(ctx context.Context, w machine.Worker, reports []machine.Report) ([]machine.Settled, error) {
	b.mu.Lock()
	b.settles = append(b.settles, slices.Clone(reports))
	f := fault{}
	if b.onSettle != nil {
		f = b.onSettle(len(b.settles), reports)
	}
	b.mu.Unlock()
	var out []machine.Settled
	err := b.meet(ctx, f, func() { out = b.settle(w, reports) })
	return out, err
}

func (b *books) settle(w machine.Worker, reports []machine.Report) (out []machine.Settled) {
	b.mu.Lock()
	var messages []bus.Message
	for _, r := range reports {
		row, change, m := b.apply(r.Job, machine.Event{Name: eventOf[r.Result.Outcome], Fence: r.Fence, Result: r.Result, Worker: w.ID})
		messages = append(messages, m...)
		b.settled[r.Attempt]++
		late := change.Refused != machine.Applied || change.Record != nil && change.Record.Late
		out = append(out, machine.Settled{Attempt: r.Attempt, State: row.State, Late: late, WakeAt: row.WakeAt})
	}
	b.mu.Unlock()
	b.publishAll(messages)
	return out
}

func (b *books) HoldRefs(_ context.Context, refs []job.Ref, why job.Hold, d time.Duration) error {
	if err := b.each("hold"); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = append(b.held, holding{slices.Clone(refs), why, d})
	for _, ref := range refs {
		if row := b.jobs[ref.Job]; row != nil && row.State == job.Ready && row.Emission == ref.Emission {
			b.apply(ref.Job, machine.Event{Name: machine.Hold, Hold: why, Until: time.Now().Add(d)})
		}
	}
	return nil
}

// promote makes ready what is due, as a scheduler does.
func (b *books) promote() {
	b.mu.Lock()
	var messages []bus.Message
	for id := range b.jobs {
		_, _, m := b.apply(id, machine.Event{Name: machine.Due})
		messages = append(messages, m...)
	}
	b.mu.Unlock()
	b.publishAll(messages)
}

// endWorker ends a worker's row, as the sweep does, and then its leases.
func (b *books) endWorker(id string, leases bool) {
	b.mu.Lock()
	b.workers[id] = false
	var messages []bus.Message
	for j, row := range b.jobs {
		if leases && row.State == job.Leased && row.Worker == id {
			_, _, m := b.apply(j, machine.Event{Name: machine.LeaseEnded, Fence: row.Fence})
			messages = append(messages, m...)
		}
	}
	b.mu.Unlock()
	b.publishAll(messages)
}

func (b *books) PassMark(_ context.Context, _ string, _ int32, number int64) error {
	if err := b.each("mark"); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.marks = append(b.marks, number)
	return nil
}

func (b *books) Reject(_ context.Context, source, sourceID string, _ []byte, cause error) error {
	if err := b.each("reject"); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rejects = append(b.rejects, source+" "+sourceID+": "+cause.Error())
	return nil
}

func (b *books) RegisterWorker(_ context.Context, w machine.Worker) error {
	if err := b.each("register"); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.workers[w.ID] = true
	return nil
}

func (b *books) Heartbeat(ctx context.Context, workerID string) (held []machine.Attempt, err error) {
	b.mu.Lock()
	b.beats++
	f := fault{}
	if b.onBeat != nil {
		f = b.onBeat(b.beats)
	}
	b.mu.Unlock()
	alive := false
	err = b.meet(ctx, f, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		alive = b.workers[workerID]
		for id, row := range b.jobs {
			if row.State == job.Leased && row.Worker == workerID {
				held = append(held, machine.Attempt{Job: id, Generation: row.Generation, Fence: row.Fence})
			}
		}
	})
	if err == nil && !alive {
		err = machine.ErrWorkerEnded
	}
	return held, err
}

func (b *books) EndWorker(_ context.Context, workerID string) error {
	if err := b.each("end"); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.workers[workerID] = false
	b.ended = append(b.ended, workerID)
	return nil
}

// alive are the ids of the workers that live.
func (b *books) alive() (ids []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, alive := range b.workers {
		if alive {
			ids = append(ids, id)
		}
	}
	return ids
}

// with changes or reads the books under their lock.
func (b *books) with(do func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	do()
}
