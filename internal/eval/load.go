package eval

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/progress"
	"duly.dev/duly/pkg/job"
)

//go:embed load.yaml
var loadText string

// LoadOptions say what is measured.
type LoadOptions struct {
	// Bus is NATS (default) or Kafka.
	Bus string
	// BusURL and DatabaseURL are servers to measure in place of embedded ones, as in Options.
	BusURL, DatabaseURL string
	// Customers is how many jobs there are at each point. Default 2000.
	Customers int
	// DataDir keeps an embedded PostgreSQL's data; empty for a temporary folder.
	DataDir string
	// Plot is a file that the measures are drawn into, and Out one that the report is written
	// to, as Markdown. Optional.
	Plot, Out string
	// JSON prints the report as one line of JSON on standard output, and everything else on
	// standard error.
	JSON bool
}

const (
	defaultCustomers = 2000
	// loadWorkers are in the fleet; one of them is ended and replaced.
	loadWorkers = 2
	// loadPatience is how long one point may take.
	loadPatience = 5 * time.Minute
	// serviceTime is what a good answer takes, and slowly what a slow one does.
	serviceTime, slowly = 20 * time.Millisecond, 300 * time.Millisecond
)

// Setting is what a point of the load is measured at.
type Setting struct {
	// Lease and AckWait are the visibility: how long a worker must be unheard of until its
	// leases end, and messages until they come again.
	Lease   time.Duration `json:"lease_ns"`
	AckWait time.Duration `json:"ack_wait_ns"`
	// Slots are the handlers that run at once in each of the workers.
	Slots int `json:"slots"`
}

// Point is what was measured at a setting.
type Point struct {
	Setting

	// Varied names what is not as in the middle; empty in the middle itself.
	Varied string `json:"varied"`
	Counts
	// Throughput is jobs a second until 95 in 100 have ended.
	Throughput float64 `json:"jobs_per_second"`
	// Seconds is until all have.
	Seconds float64 `json:"seconds"`
	// Latency is from enqueue to delivered, RetryDelay from a result to the next try.
	Latency    Quantiles `json:"latency_seconds"`
	RetryDelay Quantiles `json:"retry_delay_seconds"`
	// CleanupTries is how often a cleanup was tried, Cleaned how many were done.
	CleanupTries int `json:"cleanup_tries"`
	Cleaned      int `json:"cleaned"`
	// Prevented are requests for what had happened already, which the receiver answered from
	// memory; Unresolved are jobs whose outcome nobody knows at the end.
	Prevented  int      `json:"duplicates_prevented"`
	Unresolved int      `json:"unresolved"`
	Problems   []string `json:"problems,omitempty"`
}

// Quantiles are of all values of a measure.
type Quantiles struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// quantilesOf sorts the durations.
func quantilesOf(all []time.Duration) Quantiles {
	if len(all) == 0 {
		return Quantiles{}
	}
	slices.Sort(all)
	at := func(q float64) float64 {
		return all[max(0, int(math.Ceil(q*float64(len(all))))-1)].Seconds()
	}
	return Quantiles{N: len(all), P50: at(0.50), P99: at(0.99), Max: at(1)}
}

// settings are the points: the middle, and each of the three varied on its own.
func settings() []Point {
	middle := Setting{Lease: 10 * time.Second, AckWait: 10 * time.Second, Slots: 32}
	points := []Point{{Setting: middle}}
	for _, lease := range []time.Duration{5 * time.Second, 20 * time.Second} {
		p := Point{Setting: middle, Varied: "lease"}
		p.Lease = lease
		points = append(points, p)
	}
	for _, wait := range []time.Duration{2 * time.Second, 20 * time.Second} {
		p := Point{Setting: middle, Varied: "ack wait"}
		p.AckWait = wait
		points = append(points, p)
	}
	for _, n := range []int{8, 128} {
		p := Point{Setting: middle, Varied: "slots"}
		p.Slots = n
		points = append(points, p)
	}
	return points
}

