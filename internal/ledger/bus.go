package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/machine"
)

// Bus is the address of the bus that the lanes were moved to; empty if they never
// were, and every dispatcher relays to the bus of its own settings.
func (l *Ledger) Bus(ctx context.Context) (string, error) {
	var address string
	if err := l.pool.QueryRow(ctx, stmt("bus")).Scan(&address); err != nil {
		return "", fmt.Errorf("asking for the ledger's bus: %w", err)
	}
	return address, nil
}

// MoveBus has every lane relayed to another bus, in one transaction. Nothing of the
// old one is drained, and nothing is lost: whatever is ready has its announcement
// behind the place where its lane's judge stands, so the relay goes back to there and
// announces it again. What the old bus still delivers meets the same ledger, which
// leases each emission once. Marks on the old bus are void; the first mark on the new
// one speaks for all that was not judged.
//
// The move is in the audit. machine.ErrBus: the lanes are on another bus than from, or on to already. A ledger
// whose lanes were never moved knows no bus, and takes any from.
func (l *Ledger) MoveBus(ctx context.Context, m machine.BusMove) error {
	if err := m.Check(); err != nil {
		return err
	}
	return l.inTx(ctx, "moving the lanes to "+m.To, func(tx pgx.Tx) error {
		var current string
		if err := tx.QueryRow(ctx, stmt("bus_lock")).Scan(&current); err != nil {
			return err
		}
		if err := m.CheckFrom(current); err != nil {
			return err
		}
		for _, step := range []struct {
			name string
			args []any
		}{
			{"cursors_lock", nil},
			{"judges_lock", nil},
			{"bus_turn", nil},
			{"bus_unjudge", nil},
			{"restore_marks", nil},
			{"restore_passed", nil},
			{"bus_set", []any{m.To}},
			{"audit_put", []any{m.Actor, "move bus", nil, nil, map[string]string{"from": m.From, "to": m.To}}},
		} {
			if _, err := tx.Exec(ctx, stmt(step.name), step.args...); err != nil {
				return fmt.Errorf("%s: %w", step.name, err)
			}
		}
		return nil
	})
}

// UnheldLanes are the lanes that no dispatcher relays at this moment, in order.
func (l *Ledger) UnheldLanes(ctx context.Context) ([]string, error) {
	rows, err := l.pool.Query(ctx, stmt("lanes_unheld"))
	if err != nil {
		return nil, fmt.Errorf("reading who relays the lanes: %w", err)
	}
	lanes, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return lanes, wrapped(err, "reading who relays the lanes")
}
