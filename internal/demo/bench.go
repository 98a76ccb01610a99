package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/pkg/duly"
	"duly.dev/duly/pkg/handler"
	"duly.dev/duly/pkg/job"
)

// BenchOptions say what to measure.
type BenchOptions struct {
	// Jobs is how many jobs each phase has. Default 200,000.
	Jobs int
	// Batch is how many jobs a producer's transaction has. Default 1,000.
	Batch int
	// Producers is how many enqueue at once. Default 2.
	Producers int
	// Slots is how many handlers run at once. Default 2,000.
	Slots int
	// Pack is the most references a message. Default 500.
	Pack int
	// Payload is the size of a payload, in bytes. Default 100.
	Payload int
	// Samples is how many jobs, one after the other, latency is measured on. Default 300.
	Samples int
	// Bus is BusNATS (default), BusMemory or BusKafka.
	Bus string
	// Dir keeps the data. Default: a temporary folder, removed at the end.
	Dir string
	// JSON prints the result as JSON on standard output.
	JSON bool
	// CPUProfile is a file that takes a profile of this process over the phases; empty
	// for none.
	CPUProfile string
}

func (o BenchOptions) withDefaults() BenchOptions {
	for field, otherwise := range map[*int]int{
		&o.Jobs: 200_000, &o.Batch: 1000, &o.Producers: 2, &o.Slots: 2000, &o.Pack: 500, &o.Payload: 100, &o.Samples: 300,
	} {
		if *field <= 0 {
			*field = otherwise
		}
	}
	return o
}

// Phase is one measurement of throughput.
type Phase struct {
	Name          string  `json:"name"`
	Jobs          int     `json:"jobs"`
	Seconds       float64 `json:"seconds"`
	JobsPerSecond float64 `json:"jobs_per_second"`
	// CPUSeconds is what this process used, without PostgreSQL's.
	CPUSeconds float64 `json:"cpu_seconds"`
}

// Latency is the time from before a job's enqueue, in milliseconds.
type Latency struct {
	Samples int `json:"samples"`
	// Begin is until its handler begins, Delivered until the ledger says delivered.
	BeginP50     float64 `json:"begin_p50_ms"`
	BeginP99     float64 `json:"begin_p99_ms"`
	DeliveredP50 float64 `json:"delivered_p50_ms"`
	DeliveredP99 float64 `json:"delivered_p99_ms"`
}

// BenchResult is what a benchmark came to.
type BenchResult struct {
	Settings map[string]string `json:"settings"`
	Phases   []Phase           `json:"phases"`
	Latency  Latency           `json:"latency"`
}

// benchKind is the kind of which jobs are measured: its handler does nothing.
const benchKind = "no-op"

// Bench measures throughput and latency from enqueue to delivered, on servers and
// loops of its own, with a handler that does nothing.
func Bench(ctx context.Context, p *app.Process, o BenchOptions) (BenchResult, error) {
	if o.Bus == BusKafka && !realKafka() {
		return BenchResult{}, app.Exit(app.ExitUsage, ErrNoBroker)
	}
	b := &bencher{BenchOptions: o.withDefaults(), out: p.Stdout, began: make(chan time.Time, 1)}
	if b.JSON {
		b.out = p.Stderr
	}
	if b.Dir == "" {
		dir, err := tempFolder("bench")
		if err != nil {
			return BenchResult{}, err
		}
		b.Dir = dir
		defer func() { _ = os.RemoveAll(dir) }()
	}
	stop, err := profile(b.CPUProfile)
	if err != nil {
		return BenchResult{}, err
	}
	err = errors.Join(b.serve(ctx, p), stop())
	if err == nil && o.JSON {
		err = json.NewEncoder(p.Stdout).Encode(b.result)
	}
	return b.result, err
}

// profile writes a CPU profile to the file until stop.
func profile(file string) (stop func() error, err error) {
	if file == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, app.Exit(app.ExitUsage, fmt.Errorf("--cpu-profile: %w", err))
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error { pprof.StopCPUProfile(); return f.Close() }, nil
}

// bencher is a benchmark under way.
type bencher struct {
	BenchOptions
	out     io.Writer
	result  BenchResult
	service *app.Service
	run     running
	client  *duly.Client
	handled atomic.Int64
	// single makes the handler tell when it begins.
	single atomic.Bool
	began  chan time.Time
}

