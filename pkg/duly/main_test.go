package duly_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/ledger/ledgertest"
	"duly.dev/duly/internal/machine"
)

func TestMain(m *testing.M) { ledgertest.Main(m) }

// kind is the one that the ledgers of these tests have.
const kind = "renewal-reminder"

// newLedger returns a pool on a ledger that has the kind.
func newLedger(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	pool := ledgertest.New(tb)
	policy := machine.DefaultPolicy()
	k := machine.Kind{Name: kind, Lane: "mail", Channel: "smtp", Policy: policy, Promises: machine.DefaultPromises(policy.Limit)}
	if err := ledger.New(pool).SyncKinds(tb.Context(), []machine.Kind{k}); err != nil {
		tb.Fatal(err)
	}
	return pool
}

// exampleTB lets examples, which get no testing.T, have a ledger of their own.
type exampleTB struct {
	*testing.B
	cleanups []func()
}

func (e *exampleTB) Helper() {}

func (e *exampleTB) Context() context.Context { return context.Background() }

func (e *exampleTB) Cleanup(f func()) { e.cleanups = append(e.cleanups, f) }

func (e *exampleTB) Fatal(args ...any) { e.Fatalf("%s", fmt.Sprintln(args...)) }

func (e *exampleTB) Errorf(format string, args ...any) { e.Fatalf(format, args...) }

func (e *exampleTB) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

// withLedger runs an example against a new ledger.
func withLedger(example func(*pgxpool.Pool)) {
	tb := &exampleTB{B: &testing.B{}}
	defer func() {
		for _, cleanup := range slices.Backward(tb.cleanups) {
			cleanup()
		}
	}()
	example(newLedger(tb))
}
