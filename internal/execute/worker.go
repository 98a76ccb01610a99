package execute

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/sync/errgroup"

	"duly.dev/duly/internal/channel"
	"duly.dev/duly/internal/failpoint"
	"duly.dev/duly/internal/machine"
)

// Ledger is what the worker asks of the ledger, besides its heartbeat.
type Ledger interface {
	Leaser
	Binder
	Settler
	Clerk
}

// Kind is a kind that the worker can perform.
type Kind struct {
	machine.Kind
	// Performer performs its effects; its name is Kind.Channel.
	Performer channel.Channel
	// Handler marks a Go handler: it may take longer than a lease, on renewals, and its
	// context ends before its lease does.
	Handler bool
	// Resolve says how the destinations of its jobs are asked for right before an attempt;
	// nil: they are those that the jobs were given.
	Resolve *Resolve
	// Classifier is the version of the rules by which Performer classifies results.
	Classifier string
}

// Options are what a Worker is made of.
type Options struct {
	// Ledger and Bus are where work is. Required.
	Ledger Ledger
	Bus    Source
	// Next is a second bus, while lanes move from one to the other: work is taken from
	// both, and each has half of a lane's slots. Optional.
	Next Source
	// Heart is the ledger again, on a connection of its own. Required.
	Heart Heart
	// Kinds are the kinds that this worker can perform; work of other kinds is held.
	Kinds []Kind
	// Lanes are the lanes to take work from. Required. Slots are split fairly over
	// them, and none takes another's: a lane that is stuck blocks no other.
	Lanes []Lane
	// Label names the process for people, such as host and pid.
	Label string
	// Version is the worker version.
	Version string
	// NewID makes the id of each registration, which nobody has had before; default a
	// random UUID. A simulation says it, so that it can be told again.
	NewID func() string
	// Slots bound how many attempts run at once; default 100.
	Slots int
	// LeaseTime: the process is dead when it was not heard of for so long; default 30 s.
	LeaseTime time.Duration
	// Heartbeat is how often the lease is renewed; default 5 s.
	Heartbeat time.Duration
	// Drain is how long running attempts may take after the order to stop; default
	// 30 s. The process should be given 10 s more before it is killed.
	Drain time.Duration
	// Claimed is called after every sign that the worker can take work: a lease, or a
	// heartbeat while the bus is healthy. It must be quick. Optional.
	Claimed func()
	// Log gets what an operator should know; nil discards it.
	Log *slog.Logger
	// Metrics takes the metrics; nil drops them.
	Metrics prometheus.Registerer
	// Tracer makes the spans of attempts; nil makes none.
	Tracer trace.TracerProvider
}

// Worker takes references, performs their effects and commits the results.
type Worker struct {
	o       Options
	log     *slog.Logger
	tracer  trace.Tracer // nil where nothing is traced
	metrics *metrics
	kinds   map[string]*kind
	lanes   []*lane
	board   *board
	crew    crew
	// settling commits the reports.
	settling *settling
	wall     wallClock
	// soft ends with the order to stop; work ends after the drain.
	soft, work context.Context //nolint:containedctx // the two ends of the one run of the worker
	// drainEnd is set when the drain begins.
	drainEnd atomic.Pointer[time.Time]
}

// kind is a Kind with its own counters.
type kind struct {
	Kind
	delay                prometheus.Observer
	stale, early, locked prometheus.Counter
}

// Defaults of Options.
const (
	defaultSlots     = 100
	defaultLeaseTime = 30 * time.Second
	defaultHeartbeat = 5 * time.Second
	defaultDrain     = 30 * time.Second
	defaultPack      = 32
)

// settleGrace is what the last reports have after the drain to be committed.
const settleGrace = 5 * time.Second

// New makes a worker, which Run runs once. It refuses options that cannot work, all
// at once.
func New(o Options) (*Worker, error) {
	o.setDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	w := &Worker{
		o: o, log: o.Log,
		metrics: newMetrics(o.Metrics), kinds: make(map[string]*kind, len(o.Kinds)), board: newBoard(),
		wall: func(now time.Time) time.Time { return now.Round(0) },
	}
	if _, off := o.Tracer.(noop.TracerProvider); !off {
		w.tracer = o.Tracer.Tracer("duly.dev/duly/internal/execute")
	}
	for _, k := range o.Kinds {
		w.kinds[k.Name] = w.metrics.kind(k)
	}
	w.crew.perform = w.perform
	w.settling = newSettling(w, o.Slots)
	sources := o.sources()
	share := max(1, o.Slots/(len(o.Lanes)*len(sources)))
	for _, l := range o.Lanes {
		pack := cmp.Or(l.Pack, defaultPack)
		if pack > share {
			w.log.Warn("a message may hold more references than the lane has slots; the excess is held: raise the slots or lower the pack",
				"lane", l.Name, "pack", pack, "slots_of_lane", share, "slots", o.Slots)
		}
		var all []*slots
		for _, source := range sources {
			one := &lane{worker: w, source: source, name: l.Name, need: min(pack, share), slots: newSlots(share), inbox: newInbox()}
			w.lanes = append(w.lanes, one)
			all = append(all, one.slots)
		}
		w.metrics.watchSlots(o.Metrics, l.Name, all)
	}
	return w, nil
}

