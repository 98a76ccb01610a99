// Package compose connects a process to the ledger and the bus by their URLs: the part
// of composing that every binary does alike. What it opens is pushed on the service's
// stack, so that it is closed after the loops that use it.
package compose

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/bus/kafkabus"
	"duly.dev/duly/internal/bus/natsbus"
	"duly.dev/duly/internal/ledger"
)

// closeBound is what closing a connection may take.
const closeBound = 5 * time.Second

// Pool connects to PostgreSQL with at most conns connections, unless the URL says
// pool_max_conns. While the server does not answer it tries again and says so; a
// server that refuses, and a schema that is not this program's, are errors.
func Pool(ctx context.Context, s *app.Service, url string, conns int32) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, app.Exit(app.ExitUsage, fmt.Errorf("the ledger's URL: %w", err))
	}
	if !strings.Contains(url, "pool_max_conns") {
		config.MaxConns = conns
	}
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = s.Process.Name
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the ledger: %w", err)
	}
	s.Stack.Push("ledger", closeBound, func(context.Context) error { pool.Close(); return nil })
	err = app.Retry(ctx, s.Log, "the ledger at "+app.Where(url), func(ctx context.Context) error {
		if err := pool.Ping(ctx); err != nil {
			return refused(err)
		}
		if err := ledger.CheckSchema(ctx, url); errors.Is(err, ledger.ErrSchema) {
			return app.Permanent(err)
		} else if err != nil {
			return err
		}
		return nil
	})
	return pool, err
}

// refused makes an error permanent that no waiting repairs: the server knows neither
// the user, the password nor the database.
func refused(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (strings.HasPrefix(pg.Code, "28") || pg.Code == "3D000") {
		return app.Permanent(err)
	}
	return err
}

// Ledger opens the ledger at the URL, as Pool does.
func Ledger(ctx context.Context, s *app.Service, url string, conns int32) (*ledger.Ledger, error) {
	pool, err := Pool(ctx, s, url, conns)
	if err != nil {
		return nil, err
	}
	return ledger.New(pool), nil
}

// Buses are the bus that a process works with and, while lanes move, the one that they
// move to. An address is what the ledger calls a bus.
type Buses struct {
	Bus     bus.Bus
	Address string
	// Next is nil unless lanes are to be moved.
	Next        bus.Bus
	NextAddress string
}

// OpenBuses connects to the bus of the settings and, where there is one, to the next. Both
// must answer before the process begins.
func OpenBuses(ctx context.Context, s *app.Service, settings app.BusSettings, config *app.Config) (Buses, error) {
	var all Buses
	var err error
	if all.Bus, all.Address, err = open(ctx, s, settings.BusURL, config); err != nil || settings.NextURL == "" {
		return all, err
	}
	if all.NextAddress, err = bus.Address(settings.NextURL); err != nil {
		return all, app.Exit(app.ExitUsage, fmt.Errorf("the next one: %w", err))
	}
	if all.NextAddress == all.Address {
		return all, app.Exit(app.ExitUsage, fmt.Errorf("the next bus is the bus itself, %s: give DULY_BUS_NEXT_URL only while lanes move to another", all.Address))
	}
	all.Next, _, err = open(ctx, s, settings.NextURL, config)
	return all, err
}

// open connects to the bus at the URL, whose scheme says which it is: nats:// or tls://
// for NATS, kafka:// for Kafka, and makes the topics of the configuration's lanes or
// verifies them. While the bus does not answer it tries again and says so; topics whose
// settings could lose unacknowledged work are an error. It returns the bus's address besides.
func open(ctx context.Context, s *app.Service, url string, config *app.Config) (bus.Bus, string, error) {
	address, err := bus.Address(url)
	if err != nil {
		return nil, "", app.Exit(app.ExitUsage, err)
	}
	b, err := connect(ctx, s, url, address, config)
	if err != nil {
		return nil, "", err
	}
	s.Stack.Push("bus", closeBound, func(context.Context) error { return b.Close() })
	err = app.Retry(ctx, s.Log, "the bus at "+address, func(ctx context.Context) error {
		if err := b.Ensure(ctx, config.LaneNames()); errors.Is(err, bus.ErrUnsafe) {
			return app.Permanent(err)
		} else if err != nil {
			return err
		}
		return nil
	})
	return b, address, err
}

// connect opens a connection; metrics carry the bus's address, since there may be two.
func connect(ctx context.Context, s *app.Service, url, address string, config *app.Config) (bus.Bus, error) {
	log := app.Component(s.Log, "bus")
	var metrics prometheus.Registerer
	if s.Registry != nil {
		metrics = prometheus.WrapRegistererWith(prometheus.Labels{"bus": address}, s.Registry)
	}
	if strings.HasPrefix(address, "nats://") {
		return natsbus.Connect(ctx, url, natsbus.Options{Prefix: config.Prefix, Name: s.Process.Name, Log: log, Metrics: metrics})
	}
	b, err := kafkabus.Connect(ctx, url, kafkabus.Options{Prefix: config.Prefix, Name: s.Process.Name, Log: log, Metrics: metrics})
	switch {
	case errors.Is(err, kafkabus.ErrSettings):
		return nil, app.Exit(app.ExitUsage, fmt.Errorf("the bus's URL: %w", err))
	case err != nil:
		return nil, err
	}
	return b, nil
}
