package eval

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/template"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/bus/membus"
	"duly.dev/duly/internal/channel"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/memledger"
	"duly.dev/duly/internal/pause"
	"duly.dev/duly/pkg/job"
)

// The kinds of every world, each on a lane of its own, by what their receivers promise.
const (
	plain   = "plain"
	deduped = "deduped"
	askable = "askable"
	cleaned = "cleaned"
)

//go:embed world.yaml
var worldText string

//go:embed tables.sql
var tables string

// world is what one case runs on: a ledger, a bus and a receiver of its own, and the
// processes of a fleet.
type world struct {
	site     *site
	log      *slog.Logger
	config   *app.Config
	kinds    []machine.Kind
	channels map[string]channel.Channel
	lookups  map[string]channel.Lookup
	receiver *receiver
	stack    *app.Stack
	over     chan struct{} // closed at its end

	// store is the ledger on a connection of nobody's process.
	store store
	// On PostgreSQL.
	databaseURL string
	pool        *pgxpool.Pool
	postgres    *ledger.Ledger
	// In memory.
	memory *memledger.Ledger
	broker *membus.Broker
	// ackWait is how soon messages come again that a process which was ended had in hand.
	ackWait time.Duration
	// meter takes what the processes do. Optional.
	meter *meter
	// saw takes note of every result of an attempt, by effect key. Optional.
	saw func(effectKey string, r job.Result)
	// removals counts cleanups by operation key, in memory.
	removals map[string]int

	mu       sync.Mutex
	hooks    map[point][]hook
	fates    func(bus.Message) fate
	fired    int
	procs    []*proc
	accepted []job.Spec
	jobs     map[int64]string // kind/key of every job that was leased
	stale    int              // references that could not be leased
	aside    int              // messages that nobody understood
	lost     int              // references that the judge announced anew
	// redriven is when a job's redrive was answered, by kind/key.
	redriven map[string]time.Time
}

// newWorld makes a world in which nothing runs yet, configured by the text of a file with
// settings in it. adjust may change the configuration; nil leaves it.
func newWorld(ctx context.Context, s *site, log *slog.Logger, text string, settings map[string]any, adjust func(*app.Config) error) (_ *world, err error) {
	w := &world{
		site: s, log: log, stack: app.NewStack(log), over: make(chan struct{}), removals: make(map[string]int), ackWait: messagesAgain,
		hooks: make(map[point][]hook), jobs: make(map[int64]string), redriven: make(map[string]time.Time),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.end(context.WithoutCancel(ctx)))
		}
	}()
	if w.receiver, err = startReceiver(); err != nil {
		return nil, err
	}
	w.stack.Push("receiver", serverBound, w.receiver.stop)
	if err = w.configure(text, settings, adjust); err != nil {
		return nil, err
	}
	if s.databases == nil {
		w.memory = memledger.New()
		w.store = w.memory
		w.broker = membus.NewBroker(membus.Options{Visibility: messagesAgain})
	} else if err = w.openDatabase(ctx); err != nil {
		return nil, err
	}
	if _, err = w.store.CheckRestored(ctx); err != nil {
		return nil, err
	}
	return w, w.store.SyncKinds(ctx, w.kinds)
}

// configure reads the configuration as a program does, and opens its channels.
func (w *world) configure(text string, settings map[string]any, adjust func(*app.Config) error) error {
	file, err := template.New("duly.yaml").Parse(text)
	if err != nil {
		return err
	}
	all := map[string]any{"Prefix": "eval-" + strings.ToLower(rand.Text()[:8]), "Receiver": w.receiver.url}
	maps.Copy(all, settings)
	var rendered bytes.Buffer
	if err := file.Execute(&rendered, all); err != nil {
		return err
	}
	if w.config, err = app.ParseConfig("duly.yaml", rendered.Bytes()); err != nil {
		return err
	}
	if adjust != nil {
		if err := adjust(w.config); err != nil {
			return err
		}
	}
	if w.channels, err = w.config.OpenChannels(w.stack); err != nil {
		return err
	}
	w.lookups, err = w.config.OpenHTTPLookups(w.stack)
	for _, k := range w.config.Kinds() {
		if k.Cleanup != nil && w.site.databases == nil { // no statement runs in memory: a function does
			rule := *k.Cleanup
			rule.By = machine.MeansGo
			k.Cleanup = &rule
		}
		w.kinds = append(w.kinds, k)
	}
	return err
}

// openDatabase makes a ledger on PostgreSQL, with what a user has beside it.
func (w *world) openDatabase(ctx context.Context) error {
	address, drop, err := w.site.databases.Create(ctx)
	if err != nil {
		return err
	}
	w.stack.Push("database", serverBound, drop)
	w.databaseURL = address
	if w.pool, err = pgxpool.New(ctx, address); err != nil {
		return err
	}
	w.stack.Push("pool", serverBound, func(context.Context) error { w.pool.Close(); return nil })
	w.postgres = ledger.New(w.pool)
	w.store = w.postgres
	_, err = w.pool.Exec(ctx, tables)
	return err
}

