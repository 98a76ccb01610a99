package eval

import (
	"context"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/pkg/job"
)

// generate writes a row for each of the jobs, and one that belongs to nobody.
func (w *world) generate(ctx context.Context, specs []job.Spec) error {
	if w.pool == nil {
		return nil
	}
	rows := [][]any{{"of nobody"}}
	for _, s := range specs {
		rows = append(rows, []any{s.Key})
	}
	_, err := w.pool.CopyFrom(ctx, pgx.Identifier{"draft"}, []string{"operation_key"}, pgx.CopyFromRows(rows))
	return err
}

// removed says how often what was generated was removed, by operation key, and how many
// rows are left.
func (w *world) removed(ctx context.Context) (times map[string]int, left int, err error) {
	if w.pool == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		return maps.Clone(w.removals), 1, nil
	}
	times = make(map[string]int)
	rows, err := w.pool.Query(ctx, "TABLE removed")
	if err != nil {
		return nil, 0, err
	}
	var key string
	if _, err := pgx.ForEachRow(rows, []any{&key}, func() error { times[key]++; return nil }); err != nil {
		return nil, 0, err
	}
	rows, err = w.pool.Query(ctx, "TABLE draft")
	if err != nil {
		return nil, 0, err
	}
	_, err = pgx.ForEachRow(rows, []any{&key}, func() error { left++; return nil })
	return times, left, err
}

// now is the ledger's clock.
func (w *world) now(ctx context.Context) (time.Time, error) { return w.store.Now(ctx) }

// rest waits for d, or until the world ends.
func (w *world) rest(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.over:
	}
}