// LoadReport is what a measurement came to.
type LoadReport struct {
	Version   string  `json:"version"`
	System    string  `json:"system"`
	At        string  `json:"at"`
	Servers   string  `json:"servers"`
	Customers int     `json:"customers"`
	Points    []Point `json:"points"`
	Seconds   float64 `json:"seconds"`
}

// Load measures a fleet at every setting, each with a ledger of its own, and prints the
// report. It fails with ErrViolated where a guarantee did not hold meanwhile.
func Load(ctx context.Context, p *app.Process, o LoadOptions) (LoadReport, error) {
	o.Customers, o.Bus = cmp.Or(o.Customers, defaultCustomers), cmp.Or(o.Bus, NATS)
	if o.Customers < 100 {
		return LoadReport{}, app.Exit(app.ExitUsage, fmt.Errorf("--customers %d: fewer than 100 show no rate of failures", o.Customers))
	}
	log, done, err := openLog()
	if err != nil {
		return LoadReport{}, err
	}
	log = slog.New(warnings{log.Handler()})
	began := time.Now()
	stack := app.NewStack(log)
	all, err := sites(ctx, Options{Buses: []string{o.Bus}, BusURL: o.BusURL, DatabaseURL: o.DatabaseURL, dataDir: o.DataDir, durable: true},
		stack, log, func(text string) { _, _ = fmt.Fprintln(p.Stderr, text) })
	report := LoadReport{
		Version: p.Version, System: fmt.Sprintf("%s/%s, %d processors", runtime.GOOS, runtime.GOARCH, runtime.NumCPU()),
		At: time.Now().UTC().Format(time.DateOnly), Customers: o.Customers,
	}
	if err == nil {
		report.Servers = all[0].what
		bar := progress.New(p.Stderr, "measuring")
		points := settings()
		for i, point := range points {
			bar.Show(float64(i)/float64(len(points)), point.name())
			point.measure(ctx, all[0], log, o.Customers)
			report.Points = append(report.Points, point)
		}
		bar.Done(1, fmt.Sprintf("%d points", len(points)))
	}
	report.Seconds = time.Since(began).Round(100 * time.Millisecond).Seconds()
	err = errors.Join(err, stack.Stop(context.WithoutCancel(ctx)))
	if err != nil || ctx.Err() != nil {
		return report, errors.Join(err, ctx.Err(), done(false))
	}
	err = errors.Join(report.write(p, o), report.verdict())
	return report, errors.Join(err, done(err == nil))
}

// warnings drops what is less than a warning: a line for each result would be measured too.
type warnings struct{ slog.Handler }

// Enabled is false below a warning.
func (w warnings) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && w.Handler.Enabled(ctx, l)
}

// WithAttrs keeps dropping.
func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{w.Handler.WithAttrs(attrs)}
}

// WithGroup keeps dropping.
func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }

func (p *Point) problemf(format string, args ...any) {
	p.Problems = append(p.Problems, fmt.Sprintf(format, args...))
}

// measure runs the fleet at the setting until every job has ended.
func (p *Point) measure(ctx context.Context, s *site, log *slog.Logger, customers int) {
	ctx, cancel := context.WithTimeout(ctx, loadPatience)
	defer cancel()
	w, err := newWorld(ctx, s, log, loadText, map[string]any{"Slots": p.Slots, "Lease": p.Lease}, nil)
	if err != nil {
		p.problemf("%v", err)
		return
	}
	w.ackWait, w.meter = p.AckWait, newMeter()
	w.receiver.plans(misbehaving)
	if err := p.play(ctx, w, customers); err != nil {
		p.problemf("%v", err)
	}
	p.gather(context.WithoutCancel(ctx), w)
	if err := w.end(context.WithoutCancel(ctx)); err != nil {
		p.problemf("%v", err)
	}
}

