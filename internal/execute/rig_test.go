package execute

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/bus/membus"
	"duly.dev/duly/internal/channel"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// performer is a channel whose effects are a function of the test.
type performer struct {
	do    func(ctx context.Context, e channel.Effect) job.Result
	check func(destination string) *job.Refusal

	mu      sync.Mutex
	effects []channel.Effect // that began
}

func (p *performer) Name() string { return "test" }
func (p *performer) Close() error { return nil }

func (p *performer) Check(destination string, _ []byte) *job.Refusal {
	if p.check == nil {
		return nil
	}
	return p.check(destination)
}

func (p *performer) Deliver(ctx context.Context, e channel.Effect) job.Result {
	begin := e.Begin
	e.Begin = func() error {
		err := begin()
		if err == nil {
			p.mu.Lock()
			p.effects = append(p.effects, e)
			p.mu.Unlock()
		}
		return err
	}
	p.mu.Lock()
	do := p.do
	p.mu.Unlock()
	if do != nil {
		return do(ctx, e)
	}
	if err := e.Begin(); err != nil {
		return job.NotBegun(err.Error())
	}
	return job.Done(nil)
}

// went are the destinations of the effects that began, in order.
func (p *performer) went() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for _, e := range p.effects {
		all = append(all, e.Destination)
	}
	return all
}

// perform changes what is done from now on.
func (p *performer) perform(do func(ctx context.Context, e channel.Effect) job.Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.do = do
}

// began are the keys of the effects that began, in order.
func (p *performer) began() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var keys []string
	for _, e := range p.effects {
		keys = append(keys, e.Key)
	}
	return keys
}

// rig is a worker between books and a memory bus.
type rig struct {
	t         *testing.T
	books     *books
	broker    *membus.Broker
	bus       *membus.Bus
	performer *performer
	kind      Kind
	options   Options
	worker    *Worker
	stop      context.CancelFunc
	ended     chan error
	open      chan struct{} // for tests to wait for each other; closed by them

	mu       sync.Mutex
	acked    int
	released int
	keys     map[string]int
	// copies: an acknowledgement may find its reference leased, by the message's twin.
	copies bool
}

// skew is how far the wall clock has moved against the monotonic one.
type skew struct{ atomic.Int64 }

func (s *skew) adjust(w *Worker) {
	w.wall = func(now time.Time) time.Time { return now.Round(0).Add(time.Duration(s.Load())) }
}

// newRig makes a rig in a bubble; edit changes it before New.
func newRig(t *testing.T, edit func(*rig)) *rig {
	t.Helper()
	broker := membus.NewBroker(membus.Options{DuplicateWindow: -1})
	r := &rig{t: t, broker: broker, bus: broker.Connect(), performer: &performer{}, ended: make(chan error, 1), open: make(chan struct{})}
	r.books = newBooks(t, broker.Connect())
	r.kind = Kind{Kind: machine.Kind{Name: "greeting", Lane: "mail", Channel: "test", Policy: machine.DefaultPolicy(), Promises: machine.DefaultPromises(10 * time.Second)}}
	r.options = Options{Slots: 8, Lanes: []Lane{{Name: "mail", Pack: 4}}, Label: "rig", Version: "v1"}
	if edit != nil {
		edit(r)
	}
	r.kind.Performer = r.performer
	r.options.Ledger, r.options.Heart, r.options.Bus = r.books, r.books, &witness{r.bus, r}
	if r.options.Kinds == nil {
		r.options.Kinds = []Kind{r.kind}
	}
	for _, k := range r.options.Kinds {
		r.books.know(k.Kind)
	}
	w, err := New(r.options)
	require.NoError(t, err)
	r.worker = w
	return r
}

// inBubble runs do with a started rig in a bubble, and stops the worker afterwards.
// edit changes the rig before the worker is made, adjust the worker before it runs.
func inBubble(t *testing.T, edit func(*rig), do func(t *testing.T, r *rig), adjust ...func(*Worker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, edit)
		for _, do := range adjust {
			do(r.worker)
		}
		r.start()
		t.Cleanup(func() { // also when the test has failed
			if r.stop != nil {
				r.stop()
				if err := <-r.ended; err != nil {
					t.Log(err)
				}
			}
			_ = r.bus.Close()
		})
		do(t, r)
		if r.stop != nil {
			require.NoError(t, r.shutdown())
		}
	})
}

