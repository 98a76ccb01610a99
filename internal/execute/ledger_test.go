package execute

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/memledger"
	"duly.dev/duly/pkg/job"
)

var (
	errDown  = errors.New("the ledger is down")
	errReply = errors.Join(machine.ErrUnclear, errors.New("the connection broke"))
)

// fault is what goes wrong with one call.
type fault struct {
	// fail is the call's error; nil for none.
	fail error
	// done: the call has its effect all the same, before it fails.
	done bool
	// later: the effect comes only when the test calls comeLate.
	later bool
	// wait holds the call until it is closed.
	wait chan struct{}
}

// books is the ledger in memory with its relay built in, an ear for what the worker
// asks, and faults on request.
type books struct {
	*memledger.Ledger
	t   *testing.T
	bus bus.Publisher

	mu       sync.Mutex
	jobs     map[int64]job.Spec
	lanes    map[string]bool
	workers  map[string]bool // alive
	leases   [][]job.Ref
	settles  [][]machine.Report
	settled  map[machine.Attempt]int
	held     []holding
	marks    []int64
	rejects  []string
	copies   int64
	late     []func()
	beats    int
	binds    int
	onBind   func(n int) fault
	onLease  func(n int, r machine.LeaseRequest) fault
	onSettle func(n int, reports []machine.Report) fault
	locked   map[int64]bool // jobs whose rows somebody has locked when they are settled
	busy     map[int64]bool // and when they are leased or held
	onBeat   func(n int) fault
	onEach   func(doing string) error // every other call
}

type holding struct {
	refs []job.Ref
	why  job.Hold
	d    time.Duration
}

func newBooks(t *testing.T, p bus.Publisher) *books {
	t.Helper()
	return &books{
		Ledger: memledger.New(), t: t, bus: p, jobs: map[int64]job.Spec{}, lanes: map[string]bool{},
		workers: map[string]bool{}, settled: map[machine.Attempt]int{},
	}
}

// know makes the kinds known.
func (b *books) know(kinds ...machine.Kind) {
	require.NoError(b.t, b.SyncKinds(context.Background(), kinds))
	b.with(func() {
		for _, k := range kinds {
			b.lanes[k.Lane] = true
		}
	})
}

// enqueue adds jobs in one transaction, not relayed yet, and returns their references.
func (b *books) enqueue(specs ...job.Spec) []job.Ref {
	made, err := b.Enqueue(context.Background(), specs)
	require.NoError(b.t, err)
	refs := make([]job.Ref, len(made))
	for i, m := range made {
		require.NoError(b.t, m.Refused)
		b.with(func() { b.jobs[m.Job] = specs[i] })
		refs[i] = job.Ref{Job: m.Job, Generation: 1, Emission: 1}
	}
	return refs
}

// tried adds a job, has another worker try it with the given result, and returns the
// reference of its next emission, which nobody has announced.
func (b *books) tried(k machine.Kind, spec job.Spec, r job.Result) job.Ref {
	ctx := context.Background()
	refs := b.enqueue(spec)
	other := machine.Worker{ID: "another-" + spec.Key, LeaseTime: defaultLeaseTime}
	require.NoError(b.t, b.Ledger.RegisterWorker(ctx, other))
	leases, err := b.Ledger.Lease(ctx, machine.LeaseRequest{Worker: other, Kind: k, Refs: refs})
	require.NoError(b.t, err)
	g := leases.Grants[0]
	_, err = b.Ledger.Settle(ctx, other, []machine.Report{{
		Attempt: machine.Attempt{Job: g.Row.Job, Generation: 1, Fence: g.Row.Fence}, Result: r, Kind: &g.Row.Kind,
	}})
	require.NoError(b.t, err)
	b.pass(false)
	row := b.row(refs[0].Job)
	return job.Ref{Job: row.Job, Generation: row.Generation, Emission: row.Emission}
}

// row is the current generation of a job.
func (b *books) row(id int64) machine.Row {
	var spec job.Spec
	b.with(func() { spec = b.jobs[id] })
	story, err := b.Show(context.Background(), spec.Kind, spec.Key)
	require.NoError(b.t, err)
	now, ok := story.Current()
	require.True(b.t, ok)
	return now.Row
}