func (b *bencher) serve(ctx context.Context, p *app.Process) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	var measured error
	err := app.Serve(ctx, p, app.AdminSettings{AdminAddr: "127.0.0.1:0"}, func(ctx context.Context, s *app.Service) error {
		if err := b.setup(ctx, s); err != nil {
			return err
		}
		s.Group.Add("measurement", func(ctx context.Context) error {
			measured = b.measure(ctx)
			end()
			return nil
		})
		return nil
	})
	return errors.Join(measured, err)
}

// setup starts everything and enqueues the first phase's jobs, before any loop runs.
func (b *bencher) setup(ctx context.Context, s *app.Service) error {
	b.service = s
	servers, err := startServers(ctx, s, serverOptions{dir: b.Dir, bus: b.Bus})
	if err != nil {
		return err
	}
	file := filepath.Join(b.Dir, "duly.yaml")
	config, err := app.ParseConfig(file, fmt.Appendf(nil,
		"lanes: {bench: {pack: %d}}\nkinds: {%s: {lane: bench, channel: go}}\nworker: {slots: %d}\n", b.Pack, benchKind, b.Slots))
	if err != nil {
		return app.Exit(app.ExitUsage, err)
	}
	servers.apart(config)
	b.run, err = servers.addLoops(ctx, s, config, map[string]handler.Handler{benchKind: handler.Func(b.handle)})
	if err != nil {
		return err
	}
	b.client = duly.NewClient(b.run.pool)
	if err := b.describe(ctx, servers); err != nil {
		return err
	}
	return b.phase("enqueue alone", b.Jobs, func() error { return b.enqueue(ctx, "a", b.Jobs) })
}

// describe prints the settings that a figure depends on.
func (b *bencher) describe(ctx context.Context, servers *servers) error {
	settings, err := b.run.ledger.ServerSettings(ctx)
	if err != nil {
		return err
	}
	settings["bus"] = servers.describe()
	settings["cpus"] = strconv.Itoa(runtime.GOMAXPROCS(0))
	settings["jobs"], settings["batch"], settings["producers"] = strconv.Itoa(b.Jobs), strconv.Itoa(b.Batch), strconv.Itoa(b.Producers)
	settings["slots"], settings["pack"], settings["payload"] = strconv.Itoa(b.Slots), strconv.Itoa(b.Pack), strconv.Itoa(b.Payload)
	b.result.Settings = settings
	_, err = fmt.Fprintf(b.out, "%s; %s CPUs; fsync=%s, synchronous_commit=%s, full_page_writes=%s, wal_sync_method=%s, shared_buffers=%s\n"+
		"%d jobs a phase of %d bytes, %d a transaction, %d producers; %d slots, up to %d references a message\n\n",
		settings["bus"], settings["cpus"], settings["fsync"], settings["synchronous_commit"], settings["full_page_writes"],
		settings["wal_sync_method"], settings["shared_buffers"], b.Jobs, b.Payload, b.Batch, b.Producers, b.Slots, b.Pack)
	return err
}

// handle is the handler that does nothing.
func (b *bencher) handle(context.Context, handler.Job) error {
	if b.single.Load() {
		b.began <- time.Now()
	}
	b.handled.Add(1)
	return nil
}

// measure runs the phases that need the loops.
func (b *bencher) measure(ctx context.Context) error {
	if err := b.phase("deliver what was enqueued", b.Jobs, func() error { return b.drained(ctx, b.Jobs) }); err != nil {
		return err
	}
	err := b.phase("enqueue and deliver at once", b.Jobs, func() error {
		if err := b.enqueue(ctx, "b", b.Jobs); err != nil {
			return err
		}
		return b.drained(ctx, 2*b.Jobs)
	})
	if err != nil {
		return err
	}
	return b.latency(ctx)
}

