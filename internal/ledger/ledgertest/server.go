package ledgertest

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"

	"duly.dev/duly/internal/devstack"
	"duly.dev/duly/internal/ledger"
)

// server makes databases for the tests of one program.
type server struct {
	databases *devstack.Databases
	stop      func(context.Context) error
}

// shared is the server that the tests of this program share. It starts with
// the first call.
var (
	shared  = sync.OnceValues(startShared)
	started atomic.Pointer[server]
)

// stopShared stops the server if it was started.
func stopShared() error {
	server := started.Load()
	if server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
	defer cancel()
	return errors.Join(server.databases.Close(ctx), server.stop(ctx))
}

func startShared() (*server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	source := os.Getenv(sourceVariable)
	if isURL(source) {
		return open(ctx, source, func(context.Context) error { return nil })
	}
	postgres, err := devstack.StartPostgres(ctx, devstack.PostgresOptions{
		Source: source, UnsafeNoSync: true,
		// Every test of whole programs runs some schedulers, and all tests share the server.
		Settings: map[string]string{"max_connections": "1000"},
	})
	if err != nil {
		return nil, err
	}
	return open(ctx, postgres.URL(), postgres.Stop)
}

// open makes the template on the server at the address, which stop stops.
func open(ctx context.Context, address string, stop func(context.Context) error) (*server, error) {
	databases, err := devstack.OpenDatabases(ctx, address, "duly_test", ledger.MigrateUp)
	if err != nil {
		return nil, errors.Join(err, stop(ctx))
	}
	s := &server{databases, stop}
	started.Store(s)
	return s, nil
}

// create makes a copy of the template and returns its URL, and what drops it.
func (s *server) create() (string, func() error, error) {
	ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
	defer cancel()
	url, drop, err := s.databases.Create(ctx)
	return url, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
		defer cancel()
		return drop(ctx)
	}, err
}
