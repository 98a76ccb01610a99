package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/compose"
	"duly.dev/duly/internal/devstack"
	"duly.dev/duly/internal/execute"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/duly"
	"duly.dev/duly/pkg/handler"
	"duly.dev/duly/pkg/job"
	"github.com/jackc/pgx/v5"
)

// dulyKind is the kind whose handler does nothing.
const dulyKind = "no-op"

// dulyTuning is how Duly is run for throughput; for latency it has its defaults.
type dulyTuning struct {
	// producers insert batches of so many jobs a transaction.
	producers, batch int
	// slots bound how many handlers run at once, pack how many references a message has.
	slots, pack int
}

// dulyBest is what gave the most. Batches and producers are as River's.
var dulyBest = dulyTuning{producers: 2, batch: 5000, slots: 5000, pack: 32}

// dulyHTTP is the same where every effect is an HTTP request.
var dulyHTTP = dulyTuning{producers: 2, batch: 5000, slots: 200, pack: 32}

// dulyContestant is Duly in this process: scheduler, dispatcher, worker, and a NATS
// server with its streams on disk.
type dulyContestant struct {
	load   Load
	name   string
	tuning dulyTuning
	// always syncs every message to disk before it is acknowledged.
	always bool
	// http sends every effect to a receiver in a process of its own.
	http     bool
	receiver *receiver
	// alter, if not nil, changes every job before it is enqueued.
	alter func(*job.Spec)

	version string
	config  *app.Config // for throughput
	plain   *app.Config // all defaults
	url     string
	nats    *devstack.NATS
	pool    *countingPool
	client  *duly.Client
	running *dulyService
}

func newDuly(l Load) Contestant {
	return &dulyContestant{load: l, name: "Duly", tuning: dulyBest}
}

// newDulySync loses nothing on the bus either when the machine loses its power.
func newDulySync(l Load) Contestant {
	return restrict(&dulyContestant{load: l, name: "Duly, sync_interval: always", tuning: dulyBest, always: true}, "like Duly's", "both")
}

// newDulyHTTP has effects.
func newDulyHTTP(l Load) Contestant {
	return restrict(&dulyContestant{load: l, name: "Duly, HTTP effects", tuning: dulyHTTP, http: true}, "like Duly's", "both")
}

// Name is what tables show.
func (d *dulyContestant) Name() string { return d.name }

// Version is the commit.
func (d *dulyContestant) Version() string { return d.version }

// Settings say how it is run.
func (d *dulyContestant) Settings() []Setting {
	t := d.tuning
	all := []Setting{
		{"bulk", fmt.Sprintf("ScheduleMany, %d jobs a transaction, %d producers, each job with a unique key", t.batch, t.producers)},
		{"throughput", fmt.Sprintf("scheduler, dispatcher, worker and NATS JetStream (file storage) in one process; %d slots, pack %d, the rest defaults", t.slots, t.pack)},
		{"latency and idle", "all defaults"},
		{"done", "the worker's Settle has returned, which commits the result; afterwards the ledger is asked whether all are delivered"},
	}
	if d.always {
		all = append(all, Setting{"NATS", "sync_interval: always"})
	}
	if d.http {
		all = append(all, Setting{"effects", "POST of the payload to a receiver on this machine (Go, net/http, 204), in a process of its own that takes its CPU from the same cores"})
	}
	return all
}

// Prepare finds out what is measured.
func (d *dulyContestant) Prepare(ctx context.Context, _ *Stack) (err error) {
	d.version = commit(ctx)
	channel := "channel: go"
	if d.http {
		channel = "channel: http, http: {allow_networks: [127.0.0.0/8]}"
	}
	text := fmt.Sprintf("lanes: {bench: {pack: %d}}\nkinds: {%s: {lane: bench, %s}}\nworker: {slots: %d}\n", d.tuning.pack, dulyKind, channel, d.tuning.slots)
	if d.config, err = app.ParseConfig("throughput", []byte(text)); err != nil {
		return err
	}
	d.plain, err = app.ParseConfig("defaults", []byte("kinds: {"+dulyKind+": {channel: go}}\n"))
	return err
}

// commit is the revision of the sources, which `go run` does not know.
func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=10").Output()
	if err != nil {
		return app.Version()
	}
	return strings.TrimSpace(string(out))
}

// Open makes the ledger, the streams and the producers' connections.
func (d *dulyContestant) Open(ctx context.Context, s *Stack) (err error) {
	if d.url, err = s.Fresh(ctx, "bench_duly"); err != nil {
		return err
	}
	if err = ledger.MigrateUp(ctx, d.url); err != nil {
		return err
	}
	if d.nats, err = devstack.StartNATS(devstack.NATSOptions{SyncAlways: d.always}); err != nil {
		return err
	}
	if d.pool, err = openPool(ctx, d.url); err != nil {
		return err
	}
	if d.http {
		if d.receiver, err = startReceiver(ctx); err != nil {
			return err
		}
	}
	d.client = duly.NewClient(d.pool.Pool)
	return nil
}

