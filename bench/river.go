package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"duly.dev/duly/internal/app"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
)

// riverTuning is how River is run for throughput.
type riverTuning struct {
	// producers insert batches of so many jobs a transaction.
	producers, batch int
	// workers, cooldown and poll are River's own settings.
	workers        int
	cooldown, poll time.Duration
	// unique gives every job a unique key.
	unique bool
}

// riverBest has workers, cooldown, poll and batch as River's own benchmark does.
var riverBest = riverTuning{producers: 2, batch: 5000, workers: 2000, cooldown: 2 * time.Millisecond, poll: 20 * time.Millisecond}

// riverContestant is River in this process.
type riverContestant struct {
	load   Load
	name   string
	tuning riverTuning

	pool   *countingPool
	insert *river.Client[pgx.Tx] // inserts only
	client *river.Client[pgx.Tx] // once started
	cancel func()
}

func newRiver(l Load) Contestant {
	return &riverContestant{load: l, name: "River", tuning: riverBest}
}

// newRiverUnique does what Duly always does: no two jobs have the same key.
func newRiverUnique(l Load) Contestant {
	tuning := riverBest
	tuning.unique = true
	return restrict(&riverContestant{load: l, name: "River, unique keys", tuning: tuning}, "like River's", "insert", "drain", "both", "singles")
}

// newRiverDefaults shows what nobody tuned.
func newRiverDefaults(l Load) Contestant {
	tuning := riverBest
	tuning.workers, tuning.cooldown, tuning.poll = 100, river.FetchCooldownDefault, river.FetchPollIntervalDefault
	return restrict(&riverContestant{load: l, name: "River, defaults", tuning: tuning}, "like River's", "latency", "idle")
}

// riverArgs are a job of River's.
type riverArgs struct {
	Text string `json:"t"`
	Key  string `json:"k,omitempty" river:"unique"`
}

// Kind names it.
func (riverArgs) Kind() string { return "no-op" }

// riverWorker does nothing.
type riverWorker struct {
	river.WorkerDefaults[riverArgs]
}

// Work does nothing.
func (*riverWorker) Work(context.Context, *river.Job[riverArgs]) error { return nil }

// Name is what tables show.
func (r *riverContestant) Name() string { return r.name }

// Version is that of the module.
func (*riverContestant) Version() string { return moduleVersion("github.com/riverqueue/river") }

// moduleVersion is the version of a module that this program was built with.
func moduleVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range info.Deps {
		if m.Path == path {
			return m.Version
		}
	}
	return "unknown"
}

// Settings say how it is run.
func (r *riverContestant) Settings() []Setting {
	t := r.tuning
	return []Setting{
		{"bulk", fmt.Sprintf("InsertManyFast (COPY), %d jobs a transaction, %d producers, %s", t.batch, t.producers, map[bool]string{true: "each job with a unique key (UniqueOpts.ByArgs)", false: "no unique keys"}[t.unique])},
		{"throughput, latency and idle", fmt.Sprintf("riverpgxv5, MaxWorkers %d, FetchCooldown %s, FetchPollInterval %s", t.workers, t.cooldown, t.poll)},
		{"done", "its event job_completed, which follows the commit of its completer; afterwards the table is asked whether all are completed"},
	}
}

// Prepare needs nothing.
func (*riverContestant) Prepare(context.Context, *Stack) error { return nil }

// Open makes River's tables.
func (r *riverContestant) Open(ctx context.Context, s *Stack) error {
	url, err := s.Fresh(ctx, "bench_river")
	if err != nil {
		return err
	}
	if r.pool, err = openPool(ctx, url); err != nil {
		return err
	}
	driver := riverpgxv5.New(r.pool.Pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: r.log()})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	r.insert, err = river.NewClient(driver, &river.Config{Logger: r.log()})
	return err
}

func (*riverContestant) log() *slog.Logger { return app.NewLogger(os.Stderr, slog.LevelWarn, true) }

// Close stops River.
func (r *riverContestant) Close(ctx context.Context) error {
	var err error
	if r.client != nil {
		err = r.client.Stop(ctx)
		r.cancel()
	}
	if r.pool != nil {
		r.pool.Close()
	}
	r.pool, r.client, r.insert = nil, nil, nil
	return err
}

// job is a job with as many bytes of JSON as the load says, beside its key if it has one.
func (r *riverContestant) job(key string, i int) (riverArgs, *river.InsertOpts) {
	args := riverArgs{Text: r.load.text(len(`{"t":""}`))}
	if !r.tuning.unique {
		return args, nil
	}
	args.Key = key + ":" + strconv.Itoa(i)
	return args, &river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true}}
}

