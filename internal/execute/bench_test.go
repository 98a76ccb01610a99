package execute

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/channel/gochan"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/handler"
	"duly.dev/duly/pkg/job"
)

// benchPack is how many references a message of the benchmark has.
const benchPack = 500

// BenchmarkWorker is what a worker itself costs a job, from the body of a message to its
// acknowledgement, beside a ledger and a bus that cost next to nothing and a handler
// that does nothing.
func BenchmarkWorker(b *testing.B) {
	kind := machine.Kind{Name: "no-op", Lane: "bench", Channel: gochan.Name, Policy: machine.DefaultPolicy(), Promises: machine.DefaultPromises(10 * time.Second)}
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	source := &endless{jobs: int64(b.N), acked: stop}
	nothing := handler.Func(func(context.Context, handler.Job) error { return nil })
	w, err := New(Options{
		Ledger: yes{}, Heart: yes{}, Bus: source, Metrics: prometheus.NewRegistry(), Slots: 2000,
		Kinds: []Kind{{Kind: kind, Performer: gochan.New(nothing), Handler: true}},
		Lanes: []Lane{{Name: "bench", Pack: benchPack}},
	})
	require.NoError(b, err)
	b.ReportAllocs()
	b.ResetTimer()
	require.NoError(b, w.Run(ctx))
}

// yes is a ledger that says yes to everything.
type yes struct {
	Clerk
	Binder
}

func (yes) RegisterWorker(context.Context, machine.Worker) error                 { return nil }
func (yes) Heartbeat(context.Context, string) ([]machine.Attempt, error)         { return nil, nil }
func (yes) EndWorker(context.Context, string) error                              { return nil }
func (yes) LeasedBy(context.Context, string, []job.Ref) ([]machine.Grant, error) { return nil, nil }

func (yes) Lease(_ context.Context, r machine.LeaseRequest) (machine.Leases, error) {
	now := time.Now()
	l := machine.Leases{Now: now, Grants: make([]machine.Grant, len(r.Refs))}
	for i, ref := range r.Refs {
		l.Grants[i].Key = "key"
		row := &l.Grants[i].Row
		row.Job, row.Generation, row.Emission, row.Kind, row.State = ref.Job, ref.Generation, ref.Emission, r.Kind, job.Leased
		row.Attempt, row.Fence, row.Created, row.Due, row.LeasedAt = 1, 1, now, now, now
		row.Limit, row.Fixed, row.Channel, row.Promises = r.Kind.Policy.Limit, true, r.Kind.Channel, r.Kind.Promises
	}
	return l, nil
}

func (yes) Settle(_ context.Context, _ machine.Worker, reports []machine.Report) ([]machine.Settled, error) {
	settled := make([]machine.Settled, len(reports))
	for i := range reports {
		settled[i] = machine.Settled{Attempt: reports[i].Attempt, State: job.Delivered}
	}
	return settled, nil
}

// endless is a bus on which there is always another message, until there were as many
// jobs as asked for.
type endless struct {
	jobs, sent, done int64
	acked            func() // called when all messages were acknowledged
}

func (e *endless) Consume(context.Context, string) (bus.Consumer, error) { return e, nil }
func (e *endless) Healthy() error                                        { return nil }
func (e *endless) Close() error                                          { return nil }

func (e *endless) Receive(ctx context.Context, limit int) ([]bus.Delivery, error) {
	var out []bus.Delivery
	for ; limit > 0 && e.sent < e.jobs; limit-- {
		envelope := bus.Envelope{Kind: "no-op", Lane: "bench", Refs: make([]job.Ref, min(benchPack, e.jobs-e.sent)), Outbox: []int64{1}}
		for i := range envelope.Refs {
			e.sent++
			envelope.Refs[i] = job.Ref{Job: e.sent, Generation: 1, Emission: 1}
		}
		out = append(out, &benchDelivery{e, envelope.Message(), int64(len(envelope.Refs))})
	}
	if len(out) == 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return out, nil
}

type benchDelivery struct {
	bus     *endless
	message bus.Message
	refs    int64
}

func (d *benchDelivery) Message() bus.Message { return d.message }
func (d *benchDelivery) Release() error       { return nil }

func (d *benchDelivery) Ack() error {
	if atomic.AddInt64(&d.bus.done, d.refs) == d.bus.jobs {
		d.bus.acked()
	}
	return nil
}
