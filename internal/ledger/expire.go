package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/failpoint"
	"duly.dev/duly/internal/machine"
)

// Expire ends the next generations whose deadline, age or lifetime is over, out of at
// most limit rows whose instant has come, and reports whether there is more. Every
// scheduler may call it: they share one place, and one at a time moves it. What another
// transaction has locked, or committed late, is not found again here: promotion and
// lease look at the same instants, and the patrol at every row.
func (l *Ledger) Expire(ctx context.Context, limit int) (ended machine.Tally, more bool, err error) {
	const name, doing = "deadlines", "ending what has expired"
	some, err := l.ahead(ctx, name, "expire_page", func(at progress) []any { return []any{at.instant, at.id, 1} })
	if err != nil || !some {
		return nil, false, wrapped(err, doing)
	}
	_, err = l.turn(ctx, name, 0, doing, func(tx pgx.Tx, at progress) error {
		ended, more = make(machine.Tally), false
		var (
			rows        int
			last        *time.Time
			id          *int64
			jobs        []int64
			generations []int32
		)
		if err := tx.QueryRow(ctx, stmt("expire_page"), at.instant, at.id, limit).Scan(&rows, &last, &id, &jobs, &generations); err != nil {
			return fmt.Errorf("looking for what has expired: %w", err)
		}
		if rows == 0 {
			return nil
		}
		more = rows == limit
		for part := range slices.Chunk(expiries(jobs, generations), sweepBatch) {
			decisions, _, err := l.decideFree(ctx, tx, part)
			if err != nil {
				return err
			}
			count(decisions, ended)
		}
		if err := failpoint.At(failpoint.ExpireDecided); err != nil {
			return err
		}
		return move(ctx, tx, name, *last, *id)
	})
	return ended, more && err == nil, err
}

func expiries(jobs []int64, generations []int32) []target {
	all := make([]target, len(jobs))
	for i := range all {
		all[i] = target{Job: jobs[i], Generation: generations[i], Event: machine.Event{Name: machine.Expire, Actor: "scheduler"}}
	}
	return all
}

// count counts what was decided and changed.
func count(decisions []decision, t machine.Tally) {
	for _, d := range decisions {
		if d.Found && d.Change.Refused == machine.Applied {
			t.Add(d.Row)
		}
	}
}