// Insert enqueues in bulk.
func (r *riverContestant) Insert(ctx context.Context, m *Meter, n int) error {
	if err := m.Begin(ctx); err != nil {
		return err
	}
	if err := r.bulk(ctx, r.insert, n); err != nil {
		return err
	}
	return m.Done(ctx)
}

func (r *riverContestant) bulk(ctx context.Context, client *river.Client[pgx.Tx], n int) error {
	return batches(ctx, r.tuning.producers, n, r.tuning.batch, func(ctx context.Context, from, to int) error {
		params := make([]river.InsertManyParams, to-from)
		for i := range params {
			params[i].Args, params[i].InsertOpts = r.job("bulk", from+i)
		}
		_, err := client.InsertManyFast(ctx, params)
		return err
	})
}

// make makes a client that works, and what it tells of jobs that are done.
func (r *riverContestant) make(events int, done func(job int64)) error {
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{})
	client, err := river.NewClient(riverpgxv5.New(r.pool.Pool), &river.Config{
		FetchCooldown: r.tuning.cooldown, FetchPollInterval: r.tuning.poll, Logger: r.log(),
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: r.tuning.workers}}, Workers: workers,
	})
	if err != nil {
		return err
	}
	told, cancel := client.SubscribeConfig(&river.SubscribeConfig{ChanSize: events, Kinds: []river.EventKind{river.EventKindJobCompleted}})
	go func() {
		for e := range told {
			done(e.Job.ID)
		}
	}()
	r.client, r.cancel = client, cancel
	return nil
}

// Drain works what Insert left.
func (r *riverContestant) Drain(ctx context.Context, m *Meter, n int) error {
	done := newTally()
	if err := r.make(n, func(int64) { done.add(1) }); err != nil {
		return err
	}
	if err := m.Begin(ctx); err != nil {
		return err
	}
	if err := r.client.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	return r.finish(ctx, m, done, n)
}

// Both enqueues and works at once.
func (r *riverContestant) Both(ctx context.Context, m *Meter, n int) error {
	done := newTally()
	if err := r.make(n, func(int64) { done.add(1) }); err != nil {
		return err
	}
	if err := r.start(ctx); err != nil {
		return err
	}
	if err := m.Begin(ctx); err != nil {
		return err
	}
	if err := r.bulk(ctx, r.client, n); err != nil {
		return err
	}
	return r.finish(ctx, m, done, n)
}

// start starts the client and gives it time for what it does at a start.
func (r *riverContestant) start(ctx context.Context) error {
	if err := r.client.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	return waitFor(ctx, warmUp)
}

// finish waits until n jobs are done, ends the measurement, and asks the table.
func (r *riverContestant) finish(ctx context.Context, m *Meter, done *tally, n int) error {
	if err := done.wait(ctx, n); err != nil {
		return err
	}
	if err := m.Done(ctx); err != nil {
		return err
	}
	var completed int
	if err := r.pool.QueryRow(ctx, "select count(*) from river_job where state = $1", string(rivertype.JobStateCompleted)).Scan(&completed); err != nil {
		return err
	}
	if completed != n {
		return fmt.Errorf("%w: %d completed, %d counted", errWrongCount, completed, n)
	}
	return nil
}

// Singles enqueues one job a transaction.
func (r *riverContestant) Singles(ctx context.Context, m *Meter, clients int, d time.Duration) error {
	return r.pool.singles(ctx, m, clients, d, func(ctx context.Context, tx pgx.Tx, c, i int) error {
		args, opts := r.job("single:"+strconv.Itoa(c), i)
		_, err := r.insert.InsertTx(ctx, tx, args, opts)
		return err
	})
}

// Latency enqueues at a rate.
func (r *riverContestant) Latency(ctx context.Context, m *Meter, rate int, d time.Duration) error {
	watches := newStopwatches(&m.Histogram)
	if err := r.make(1+int(d.Seconds()*float64(rate)), watches.stop); err != nil {
		return err
	}
	if err := r.start(ctx); err != nil {
		return err
	}
	return r.pool.latency(ctx, m, rate, d, watches, func(ctx context.Context, tx pgx.Tx, i int) (int64, error) {
		args, opts := r.job("paced", i)
		result, err := r.client.InsertTx(ctx, tx, args, opts)
		if err != nil {
			return 0, err
		}
		return result.Job.ID, nil
	})
}

// Idle runs the client without a job.
func (r *riverContestant) Idle(ctx context.Context, m *Meter, d time.Duration) error {
	if err := r.make(1, func(int64) {}); err != nil {
		return err
	}
	if err := r.start(ctx); err != nil {
		return err
	}
	return idle(ctx, m, d)
}