// knows reports whether there is such a job.
func (b *books) knows(id int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.jobs[id]
	return ok
}

const relayer = "the test"

// relay publishes what the outbox holds, as the dispatcher does.
func (b *books) relay() { b.pass(true) }

// pass moves the cursors to the end, and publishes what is before it or does not.
func (b *books) pass(publish bool) {
	ctx := context.Background()
	var lanes []string
	b.with(func() {
		for lane := range b.lanes {
			lanes = append(lanes, lane)
		}
	})
	for _, lane := range lanes {
		_, err := b.ClaimTopic(ctx, lane, relayer, time.Hour)
		require.NoError(b.t, err)
		page, err := b.ReadOutbox(ctx, lane, relayer, 1000)
		require.NoError(b.t, err)
		if err := b.Advance(ctx, lane, relayer, page); err != nil {
			continue // another call relays the same rows
		}
		for _, row := range page.Rows {
			if publish {
				b.publish(bus.Envelope{Kind: row.Kind, Lane: lane, Refs: row.Refs, Outbox: []int64{row.ID}, At: row.At}.Message())
			}
		}
	}
}

// announce publishes references as one message of its own.
func (b *books) announce(kind, lane string, refs ...job.Ref) {
	var n int64
	b.with(func() { b.copies--; n = b.copies })
	b.publish(bus.Envelope{Kind: kind, Lane: lane, Refs: refs, Outbox: []int64{n}}.Message())
}

func (b *books) publish(m bus.Message) {
	if err := b.bus.Publish(context.Background(), []bus.Message{m})[0]; err != nil {
		b.t.Errorf("publishing: %v", err)
	}
}

// promote makes ready what is due, as a scheduler does.
func (b *books) promote() {
	_, err := b.Promote(context.Background(), machine.Position{}, 1000)
	require.NoError(b.t, err)
	b.relay()
}

// endWorker ends a worker's row, as the sweep does, and its leases where asked.
func (b *books) endWorker(id string, leases bool) {
	require.NoError(b.t, b.Ledger.EndWorker(context.Background(), id))
	b.with(func() { b.workers[id] = false })
	if leases {
		_, err := b.EndLeasesOf(context.Background(), id, time.Time{}, 1000)
		require.NoError(b.t, err)
		b.relay()
	}
}

