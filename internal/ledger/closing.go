package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/machine"
)

// CloseUnknown closes unknown outcomes that nobody answered within resolve_within, at
// most limit, and returns how many and whether there may be more. A closed one stays
// unknown and visible; only a person can settle it.
func (l *Ledger) CloseUnknown(ctx context.Context, limit int) (closed int, more bool, err error) {
	const doing = "closing unknown outcomes"
	var targets []target
	err = l.seek(ctx, l.pool, func(r pgx.BatchResults) error {
		rows, err := r.Query()
		if err != nil {
			return err
		}
		var at rowID
		_, err = pgx.ForEachRow(rows, []any{&at.job, &at.generation}, func() error {
			targets = append(targets, target{Job: at.job, Generation: at.generation, Event: machine.Event{Name: machine.Close, Actor: "scheduler"}})
			return nil
		})
		return err
	}, stmt("closing_page"), limit)
	if err != nil {
		return 0, false, fmt.Errorf("%s: %w", doing, err)
	}
	if len(targets) == 0 {
		return 0, false, nil
	}
	ended := make(machine.Tally)
	err = l.inTx(ctx, doing, func(tx pgx.Tx) error {
		decisions, _, err := l.decideFree(ctx, tx, targets)
		clear(ended)
		count(decisions, ended)
		return err
	})
	closed = ended.Total()
	return closed, err == nil && len(targets) == limit && closed > 0, err
}
