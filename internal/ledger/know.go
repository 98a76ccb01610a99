package ledger

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Querier is a transaction, the caller's own perhaps, or a pool.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// KnowKinds reads the kinds where one of the names is not known, or where they were
// read longer than age ago, and returns which names the ledger knows. It reads on the
// caller's own connection: a producer that holds the last one of its pool must not
// wait for another.
func (l *Ledger) KnowKinds(ctx context.Context, q Querier, names map[string]bool, age time.Duration) (map[string]bool, error) {
	known, fresh := l.known(names, age)
	if fresh && len(known) == len(names) {
		return known, nil
	}
	if err := l.loadKinds(ctx, q); err != nil {
		return nil, err
	}
	known, _ = l.known(names, age)
	return known, nil
}

// known returns which names are known, and whether they were read within age.
func (l *Ledger) known(names map[string]bool, age time.Duration) (map[string]bool, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	known := make(map[string]bool, len(names))
	for name := range names {
		if _, ok := l.ids[name]; ok {
			known[name] = true
		}
	}
	return known, time.Since(l.kindsRead) < age
}