// play enqueues all customers at once, ends a worker when a third of them are delivered, and
// waits for the end.
func (p *Point) play(ctx context.Context, w *world, customers int) error {
	specs := make([]job.Spec, customers)
	for i := range specs {
		kind := cleaned
		if i%5 == 0 {
			kind = plain
		}
		specs[i] = w.spec(kind, fmt.Sprintf("customer-%05d", i))
	}
	if err := w.generate(ctx, specs); err != nil {
		return err
	}
	fleet, err := w.fleet(ctx, loadWorkers)
	if err != nil {
		return err
	}
	began := time.Now()
	for some := range slices.Chunk(specs, 500) {
		if err := w.enqueue(ctx, some...); err != nil {
			return err
		}
	}
	if err := w.awaitThat(ctx, "a third is delivered", func() bool { return w.meter.ended() >= customers/3 }); err != nil {
		return err
	}
	fleet[2].kill()
	if _, err := w.worker(ctx); err != nil {
		return err
	}
	err = w.awaitThat(ctx, "95 in 100 have ended", func() bool { return w.meter.ended() >= customers*95/100 })
	p.Throughput = float64(w.meter.ended()) / time.Since(began).Seconds()
	if err != nil {
		return err
	}
	err = w.settle(ctx)
	p.Seconds = time.Since(began).Seconds()
	if err != nil {
		return err
	}
	return w.await(ctx, "cleanups are done", func() (bool, error) {
		tally, err := w.store.Tally(ctx)
		done, _ := w.meter.cleanups()
		return err != nil || done >= tally[job.Delivered]-customers/5, err
	})
}

// gather makes the account, and takes what was measured.
func (p *Point) gather(ctx context.Context, w *world) {
	a, err := w.account(ctx, "")
	if err != nil {
		a.problemf("making the account: %v", err)
	}
	p.Counts = a.counts
	p.Problems = append(p.Problems, a.problems...)
	p.Prevented, p.Unresolved = a.counts.Repeats, a.counts.States[job.Unknown]
	p.Cleaned, p.CleanupTries = w.meter.cleanups()
	p.Latency, p.RetryDelay = w.meter.quantiles()
}

// misbehaving is the receiver of the load. What it does with a customer is decided by the
// key alone, so that it is the same at every point.
func misbehaving(v *visit) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(v.key)) // it never fails
	takes := serviceTime
	switch share := h.Sum32() % 100; {
	case share < 1: // rejects the content
		v.answer(http.StatusUnprocessableEntity)
		return
	case share < 4 && v.nth == 1: // is throttled
		v.response.Header().Set("Retry-After", "1")
		v.answer(http.StatusTooManyRequests)
		return
	case share < 7 && v.nth == 1: // breaks down
		v.answer(http.StatusServiceUnavailable)
		return
	case share < 9 && v.nth == 1: // acts and hangs up
		v.act()
		v.hangUp()
	case share < 14:
		takes = slowly
	}
	v.rest(takes)
	obliging(v)
}

// meter takes what the processes of a world did.
type meter struct {
	mu               sync.Mutex
	created          map[int64]time.Time // of jobs that were leased
	over             map[int64]bool
	latencies, waits []time.Duration
	tries, cleaned   int
}

func newMeter() *meter {
	return &meter{created: make(map[int64]time.Time), over: make(map[int64]bool)}
}

// leased takes when jobs were made.
func (m *meter) leased(l machine.Leases) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range l.Grants {
		m.created[g.Row.Job] = g.Row.Created
	}
}

// settled takes what became of results.
func (m *meter) settled(all []machine.Settled) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range all {
		switch {
		case s.Late || s.Pending:
		case s.State == job.Delivered:
			m.latencies = append(m.latencies, now.Sub(m.created[s.Job]))
			m.over[s.Job] = true
		case s.State == job.Scheduled:
			m.waits = append(m.waits, max(0, s.WakeAt.Sub(now)))
		case !s.State.Pending():
			m.over[s.Job] = true
		}
	}
}

// cleanedUp takes what became of cleanups.
func (m *meter) cleanedUp(outcomes []machine.CleanupOutcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tries += len(outcomes)
	for _, o := range outcomes {
		if o == machine.CleanupDone {
			m.cleaned++
		}
	}
}

// ended is how many jobs have ended by a result.
func (m *meter) ended() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.over)
}

func (m *meter) cleanups() (done, tries int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cleaned, m.tries
}

func (m *meter) quantiles() (latency, wait Quantiles) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return quantilesOf(m.latencies), quantilesOf(m.waits)
}
