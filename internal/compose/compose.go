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

// Bus connects to the bus at the URL, whose scheme says which it is: nats:// or tls://
// for NATS, kafka:// for Kafka, and makes the topics of the configuration's lanes or
// verifies them. While the bus does not answer it tries again and says so; topics whose settings could
// lose unacknowledged work are an error.
func Bus(ctx context.Context, s *app.Service, url string, config *app.Config) (bus.Bus, error) {
	b, err := connect(ctx, s, url, config)
	if err != nil {
		return nil, err
	}
	s.Stack.Push("bus", closeBound, func(context.Context) error { return b.Close() })
	err = app.Retry(ctx, s.Log, "the bus at "+app.Where(url), func(ctx context.Context) error {
		if err := b.Ensure(ctx, config.LaneNames()); errors.Is(err, bus.ErrUnsafe) {
			return app.Permanent(err)
		} else if err != nil {
			return err
		}
		return nil
	})
	return b, err
}

// connect connects to the bus that the URL's scheme names.
func connect(ctx context.Context, s *app.Service, url string, config *app.Config) (bus.Bus, error) {
	log := app.Component(s.Log, "bus")
	switch scheme, _, _ := strings.Cut(url, "://"); scheme {
	case "nats", "tls":
		return natsbus.Connect(ctx, url, natsbus.Options{Prefix: config.Prefix, Name: s.Process.Name, Log: log, Metrics: s.Registry})
	case "kafka":
		b, err := kafkabus.Connect(ctx, url, kafkabus.Options{Prefix: config.Prefix, Name: s.Process.Name, Log: log, Metrics: s.Registry})
		switch {
		case errors.Is(err, kafkabus.ErrSettings):
			return nil, app.Exit(app.ExitUsage, fmt.Errorf("the bus's URL: %w", err))
		case err != nil:
			return nil, err
		}
		return b, nil
	default:
		return nil, app.Exit(app.ExitUsage, fmt.Errorf("the bus's URL: its scheme must be nats://, tls:// or kafka://, not %q", scheme))
	}
}
