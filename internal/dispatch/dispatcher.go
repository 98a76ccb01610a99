package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/pause"
	"duly.dev/duly/pkg/job"
)

// Outbox is what the relay of a topic reads and moves.
type Outbox interface {
	// ClaimTopic takes the topic for the holder or renews its claim; false means that
	// another holds it.
	ClaimTopic(ctx context.Context, topic, holder string, d time.Duration) (bool, error)
	// ReleaseTopic gives the topic up.
	ReleaseTopic(ctx context.Context, topic, holder string) error
	// ReadOutbox reads the next page; one without rows says that everything committed
	// until now was relayed. machine.ErrLostTopic: another holds the topic.
	ReadOutbox(ctx context.Context, topic, holder string, limit int) (machine.Page, error)
	// Advance moves the cursor behind the page, whose rows the broker has stored.
	Advance(ctx context.Context, topic, holder string, page machine.Page) error
	// Notices returns what the dead topic says, one a reference; that of a generation
	// which was removed has no Key.
	Notices(ctx context.Context, refs []job.Ref) ([]machine.Notice, error)
}

// Shelf is where what cannot be sent is set aside.
type Shelf interface {
	// SetAside keeps the references of the rows that the broker will not take.
	SetAside(ctx context.Context, topic string, rows []machine.OutboxRow, cause error) error
	// RetryUnsendable writes the next try of what is due to the outbox.
	RetryUnsendable(ctx context.Context, topic string) (int, error)
}

// Marks are what proves that the bus lost something.
type Marks interface {
	// IssueMark writes a mark for all that the holder has relayed.
	IssueMark(ctx context.Context, lane, holder string, partitions []int32) (machine.Mark, error)
	// MarkStands reports whether the lane's newest mark has not passed yet.
	MarkStands(ctx context.Context, lane string) (bool, error)
}

// Figures are what the dispatcher's metrics show of the ledger.
type Figures interface {
	// OutboxDepth counts the topic's rows that were not relayed, no further than most.
	OutboxDepth(ctx context.Context, topic string, most int) (int, error)
	// CountUnsendable counts what is set aside, by topic.
	CountUnsendable(ctx context.Context) (map[string]int, error)
	// StandingMarks returns the oldest standing mark of each lane that has one.
	StandingMarks(ctx context.Context) ([]machine.Mark, error)
}

// Ledger is the ledger as the dispatcher knows it.
type Ledger interface {
	Outbox
	Shelf
	Marks
	Figures
	// Topics lists the topics; lanes are added while the dispatcher runs.
	Topics(ctx context.Context) ([]string, error)
	// Bus is the address of the bus that the lanes were moved to; empty if they never
	// were.
	Bus(ctx context.Context) (string, error)
	// CheckRestored makes the cursors begin anew where the ledger was moved to another
	// cluster, and reports whether it did.
	CheckRestored(ctx context.Context) (bool, error)
	// Reject keeps a message that nobody understands, and a copy of it once.
	Reject(ctx context.Context, source, sourceID string, body []byte, cause error) error
}

// Bus is the bus as the dispatcher knows it.
type Bus interface {
	bus.Publisher
	// Ensure creates or verifies the topics of the lanes and that of the notices.
	Ensure(ctx context.Context, lanes []string) error
	// MaxMessage is the largest body that the broker takes, in bytes.
	MaxMessage() int
}

// Route is a bus and its address, by which the ledger knows it.
type Route struct {
	Address string
	Bus     Bus
}

// Options are what a Dispatcher needs. Ledger and Bus are required.
type Options struct {
	Ledger Ledger
	// Bus is relayed to as long as the ledger's lanes were moved to no other address than
	// its own.
	Bus     Bus
	Address string
	// Next is the bus that the lanes may be moved to while the dispatcher runs. Optional.
	Next *Route
	// Pack is the most references that a message of the lane carries; nil, or 0 from
	// it, means 32.
	Pack func(lane string) int
	// Claim is how long a topic lease lives without renewal: how long a topic rests
	// when its dispatcher dies. Default 5 s, at most a minute.
	Claim time.Duration
	// Rest is the longest pause between two looks at an idle topic. Default 100 ms.
	Rest time.Duration
	// MarkEvery is the least time between two marks on a lane. Default 10 s.
	MarkEvery time.Duration
	// MarkMost is the longest wait before a mark that did not pass is followed by
	// another. Default 10 min.
	MarkMost time.Duration
	// Log takes what goes wrong; nil discards it.
	Log *slog.Logger
	// Metrics takes the metrics; nil drops them.
	Metrics prometheus.Registerer
	// Succeeded is called whenever every topic was looked at or relayed successfully since
	// the last call: a topic that cannot be relayed does not hide behind those that are idle.
	Succeeded func()
}