// know writes the kinds into the ledger, where no scheduler has done it.
func (d *dulyContestant) know(ctx context.Context) error {
	return ledger.New(d.pool.Pool).SyncKinds(ctx, d.config.Kinds())
}

// Close ends the loops, the broker and the connections.
func (d *dulyContestant) Close(context.Context) error {
	var err error
	if d.running != nil {
		err = d.running.stop()
	}
	if d.pool != nil {
		d.pool.Close()
	}
	if d.nats != nil {
		err = errors.Join(err, d.nats.Stop())
	}
	if d.receiver != nil {
		err = errors.Join(err, d.receiver.stop())
	}
	d.running, d.pool, d.nats, d.receiver = nil, nil, nil, nil
	return err
}

// Insert enqueues in bulk.
func (d *dulyContestant) Insert(ctx context.Context, m *Meter, n int) error {
	if err := d.know(ctx); err != nil {
		return err
	}
	if err := m.Begin(ctx); err != nil {
		return err
	}
	if err := d.insert(ctx, n); err != nil {
		return err
	}
	return m.Done(ctx)
}

// job is a job with as many bytes of JSON as the load says.
func (d *dulyContestant) job(key string) job.Spec {
	spec := job.Spec{Kind: dulyKind, Key: key, Payload: []byte(`"` + d.load.text(len(`""`)) + `"`)}
	if d.receiver != nil {
		spec.Destination = d.receiver.url
	}
	if d.alter != nil {
		d.alter(&spec)
	}
	return spec
}

// insert enqueues n jobs in bulk.
func (d *dulyContestant) insert(ctx context.Context, n int) error {
	return batches(ctx, d.tuning.producers, n, d.tuning.batch, func(ctx context.Context, from, to int) error {
		specs := make([]job.Spec, 0, to-from)
		for i := from; i < to; i++ {
			specs = append(specs, d.job("bulk:"+strconv.Itoa(i)))
		}
		return pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
			answers, err := d.client.ScheduleMany(ctx, tx, specs)
			if err != nil {
				return err
			}
			for _, a := range answers {
				if a.Status != duly.Created {
					return fmt.Errorf("a job was not created but %s: %w", a.Status, a.Reason)
				}
			}
			return nil
		})
	})
}

// Drain works what Insert left.
func (d *dulyContestant) Drain(ctx context.Context, m *Meter, n int) error {
	done := newTally()
	s, err := d.start(ctx, d.config, func(jobs []int64) { done.add(len(jobs)) })
	if err != nil {
		return err
	}
	if err := m.Begin(ctx); err != nil {
		return err
	}
	close(s.gate)
	return d.finish(ctx, m, done, n)
}

// Both enqueues and works at once.
func (d *dulyContestant) Both(ctx context.Context, m *Meter, n int) error {
	done := newTally()
	s, err := d.start(ctx, d.config, func(jobs []int64) { done.add(len(jobs)) })
	if err != nil {
		return err
	}
	if err := s.ready(ctx); err != nil {
		return err
	}
	if d.receiver != nil {
		m.Aside(d.receiver.process.Process.Pid)
	}
	if err := m.Begin(ctx); err != nil {
		return err
	}
	if err := d.insert(ctx, n); err != nil {
		return err
	}
	return d.finish(ctx, m, done, n)
}

// finish waits until n jobs are done, ends the measurement, and asks the ledger.
func (d *dulyContestant) finish(ctx context.Context, m *Meter, done *tally, n int) error {
	if err := d.running.wait(ctx, done, n); err != nil {
		return err
	}
	if err := m.Done(ctx); err != nil {
		return err
	}
	counts, err := ledger.New(d.pool.Pool).Tally(ctx)
	if err != nil {
		return err
	}
	if counts[job.Delivered] != n {
		return fmt.Errorf("%w: %d delivered, %d counted", errWrongCount, counts[job.Delivered], n)
	}
	if d.receiver != nil {
		return d.receiver.check(n)
	}
	return nil
}

// Singles enqueues one job a transaction.
func (d *dulyContestant) Singles(ctx context.Context, m *Meter, clients int, time time.Duration) error {
	if err := d.know(ctx); err != nil {
		return err
	}
	return d.pool.singles(ctx, m, clients, time, func(ctx context.Context, tx pgx.Tx, client, i int) error {
		_, err := d.scheduleOne(ctx, tx, fmt.Sprintf("single:%d:%d", client, i))
		return err
	})
}

// scheduleOne enqueues a job that must not exist, and returns its number.
func (d *dulyContestant) scheduleOne(ctx context.Context, tx pgx.Tx, key string) (int64, error) {
	answer, err := d.client.Schedule(ctx, tx, d.job(key))
	if err == nil && answer.Status != duly.Created {
		err = fmt.Errorf("job %s was not created but %s", key, answer.Status)
	}
	return answer.ID, err
}

