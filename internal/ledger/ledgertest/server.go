package ledgertest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"duly.dev/duly/internal/devstack"
	"duly.dev/duly/internal/ledger"
)

// server makes databases for the tests of one program.
type server struct {
	address  *url.URL // of a database that exists
	admin    *pgxpool.Pool
	template string // the database that is copied, and the prefix of the copies
	copies   atomic.Int64
	stop     func(context.Context) error
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
	return server.close(ctx)
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
	s := &server{template: "duly_test_" + strings.ToLower(rand.Text()[:12]), stop: stop}
	err := s.open(ctx, address)
	if err != nil {
		return nil, errors.Join(err, stop(ctx))
	}
	started.Store(s)
	return s, nil
}

func (s *server) open(ctx context.Context, address string) (err error) {
	if s.address, err = url.Parse(address); err != nil {
		return fmt.Errorf("reading %s: %w", sourceVariable, errors.Unwrap(err)) // its own text quotes the password
	}
	if s.admin, err = pgxpool.New(ctx, address); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.admin.Close()
		}
	}()
	if err := s.exec(ctx, "create database "+quoted(s.template)); err != nil {
		return err
	}
	if err := ledger.MigrateUp(ctx, s.url(s.template)); err != nil {
		return errors.Join(err, s.drop(s.template))
	}
	return nil
}

// close drops the template and stops the server.
func (s *server) close(ctx context.Context) error {
	err := s.drop(s.template)
	s.admin.Close()
	return errors.Join(err, s.stop(ctx))
}

// create makes a copy of the template and returns its name.
func (s *server) create() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
	defer cancel()
	name := fmt.Sprintf("%s_%d", s.template, s.copies.Add(1))
	return name, s.exec(ctx, "create database "+quoted(name)+" template "+quoted(s.template))
}

// drop drops a database, whoever is still connected to it.
func (s *server) drop(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
	defer cancel()
	return s.exec(ctx, "drop database if exists "+quoted(name)+" with (force)")
}

func (s *server) exec(ctx context.Context, statement string) error {
	if _, err := s.admin.Exec(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

// url returns the URL of a database of the server.
func (s *server) url(name string) string {
	address := *s.address
	address.Path = "/" + name
	return address.String()
}

func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }
