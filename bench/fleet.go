package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/compose"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/pkg/handler"
)

// fleet is Duly as processes run it: a scheduler, a dispatcher and workers, each with its
// own connections to the ledger and to the bus, its own row, heartbeat and metrics. Only
// the process is one.
type fleet struct {
	version     string
	ledger, bus string
	config      *app.Config
	done        func(jobs []int64)
	services    []*dulyService
}

// fleetConfig is a configuration of workers with so many slots each.
func fleetConfig(slots, pack int) (*app.Config, error) {
	return app.ParseConfig("fleet", fmt.Appendf(nil, "lanes: {bench: {pack: %d}}\nkinds: {%s: {lane: bench, channel: go}}\nworker: {slots: %d}\n", pack, dulyKind, slots))
}

// start starts them all, and returns when each of the workers may take work.
func (f *fleet) start(ctx context.Context, workers int) error {
	for _, build := range []func(context.Context, *app.Service) error{f.scheduler, f.dispatcher} {
		if err := f.serve(ctx, build); err != nil {
			return err
		}
	}
	for range workers {
		if err := f.serve(ctx, f.worker); err != nil {
			return err
		}
	}
	return nil
}

// stop ends them, all at once.
func (f *fleet) stop() error {
	for _, s := range f.services {
		s.cancel()
	}
	var err error
	for _, s := range f.services {
		err = errors.Join(err, s.stop())
	}
	f.services = nil
	return err
}

// serve runs what would be one process.
func (f *fleet) serve(ctx context.Context, build func(context.Context, *app.Service) error) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &dulyService{cancel: cancel, ended: make(chan struct{})}
	f.services = append(f.services, s)
	prepared := make(chan struct{})
	p := &app.Process{Name: "bench", Version: f.version, Log: app.NewLogger(os.Stderr, slog.LevelWarn, true), Stdout: os.Stderr, Stderr: os.Stderr}
	go func() {
		defer close(s.ended)
		s.err = app.Serve(ctx, p, app.AdminSettings{AdminAddr: "127.0.0.1:0"}, func(ctx context.Context, service *app.Service) error {
			if err := build(ctx, service); err != nil {
				return err
			}
			close(prepared)
			return nil
		})
	}()
	select {
	case <-prepared:
		return nil
	case <-s.ended:
		return fmt.Errorf("starting a part of the fleet: %w", s.err)
	}
}

// dispatcherConns are those of cmd/dispatcher.
const dispatcherConns = 8

func (f *fleet) scheduler(ctx context.Context, s *app.Service) error {
	l, err := compose.Ledger(ctx, s, f.ledger, compose.SchedulerConns)
	if err != nil {
		return err
	}
	return compose.Scheduler(ctx, s, f.config, l)
}

func (f *fleet) dispatcher(ctx context.Context, s *app.Service) error {
	l, err := compose.Ledger(ctx, s, f.ledger, dispatcherConns)
	if err != nil {
		return err
	}
	buses, err := compose.OpenBuses(ctx, s, app.BusSettings{BusURL: f.bus}, f.config)
	if err != nil {
		return err
	}
	return compose.Dispatcher(s, f.config, l, buses)
}

func (f *fleet) worker(ctx context.Context, s *app.Service) error {
	l, err := compose.Ledger(ctx, s, f.ledger, compose.WorkerConns(f.config))
	if err != nil {
		return err
	}
	heart, err := compose.Heart(ctx, s, f.ledger, l)
	if err != nil {
		return err
	}
	buses, err := compose.OpenBuses(ctx, s, app.BusSettings{BusURL: f.bus}, f.config)
	if err != nil {
		return err
	}
	nothing := handler.Func(func(context.Context, handler.Job) error { return nil })
	return compose.Worker(s, f.config, compose.WorkerParts{
		Ledger: watchedLedger{l, f.done}, Heart: heart, Buses: buses, Handlers: map[string]handler.Handler{dulyKind: nothing},
	})
}

// fleetOn makes a fleet on a ground, by the URLs of its servers.
func fleetOn(g *ground, config *app.Config, ledger, bus string, done func([]int64)) *fleet {
	return &fleet{version: g.version, ledger: ledger, bus: bus, config: config, done: done}
}