// connect opens a connection to the bus for a process.
func (w *world) connect(ctx context.Context, name string) (b bus.Bus, err error) {
	if w.broker != nil {
		b = w.broker.Connect()
	} else if b, err = w.site.connect(ctx, w.config.Prefix, name, w.ackWait, w.log); err != nil {
		return nil, err
	}
	return b, b.Ensure(ctx, w.config.LaneNames())
}

// end ends every process and what the world had.
func (w *world) end(ctx context.Context) error {
	close(w.over)
	w.mu.Lock()
	procs := slices.Clone(w.procs)
	w.mu.Unlock()
	var ending sync.WaitGroup
	for _, p := range procs {
		p.kill()
		ending.Go(func() {
			select {
			case <-p.ended:
			case <-time.After(stopBound):
				w.log.WarnContext(ctx, "a process that was ended goes on", "process", p.name)
				return // its pool is left to it
			}
			p.close()
		})
	}
	ending.Wait()
	return w.stack.Stop(ctx)
}

// spec makes a request for a job of the kind.
func (w *world) spec(kind, key string) job.Spec {
	return job.Spec{
		Kind: kind, Key: key, Subject: "customer " + key, Destination: w.receiver.url + "/" + kind,
		Payload: fmt.Appendf(nil, `{"customer":%q}`, key),
	}
}

// each makes n requests of each of the kinds.
func (w *world) each(n int, kinds ...string) []job.Spec {
	var specs []job.Spec
	for _, kind := range kinds {
		for i := range n {
			specs = append(specs, w.spec(kind, fmt.Sprintf("%s-%d", kind, i)))
		}
	}
	return specs
}

// enqueue has the ledger accept the requests in one transaction.
func (w *world) enqueue(ctx context.Context, specs ...job.Spec) error {
	var made []machine.Enqueued
	var err error
	if w.memory != nil {
		made, err = w.memory.Enqueue(ctx, specs)
	} else {
		err = pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
			made, err = w.postgres.Enqueue(ctx, tx, specs)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("enqueueing %d jobs: %w", len(specs), err)
	}
	for _, m := range made {
		if m.Refused != nil {
			return m.Refused
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.accepted = append(w.accepted, specs...)
	return nil
}

// lookEvery is how often a condition is looked at that is waited for.
const lookEvery = 20 * time.Millisecond

// await waits until the condition holds; the error says what was waited for in vain.
func (w *world) await(ctx context.Context, what string, holds func() (bool, error)) error {
	for {
		ok, err := holds()
		if ok || err != nil && ctx.Err() == nil {
			return err
		}
		if !pause.For(ctx, lookEvery) {
			return fmt.Errorf("waited in vain until %s", what)
		}
	}
}

// awaitThat is await for what needs no error.
func (w *world) awaitThat(ctx context.Context, what string, holds func() bool) error {
	return w.await(ctx, what, func() (bool, error) { return holds(), nil })
}

// counted reads a count of the world.
func (w *world) counted(n *int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return *n
}

// leased takes note of what the ledger said to a lease.
func (w *world) leased(l machine.Leases) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range l.Grants {
		w.jobs[g.Row.Job] = g.Row.Kind.Name + "/" + g.Key
	}
	w.stale += len(l.Stale)
	if w.meter != nil {
		w.meter.leased(l)
	}
}

func (w *world) rejected() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.aside++
}

func (w *world) judged(lost int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost += lost
}

// names are the jobs of reports, by kind/key.
func (w *world) names(reports []machine.Report) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := make([]string, len(reports))
	for i, r := range reports {
		names[i] = w.jobs[r.Job]
	}
	return names
}

// settle waits until the machine has nothing more to do for any job. It looks twice: between
// two looks at different lists a job may go from the one to the other.
func (w *world) settle(ctx context.Context) error {
	err := w.await(ctx, "every job has ended", func() (bool, error) {
		for range 2 {
			if settled, err := w.look(ctx); !settled || err != nil {
				return false, err
			}
		}
		return true, nil
	})
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w; %s", err, w.standing(context.WithoutCancel(ctx)))
}

// look reports whether no job is pending, nor asked about.
func (w *world) look(ctx context.Context) (bool, error) {
	if asking, err := w.asking(ctx); asking || err != nil {
		return false, err
	}
	tally, err := w.store.Tally(ctx)
	if err != nil {
		return false, err
	}
	ended := 0
	for state, n := range tally {
		if state.Pending() && n > 0 {
			return false, nil
		}
		ended += n
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return ended >= len(w.accepted), nil
}

// asking reports whether receivers are still asked what became of something.
func (w *world) asking(ctx context.Context) (bool, error) {
	page, err := w.store.List(ctx, machine.ListRequest{State: job.Unknown, Limit: 500})
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(page.Entries, func(e machine.Entry) bool { return e.Lookup != "" && !e.Closed }), nil
}

// standing says how many jobs stand where.
func (w *world) standing(ctx context.Context) string {
	tally, err := w.store.Tally(ctx)
	if err != nil {
		return err.Error()
	}
	return statesText(tally)
}

// statesText lists states with their numbers, in the order of documents.
func statesText(states map[job.State]int) string {
	var parts []string
	for _, s := range job.States() {
		if n := states[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	return strings.Join(parts, ", ")
}