// Latency enqueues at a rate, with defaults.
func (d *dulyContestant) Latency(ctx context.Context, m *Meter, rate int, time time.Duration) error {
	watches := newStopwatches(&m.Histogram)
	s, err := d.start(ctx, d.plain, func(jobs []int64) {
		for _, id := range jobs {
			watches.stop(id)
		}
	})
	if err != nil {
		return err
	}
	if err := s.ready(ctx); err != nil {
		return err
	}
	return d.pool.latency(ctx, m, rate, time, watches, func(ctx context.Context, tx pgx.Tx, i int) (int64, error) {
		return d.scheduleOne(ctx, tx, "paced:"+strconv.Itoa(i))
	})
}

// Idle runs all loops without a job.
func (d *dulyContestant) Idle(ctx context.Context, m *Meter, time time.Duration) error {
	s, err := d.start(ctx, d.plain, func([]int64) {})
	if err != nil {
		return err
	}
	if err := s.ready(ctx); err != nil {
		return err
	}
	return idle(ctx, m, time)
}

// dulyService is the loops of all binaries, running in this process.
type dulyService struct {
	gate   chan struct{} // closed to let the loops begin
	cancel context.CancelFunc
	ended  chan struct{}
	err    error // once ended
}

// start prepares a service, whose loops begin when its gate is closed.
func (d *dulyContestant) start(ctx context.Context, config *app.Config, delivered func([]int64)) (*dulyService, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &dulyService{gate: make(chan struct{}), cancel: cancel, ended: make(chan struct{})}
	d.running = s
	prepared := make(chan struct{})
	p := &app.Process{Name: "bench", Version: d.version, Log: app.NewLogger(os.Stderr, slog.LevelWarn, true), Stdout: os.Stderr, Stderr: os.Stderr}
	go func() {
		defer close(s.ended)
		s.err = app.Serve(ctx, p, app.AdminSettings{AdminAddr: "127.0.0.1:0"}, func(ctx context.Context, service *app.Service) error {
			if err := d.compose(ctx, service, config, delivered); err != nil {
				return err
			}
			close(prepared)
			select {
			case <-s.gate:
			case <-ctx.Done():
			}
			return nil
		})
	}()
	select {
	case <-prepared:
		return s, nil
	case <-s.ended:
		return nil, fmt.Errorf("starting Duly: %w", s.err)
	}
}

// ready lets the loops begin, and time for what is done at a start.
func (s *dulyService) ready(ctx context.Context) error {
	close(s.gate)
	return waitFor(ctx, warmUp)
}

// wait waits for n jobs, unless the service ends before.
func (s *dulyService) wait(ctx context.Context, done *tally, n int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-s.ended:
			cancel(fmt.Errorf("the service ended: %w", s.err))
		case <-ctx.Done():
		}
	}()
	return done.wait(ctx, n)
}

// stop drains and ends the service.
func (s *dulyService) stop() error {
	s.cancel()
	<-s.ended
	return s.err
}

// compose adds the loops of all binaries, as cmd/scheduler, cmd/dispatcher and cmd/worker do.
func (d *dulyContestant) compose(ctx context.Context, s *app.Service, config *app.Config, delivered func([]int64)) error {
	pool, err := compose.Pool(ctx, s, d.url, compose.SchedulerConns+16)
	if err != nil {
		return err
	}
	l := ledger.New(pool)
	heart, err := compose.Heart(ctx, s, d.url, l)
	if err != nil {
		return err
	}
	buses, err := compose.OpenBuses(ctx, s, app.BusSettings{BusURL: d.nats.URL()}, config)
	if err != nil {
		return err
	}
	if err := compose.Scheduler(ctx, s, config, l); err != nil {
		return err
	}
	if err := compose.Dispatcher(s, config, l, buses); err != nil {
		return err
	}
	parts := compose.WorkerParts{Ledger: watchedLedger{l, delivered}, Heart: heart, Buses: buses}
	if !d.http {
		nothing := handler.Func(func(context.Context, handler.Job) error { return nil })
		parts.Handlers = map[string]handler.Handler{dulyKind: nothing}
	}
	return compose.Worker(s, config, parts)
}

// watchedLedger tells which jobs were durably delivered: those of a call of Settle that
// has returned.
type watchedLedger struct {
	execute.Ledger
	delivered func(jobs []int64)
}

// Settle settles and tells.
func (w watchedLedger) Settle(ctx context.Context, worker machine.Worker, reports []machine.Report) ([]machine.Settled, error) {
	settled, err := w.Ledger.Settle(ctx, worker, reports)
	if err != nil {
		return settled, err
	}
	jobs := make([]int64, 0, len(settled))
	for _, s := range settled {
		if !s.Pending && !s.Late && s.State == job.Delivered {
			jobs = append(jobs, s.Job)
		}
	}
	w.delivered(jobs)
	return settled, nil
}