func (r *rig) start() {
	ctx, stop := context.WithCancel(r.t.Context())
	r.stop = stop
	go func() { r.ended <- r.worker.Run(ctx) }()
	synctest.Wait()
}

// shutdown orders the worker to stop and returns what Run returned.
func (r *rig) shutdown() error {
	r.stop()
	r.stop = nil
	return <-r.ended
}

// spec is a job of the rig's kind; a key that was used before gets a number.
func (r *rig) spec(key string) job.Spec {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keys == nil {
		r.keys = map[string]int{}
	}
	if r.keys[key]++; r.keys[key] > 1 {
		key = fmt.Sprintf("%s#%d", key, r.keys[key])
	}
	return job.Spec{Kind: r.kind.Name, Key: key, Payload: []byte(`1`)}
}

// put adds jobs with the keys and announces them in one message.
func (r *rig) put(keys ...string) []job.Ref {
	specs := make([]job.Spec, len(keys))
	for i, key := range keys {
		specs[i] = r.spec(key)
	}
	refs := r.books.enqueue(specs...)
	r.books.relay()
	return refs
}

// putOf adds a job of another kind and announces it.
func (r *rig) putOf(k machine.Kind, key string) {
	r.books.know(k)
	spec := r.spec(key)
	spec.Kind = k.Name
	r.books.enqueue(spec)
	r.books.relay()
}

// settle waits until nothing moves any more without time.
func (r *rig) settle() { synctest.Wait() }

// pass lets time pass.
func (r *rig) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (r *rig) counts() (acked, released int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.acked, r.released
}

func (r *rig) requireState(id int64, want job.State, attempt int32) machine.Row {
	r.t.Helper()
	row := r.books.row(id)
	require.Equal(r.t, want, row.State)
	require.Equal(r.t, attempt, row.Attempt, "attempts that count")
	return row
}

// witness is the bus, with an eye on acknowledgements: each is checked against
// commit-before-ack.
type witness struct {
	bus.Bus
	rig *rig
}

func (w *witness) Consume(ctx context.Context, lane string) (bus.Consumer, error) {
	c, err := w.Bus.Consume(ctx, lane)
	return &watchedConsumer{c, w.rig}, err
}

type watchedConsumer struct {
	bus.Consumer
	rig *rig
}

func (c *watchedConsumer) Receive(ctx context.Context, most int) ([]bus.Delivery, error) {
	deliveries, err := c.Consumer.Receive(ctx, most)
	for i, d := range deliveries {
		deliveries[i] = &watchedDelivery{d, c.rig}
	}
	return deliveries, err
}

type watchedDelivery struct {
	bus.Delivery
	rig *rig
}

// Ack fails the test where a reference of the message is not settled in the books.
func (d *watchedDelivery) Ack() error {
	m := d.Message()
	received, err := bus.DecodeEnvelope(m.Body)
	if m.Type == bus.TypeWork && err == nil {
		for _, ref := range received.Refs {
			if !d.rig.books.knows(ref.Job) {
				continue
			}
			row := d.rig.books.row(ref.Job)
			if row.Emission == ref.Emission && (row.State == job.Ready || row.State == job.Leased && !d.rig.copies) {
				d.rig.t.Errorf("acknowledged while job %d is %s at this emission", ref.Job, row.State)
			}
		}
	}
	d.rig.mu.Lock()
	d.rig.acked++
	d.rig.mu.Unlock()
	return d.Delivery.Ack()
}

func (d *watchedDelivery) Release() error {
	d.rig.mu.Lock()
	d.rig.released++
	d.rig.mu.Unlock()
	return d.Delivery.Release()
}

// hold is a performer that holds effects between their begin and their end, until
// open is closed.
func (r *rig) hold(ctx context.Context, e channel.Effect) job.Result {
	if err := e.Begin(); err != nil {
		return job.NotBegun(err.Error())
	}
	select {
	case <-r.open:
		return job.Done(nil)
	case <-ctx.Done():
		return job.MayBeDone(job.CodeTimeout, ctx.Err().Error())
	}
}

// script performs effects by the keys of their jobs.
func script(results map[string]job.Result) func(context.Context, channel.Effect) job.Result {
	return func(_ context.Context, e channel.Effect) job.Result {
		if err := e.Begin(); err != nil {
			return job.NotBegun(err.Error())
		}
		key, _, _ := strings.Cut(e.Key, "#")
		return results[key]
	}
}