// sources are the buses to take work from.
func (o Options) sources() []Source {
	if o.Next == nil {
		return []Source{o.Bus}
	}
	return []Source{o.Bus, o.Next}
}

// healthy reports whether some bus can be reached.
func (o Options) healthy() bool {
	return slices.ContainsFunc(o.sources(), func(s Source) bool { return s.Healthy() == nil })
}

func (o *Options) setDefaults() {
	if o.Slots == 0 {
		o.Slots = defaultSlots
	}
	if o.LeaseTime == 0 {
		o.LeaseTime = defaultLeaseTime
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = defaultHeartbeat
	}
	if o.Drain == 0 {
		o.Drain = defaultDrain
	}
	if o.NewID == nil {
		o.NewID = uuid.NewString
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Tracer == nil {
		o.Tracer = noop.NewTracerProvider()
	}
}

func (o Options) check() error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.Ledger == nil || o.Heart == nil || o.Bus == nil {
		refuse("ledger, heart and bus: all three must be given")
	}
	if len(o.Lanes) == 0 {
		refuse("lanes: at least one must be given")
	}
	if n := len(o.Lanes) * len(o.sources()); o.Slots < n {
		refuse("slots %d: there must be one for each of the %d lanes at least, and for each bus", o.Slots, len(o.Lanes))
	}
	if o.Heartbeat <= 0 || o.LeaseTime < 3*o.Heartbeat {
		refuse("heartbeat %s: three of them must fit into the lease time (%s)", o.Heartbeat, o.LeaseTime)
	}
	if o.Drain < 0 {
		refuse("drain %s: it must not be negative", o.Drain)
	}
	for _, l := range o.Lanes {
		if l.Pack < 0 {
			refuse("lane %s: pack %d: it must not be negative", l.Name, l.Pack)
		}
	}
	for _, k := range o.Kinds {
		errs = append(errs, o.checkLimit(k))
		if k.Performer == nil || k.Performer.Name() != k.Channel {
			refuse("kind %s: it needs a performer for its channel %q", k.Name, k.Channel)
		}
	}
	return errors.Join(errs...)
}

// Run works until ctx ends, then drains: it takes no more messages, gives back what
// is not leased, hands back what does not begin, lets what runs end within the
// drain, commits every report, acknowledges, and ends its row in the ledger. It
// returns nil when nothing was left over, and an error that says what was; or the
// bus's error when that has failed for good.
func (w *Worker) Run(ctx context.Context) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	receiving, soft := errgroup.WithContext(ctx)
	w.soft, w.work = soft, work
	if err := w.consume(ctx); err != nil {
		return err
	}
	var loops, settling sync.WaitGroup
	loops.Go(func() { w.beat(work) })
	loops.Go(func() { w.watch(work) })
	settling.Go(func() { w.settling.run(work) })
	for _, l := range w.lanes {
		receiving.Go(func() error { return l.receive(soft) })
		loops.Go(func() { l.work(work) })
	}
	<-soft.Done()
	end := time.Now().Add(w.o.Drain)
	w.drainEnd.Store(&end)
	failpoint.Pass(failpoint.WorkerDraining)
	w.log.InfoContext(ctx, "draining", "until", end)
	err := receiving.Wait()
	// What others can have goes to them now, not when the last effect has ended.
	err = errors.Join(err, w.closeConsumers(), w.drain(end, &settling))
	stop()
	settling.Wait()
	loops.Wait()
	return err
}

// consume opens the lanes.
func (w *Worker) consume(ctx context.Context) error {
	for _, l := range w.lanes {
		c, err := l.source.Consume(ctx, l.name)
		if err != nil {
			return errors.Join(fmt.Errorf("consuming lane %s: %w", l.name, err), w.closeConsumers())
		}
		l.consumer = c
	}
	return nil
}

func (w *Worker) closeConsumers() error {
	var errs []error
	for _, l := range w.lanes {
		if l.consumer != nil {
			errs = append(errs, l.consumer.Close())
		}
	}
	return errors.Join(errs...)
}

// claimed tells readiness that the worker can take work.
func (w *Worker) claimed() {
	if w.o.Claimed != nil {
		w.o.Claimed()
	}
}