func (o Options) withDefaults() Options {
	pack := o.Pack
	o.Pack = func(lane string) int {
		if pack == nil {
			return defaultPack
		}
		return cmp.Or(pack(lane), defaultPack)
	}
	o.Claim = cmp.Or(o.Claim, 5*time.Second)
	o.Rest = cmp.Or(o.Rest, 100*time.Millisecond)
	o.MarkEvery = cmp.Or(o.MarkEvery, 10*time.Second)
	o.MarkMost = cmp.Or(o.MarkMost, 10*time.Minute)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Succeeded == nil {
		o.Succeeded = func() {}
	}
	return o
}

const (
	// lookForTopics is how often topics that are new are looked for.
	lookForTopics = time.Second
	// lookForRestore is how often the ledger is asked whether it was moved.
	lookForRestore = time.Minute
)

// Dispatcher relays every topic of the ledger that no other dispatcher holds.
type Dispatcher struct {
	options Options
	metrics *metrics
	holder  string // random: two on one host are two
	relays  sync.WaitGroup

	mu    sync.Mutex
	known map[string]bool
	// due are the topics that did not succeed since Succeeded was called last.
	due map[string]bool
}

// New makes a dispatcher; the error is one of registering its metrics.
func New(o Options) (*Dispatcher, error) {
	m, err := newMetrics(o.Metrics)
	if err != nil {
		return nil, err
	}
	return &Dispatcher{options: o.withDefaults(), metrics: m, holder: uuid.NewString(), known: make(map[string]bool), due: make(map[string]bool)}, nil
}

// Run relays until ctx ends; then it gives up the topics that it holds and returns
// ctx's error. What goes wrong meanwhile is logged, counted and tried again.
func (d *Dispatcher) Run(ctx context.Context) error {
	defer d.relays.Wait()
	for _, b := range d.options.buses() {
		if mover, ok := b.(bus.Mover); ok {
			d.relays.Go(func() { d.move(ctx, mover) })
		}
	}
	failures := pause.Backoff{}
	var checked time.Time
	for {
		err := error(nil)
		if checked.IsZero() || time.Since(checked) >= lookForRestore {
			if err = d.checkRestored(ctx); err == nil {
				checked = time.Now()
			}
		}
		if err == nil {
			err = d.startRelays(ctx)
		}
		rest := lookForTopics
		if err != nil && ctx.Err() == nil {
			rest = failures.Next()
			d.options.Log.WarnContext(ctx, "looking for topics", "error", err, "next_in", rest)
		} else {
			failures.Reset()
		}
		if !pause.For(ctx, rest) {
			return ctx.Err()
		}
	}
}

// checkRestored precedes the first relay: cursors of another cluster mean nothing.
func (d *Dispatcher) checkRestored(ctx context.Context) error {
	restored, err := d.options.Ledger.CheckRestored(ctx)
	if restored {
		d.options.Log.WarnContext(ctx, "the ledger was restored or upgraded: its outbox is announced from the start; duplicates of that are dropped as stale")
	}
	return err
}

// startRelays starts a relay for every topic that has none.
func (d *Dispatcher) startRelays(ctx context.Context) error {
	topics, err := d.options.Ledger.Topics(ctx)
	if err != nil {
		return err
	}
	for _, topic := range topics {
		if d.learn(topic) {
			r := newRelay(d, topic)
			d.relays.Go(func() { r.run(ctx) })
		}
	}
	return nil
}

// learn reports whether the topic is new.
func (d *Dispatcher) learn(topic string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known[topic] {
		return false
	}
	d.known[topic], d.due[topic] = true, true
	return true
}

// succeeded notes that the topic was looked at or relayed successfully.
func (d *Dispatcher) succeeded(topic string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if delete(d.due, topic); len(d.due) == 0 {
		d.due = maps.Clone(d.known)
		d.options.Succeeded()
	}
}

// buses are all that the dispatcher knows. What is delayed on one that the lanes have left
// is moved on all the same.
func (o Options) buses() []Bus {
	if o.Next == nil {
		return []Bus{o.Bus}
	}
	return []Bus{o.Bus, o.Next.Bus}
}

// route finds the bus that the ledger's lanes are on. One that this dispatcher does not
// know is an error: whatever it relayed elsewhere, nobody would take.
func (o Options) route(ctx context.Context) (Route, error) {
	address, err := o.Ledger.Bus(ctx)
	switch {
	case err != nil:
		return Route{}, err
	case address == "" || address == o.Address:
		return Route{o.Address, o.Bus}, nil
	case o.Next != nil && address == o.Next.Address:
		return *o.Next, nil
	}
	known := o.Address
	if o.Next != nil {
		known += " and " + o.Next.Address
	}
	return Route{}, fmt.Errorf("the lanes were moved to the bus at %s, and this dispatcher knows only %s: give it that bus, or move the lanes back with duly bus move", address, known)
}

// lost reports whether the topic went to another, which is no failure.
func lost(err error) bool { return errors.Is(err, machine.ErrLostTopic) }