// meet acts on a fault around do, which returns the call's own error.
func (b *books) meet(ctx context.Context, f fault, do func() error) error {
	if f.wait != nil {
		select {
		case <-f.wait:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	switch {
	case f.later:
		b.with(func() { b.late = append(b.late, func() { _ = do() }) }) // its caller is gone
	case f.done:
		_ = do() // its caller learns something else
	case f.fail == nil:
		return do()
	}
	return f.fail
}

// comeLate lets everything happen that was to come later.
func (b *books) comeLate() {
	var late []func()
	b.with(func() { late, b.late = b.late, nil })
	for _, do := range late {
		do()
	}
}

func (b *books) Lease(ctx context.Context, r machine.LeaseRequest) (out machine.Leases, err error) {
	var f fault
	b.with(func() {
		b.leases = append(b.leases, slices.Clone(r.Refs))
		if b.onLease != nil {
			f = b.onLease(len(b.leases), r)
		}
	})
	err = b.meet(ctx, f, func() (err error) {
		var locked []machine.EarlyRef
		b.with(func() {
			r.Refs = slices.DeleteFunc(slices.Clone(r.Refs), func(ref job.Ref) bool {
				if b.busy[ref.Job] {
					locked = append(locked, machine.EarlyRef{Ref: ref, In: lockedFor, Locked: true})
				}
				return b.busy[ref.Job]
			})
		})
		out, err = b.Ledger.Lease(context.WithoutCancel(ctx), r) // it may come late
		out.Early = append(out.Early, locked...)
		b.relay()
		return err
	})
	if err != nil {
		return machine.Leases{}, err
	}
	return out, nil
}

func (b *books) Settle(ctx context.Context, w machine.Worker, reports []machine.Report) (out []machine.Settled, err error) {
	var f fault
	b.with(func() {
		b.settles = append(b.settles, slices.Clone(reports))
		if b.onSettle != nil {
			f = b.onSettle(len(b.settles), reports)
		}
	})
	err = b.meet(ctx, f, func() (err error) {
		var free []machine.Report
		b.with(func() {
			for _, r := range reports {
				if !b.locked[r.Job] {
					free = append(free, r)
				}
			}
		})
		settled, err := b.Ledger.Settle(ctx, w, free)
		if err != nil {
			return err
		}
		out = make([]machine.Settled, len(reports))
		for i, r := range reports {
			out[i] = machine.Settled{Attempt: r.Attempt, Pending: true}
			if len(settled) > 0 && settled[0].Attempt == r.Attempt {
				out[i], settled = settled[0], settled[1:]
			}
		}
		reports = free
		b.with(func() {
			for _, r := range reports {
				b.settled[r.Attempt]++
			}
		})
		b.relay()
		return err
	})
	return out, err
}

func (b *books) Heartbeat(ctx context.Context, workerID string) (held []machine.Attempt, err error) {
	var f fault
	b.with(func() {
		b.beats++
		if b.onBeat != nil {
			f = b.onBeat(b.beats)
		}
	})
	err = b.meet(ctx, f, func() (err error) {
		held, err = b.Ledger.Heartbeat(ctx, workerID)
		return err
	})
	return held, err
}

// each is what goes wrong with the rarer calls.
func (b *books) each(doing string) error {
	var on func(string) error
	b.with(func() { on = b.onEach })
	if on == nil {
		return nil
	}
	return on(doing)
}

func (b *books) Bind(ctx context.Context, w machine.Worker, bindings []machine.Binding) (taken []bool, err error) {
	var f fault
	b.with(func() {
		b.binds++
		if b.onBind != nil {
			f = b.onBind(b.binds)
		}
	})
	err = b.meet(ctx, f, func() (err error) {
		taken, err = b.Ledger.Bind(context.WithoutCancel(ctx), w, bindings)
		return err
	})
	return taken, err
}

func (b *books) LeasedBy(ctx context.Context, workerID string, refs []job.Ref) ([]machine.Grant, error) {
	if err := b.each("leased by"); err != nil {
		return nil, err
	}
	return b.Ledger.LeasedBy(ctx, workerID, refs)
}

func (b *books) HoldRefs(ctx context.Context, refs []job.Ref, why job.Hold, d time.Duration) (locked []job.Ref, err error) {
	if err := b.each("hold"); err != nil {
		return nil, err
	}
	var free []job.Ref
	b.with(func() {
		for _, r := range refs {
			if b.busy[r.Job] {
				locked = append(locked, r)
			} else {
				free = append(free, r)
			}
		}
		b.held = append(b.held, holding{slices.Clone(free), why, d})
	})
	_, err = b.Ledger.HoldRefs(ctx, free, why, d)
	return locked, err
}

func (b *books) PassMark(ctx context.Context, lane string, partition int32, number int64) error {
	if err := b.each("mark"); err != nil {
		return err
	}
	b.with(func() { b.marks = append(b.marks, number) })
	return b.Ledger.PassMark(ctx, lane, partition, number)
}

func (b *books) Reject(ctx context.Context, source, sourceID string, body []byte, cause error) error {
	if err := b.each("reject"); err != nil {
		return err
	}
	b.with(func() { b.rejects = append(b.rejects, fmt.Sprintf("%s %s: %v", source, sourceID, cause)) })
	return b.Ledger.Reject(ctx, source, sourceID, body, cause)
}

func (b *books) RegisterWorker(ctx context.Context, w machine.Worker) error {
	if err := b.each("register"); err != nil {
		return err
	}
	b.with(func() { b.workers[w.ID] = true })
	return b.Ledger.RegisterWorker(ctx, w)
}

func (b *books) EndWorker(ctx context.Context, workerID string) error {
	if err := b.each("end"); err != nil {
		return err
	}
	b.with(func() { b.workers[workerID] = false })
	return b.Ledger.EndWorker(ctx, workerID)
}

// alive are the ids of the workers that live.
func (b *books) alive() (ids []string) {
	b.with(func() {
		for id, alive := range b.workers {
			if alive {
				ids = append(ids, id)
			}
		}
	})
	return ids
}

// with reads or changes the books under their lock.
func (b *books) with(do func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	do()
}
