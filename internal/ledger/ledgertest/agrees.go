package ledgertest

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/machine"
)

// T is a test, or a check of a property.
type T interface {
	Helper()
	Errorf(format string, args ...any)
}

// Agrees fails the test for every place where the ledger does not agree with itself:
// a row that is not what its events make of it, or what should be in step with it and
// is not. It is for the end of tests that edit no row by hand.
func Agrees(t T, pool *pgxpool.Pool) {
	t.Helper()
	_, err := ledger.New(pool).Check(context.Background(), ledger.CheckRequest{}, func(d machine.Disagreement) error {
		t.Errorf("ledgertest: %s/%s: %s", d.Kind, d.Key, d)
		return nil
	})
	if err != nil {
		t.Errorf("ledgertest: checking the ledger: %v", err)
	}
}