// phase measures one phase and prints it.
func (b *bencher) phase(name string, jobs int, do func() error) error {
	began, cpu := time.Now(), b.cpu()
	if err := do(); err != nil {
		return fmt.Errorf("measuring %q: %w", name, err)
	}
	seconds := time.Since(began).Seconds()
	p := Phase{Name: name, Jobs: jobs, Seconds: seconds, JobsPerSecond: float64(jobs) / seconds, CPUSeconds: b.cpu() - cpu}
	b.result.Phases = append(b.result.Phases, p)
	_, err := fmt.Fprintf(b.out, "%-28s %9.0f jobs/s   %d in %.2f s, %.2f s of CPU beside PostgreSQL's\n", name, p.JobsPerSecond, p.Jobs, p.Seconds, p.CPUSeconds)
	return err
}

// cpu is what this process used so far, in seconds; 0 where the system does not say.
func (b *bencher) cpu() float64 {
	families, err := b.service.Registry.Gather()
	if err != nil {
		return 0
	}
	for _, f := range families {
		if f.GetName() == "process_cpu_seconds_total" && len(f.GetMetric()) == 1 {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return 0
}

// enqueue asks for jobs, due now, by several producers at once.
func (b *bencher) enqueue(ctx context.Context, series string, jobs int) error {
	var next atomic.Int64
	var producers sync.WaitGroup
	errs := make([]error, b.Producers)
	for p := range b.Producers {
		producers.Go(func() {
			for errs[p] == nil {
				from := int(next.Add(int64(b.Batch))) - b.Batch
				if from >= jobs {
					return
				}
				errs[p] = b.enqueueBatch(ctx, series, from, min(from+b.Batch, jobs))
			}
		})
	}
	producers.Wait()
	return errors.Join(errs...)
}

func (b *bencher) enqueueBatch(ctx context.Context, series string, from, to int) error {
	payload := fmt.Appendf(nil, `"%0*d"`, max(1, b.Payload-2), 0)
	specs := make([]job.Spec, 0, to-from)
	for i := from; i < to; i++ {
		specs = append(specs, job.Spec{Kind: benchKind, Key: series + ":" + strconv.Itoa(i), Payload: payload})
	}
	return pgx.BeginFunc(ctx, b.run.pool, func(tx pgx.Tx) error {
		answers, err := b.client.ScheduleMany(ctx, tx, specs)
		for _, a := range answers {
			if a.Status != duly.Created {
				return fmt.Errorf("a job was not created but %s: %w", a.Status, a.Reason)
			}
		}
		return err
	})
}

// drained waits until the ledger says that all jobs are delivered.
func (b *bencher) drained(ctx context.Context, jobs int) error {
	for handled := false; ; {
		if handled = handled || b.handled.Load() >= int64(jobs); handled {
			tally, err := b.run.ledger.Tally(ctx)
			if err != nil || tally[job.Delivered] >= jobs {
				return err
			}
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// latency follows single jobs, one after the other, on a system that is idle otherwise.
func (b *bencher) latency(ctx context.Context) error {
	b.single.Store(true)
	begins, delivered := make([]time.Duration, b.Samples), make([]time.Duration, b.Samples)
	for i := range b.Samples {
		asked := time.Now()
		if err := b.enqueueBatch(ctx, "c", i, i+1); err != nil {
			return err
		}
		select {
		case at := <-b.began:
			begins[i] = at.Sub(asked)
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := b.isDelivered(ctx, "c:"+strconv.Itoa(i)); err != nil {
			return err
		}
		delivered[i] = time.Since(asked)
	}
	l := Latency{
		Samples: b.Samples, BeginP50: percentile(begins, 50), BeginP99: percentile(begins, 99),
		DeliveredP50: percentile(delivered, 50), DeliveredP99: percentile(delivered, 99),
	}
	b.result.Latency = l
	_, err := fmt.Fprintf(b.out, "\nOne job at a time, %d times: its handler begins after %.1f ms (p99 %.1f), the ledger says delivered after %.1f ms (p99 %.1f)\n",
		l.Samples, l.BeginP50, l.BeginP99, l.DeliveredP50, l.DeliveredP99)
	return err
}

func (b *bencher) isDelivered(ctx context.Context, key string) error {
	for {
		story, err := b.run.ledger.Find(ctx, benchKind, key)
		if err != nil {
			return err
		}
		if current, _ := story.Current(); current.State == job.Delivered {
			return nil
		}
		select {
		case <-time.After(200 * time.Microsecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// percentile is in milliseconds.
func percentile(all []time.Duration, p int) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return float64(sorted[(len(sorted)-1)*p/100].Microseconds()) / 1000
}