// sizeOf is a fleet's size in a table.
type sizeOf struct {
	Workers int `json:"workers"`
	Slots   int `json:"slots"`
}

func (s sizeOf) String() string {
	if s.Workers == 1 {
		return fmt.Sprintf("1 worker of %s slots", grouped(int64(s.Slots)))
	}
	return fmt.Sprintf("%s workers of %s slots", grouped(int64(s.Workers)), grouped(int64(s.Slots)))
}

// fleetFigures is what was measured of one fleet in one round.
type fleetFigures struct {
	sizeOf
	// Registered is after how many seconds all workers had their rows.
	Registered float64 `json:"registered_seconds"`
	// Connections are those to PostgreSQL, this program's own not counted.
	Connections int `json:"connections"`
	// Idle is the fleet without a job; Statements are what it asks meanwhile.
	Idle       Sample      `json:"idle"`
	Statements []statement `json:"idle_statements"`
	Both       Sample      `json:"both"`
	Latency    Sample      `json:"latency"`
}

// fleetPlan is how fleets are measured.
type fleetPlan struct {
	jobs, pack    int
	idle, latency time.Duration
	hasty         bool
}

// measureFleet starts a fleet on a fresh ledger and measures it idle, at full rate and at
// 500 jobs a second.
func measureFleet(ctx context.Context, s *Stack, size sizeOf, plan fleetPlan) (f fleetFigures, err error) {
	f.sizeOf = size
	g, err := newGround(ctx, s, "fleet", dulyBest)
	if err != nil {
		return f, err
	}
	g.hasty = plan.hasty
	if g.config, err = fleetConfig(size.Slots, plan.pack); err != nil {
		return f, err
	}
	if err := g.open(ctx); err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, g.Close(ctx)) }()
	done := newTally()
	var watches atomic.Pointer[stopwatches]
	fl := fleetOn(g, g.config, g.url, g.nats.URL(), func(jobs []int64) {
		done.add(len(jobs))
		if w := watches.Load(); w != nil {
			for _, id := range jobs {
				w.stop(id)
			}
		}
	})
	defer func() { err = errors.Join(err, fl.stop()) }()
	if err := f.register(ctx, g, fl); err != nil {
		return f, err
	}
	if err := f.idle(ctx, g, plan.idle); err != nil {
		return f, err
	}
	if f.Both, err = g.take(ctx, "both", plan.jobs, func(ctx context.Context, m *Meter) error {
		if err := errors.Join(m.Begin(ctx), g.insert(ctx, plan.jobs)); err != nil {
			return err
		}
		return errors.Join(done.wait(ctx, plan.jobs), m.Done(ctx), g.check(ctx, plan.jobs))
	}); err != nil {
		return f, err
	}
	f.Latency, err = g.take(ctx, "latency-500", 0, func(ctx context.Context, m *Meter) error {
		w := newStopwatches(&m.Histogram)
		watches.Store(w)
		return g.paced(ctx, m, 500, plan.latency, w)
	})
	return f, err
}

// register starts the fleet and waits until every worker has its row.
func (f *fleetFigures) register(ctx context.Context, g *ground, fl *fleet) error {
	began := time.Now()
	if err := fl.start(ctx, f.Workers); err != nil {
		return err
	}
	err := until(ctx, func() (bool, error) {
		beats, err := ledger.New(g.pool.Pool).Beats(ctx)
		return len(beats) == f.Workers, err
	})
	f.Registered = time.Since(began).Seconds()
	if err != nil {
		return err
	}
	return g.pool.QueryRow(ctx, "select count(*) from pg_stat_activity where datname = current_database() and application_name = 'bench'").Scan(&f.Connections)
}

// idle watches the fleet without a job.
func (f *fleetFigures) idle(ctx context.Context, g *ground, d time.Duration) error {
	m := newMeter(g.stack, 0)
	if err := waitFor(ctx, 2*warmUp); err != nil {
		return err
	}
	w, err := watchStatements(ctx, g.stack, g.database)
	if err != nil {
		return err
	}
	err = errors.Join(m.Begin(ctx), waitFor(ctx, d), m.Done(ctx))
	statements, stopped := w.stop(ctx)
	if err := errors.Join(err, stopped); err != nil {
		return err
	}
	f.Statements = statements
	f.Idle, err = m.result()
	return err
}
