package ledger

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The outbox is never deleted from. It lies in leaves by the time of writing, and a
// leaf whose rows have all done their work is truncated, which costs the same for one
// row and for ten million.

const (
	// maxLeftovers bounds the rows that are moved out of a leaf; with more of them
	// the leaf stays, since something stands still that should not.
	maxLeftovers = 10_000
	// leafPatience, in milliseconds, is how long the cursors and a leaf are waited for;
	// meanwhile the relay waits too.
	leafPatience = 100
)

// KeepOutbox empties the leaves of the outbox that have done their work and returns
// how many it emptied. A leaf is kept while more than a few of its rows wait to be
// relayed or judged, and while somebody uses it: a later call finds it again. Cursors
// of another cluster would say of new rows that they are done, so it begins with
// CheckRestored.
func (l *Ledger) KeepOutbox(ctx context.Context) (int, error) {
	if _, err := l.CheckRestored(ctx); err != nil {
		return 0, err
	}
	rows, err := l.pool.Query(ctx, stmt("outbox_leaves"))
	if err != nil {
		return 0, fmt.Errorf("listing the leaves of the outbox: %w", err)
	}
	slots, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return 0, fmt.Errorf("listing the leaves of the outbox: %w", err)
	}
	var emptied int
	var errs []error
	for _, slot := range slots {
		ok, err := l.emptyLeaf(ctx, slot)
		if ok {
			emptied++
		}
		errs = append(errs, err)
	}
	return emptied, errors.Join(append(errs, l.dropLeftovers(ctx))...)
}

// rowKey finds a row of a leaf.
type rowKey struct {
	Topic string
	XID   uint64
	ID    int64
}

// emptyLeaf truncates the leaf if it can. What is needed of it is looked up before it
// is locked: while it is, only what was written since can be needed besides, for a
// job never comes back to an emission that it has left.
func (l *Ledger) emptyLeaf(ctx context.Context, slot int) (bool, error) {
	var before string
	if err := l.pool.QueryRow(ctx, stmt("outbox_now")).Scan(&before); err != nil {
		return false, fmt.Errorf("beginning with leaf %d of the outbox: %w", slot, err)
	}
	needed, err := l.rowKeys(ctx, l.pool, leaf(stmt("outbox_leftovers"), slot), maxLeftovers+1)
	if err != nil || len(needed) > maxLeftovers {
		return false, wrapped(err, fmt.Sprintf("looking for what is needed of leaf %d of the outbox", slot))
	}
	err = l.inTx(ctx, fmt.Sprintf("emptying leaf %d of the outbox", slot), func(tx pgx.Tx) error {
		if err := lockCursors(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, leaf(stmt("leaf_lock"), slot)); err != nil {
			return err
		}
		newer, err := l.rowKeys(ctx, tx, leaf(stmt("outbox_newer"), slot), before, maxLeftovers+1)
		if err != nil {
			return err
		}
		if len(newer) > maxLeftovers {
			return errLeafInUse
		}
		if err := moveLeftovers(ctx, tx, slot, append(needed, newer...)); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, leaf(stmt("leaf_truncate"), slot))
		return err
	})
	if inUse(err) {
		return false, nil
	}
	return err == nil, err
}

// moveLeftovers keeps rows of a leaf that is about to be emptied. A relay whose
// statement began before sees them in neither place: it must not move its cursor.
func moveLeftovers(ctx context.Context, tx pgx.Tx, slot int, rows []rowKey) error {
	if len(rows) == 0 {
		return nil
	}
	topics, xids, ids := make([]string, len(rows)), make([]uint64, len(rows)), make([]int64, len(rows))
	for i, r := range rows {
		topics[i], xids[i], ids[i] = r.Topic, r.XID, r.ID
	}
	if _, err := tx.Exec(ctx, leaf(stmt("leaf_move"), slot), topics, xids, ids); err != nil {
		return fmt.Errorf("keeping %d leftovers: %w", len(rows), err)
	}
	_, err := tx.Exec(ctx, stmt("topics_disturbed"), topics)
	return wrapped(err, "telling the relays of leftovers")
}

// dropLeftovers deletes the leftovers that have done their work since.
func (l *Ledger) dropLeftovers(ctx context.Context) error {
	err := l.inTx(ctx, "dropping leftovers of the outbox", func(tx pgx.Tx) error {
		if err := lockCursors(ctx, tx); err != nil {
			return err
		}
		needed, err := l.rowKeys(ctx, tx, strings.ReplaceAll(stmt("outbox_leftovers"), leafName, "duly.outbox_left"), 1<<30)
		if err != nil {
			return err
		}
		ids := make([]int64, len(needed))
		for i, r := range needed {
			ids[i] = r.ID
		}
		_, err = tx.Exec(ctx, stmt("left_drop"), ids)
		return err
	})
	if inUse(err) {
		return nil
	}
	return err
}

// lockCursors holds every relay and judge where they stand, in one order, or gives up
// soon.
func lockCursors(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, stmt("hurry"), strconv.Itoa(leafPatience)); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, stmt("cursors_lock")); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, stmt("judges_lock"))
	return err
}

func (l *Ledger) rowKeys(ctx context.Context, db Batcher, sql string, args ...any) ([]rowKey, error) {
	var keys []rowKey
	err := l.seek(ctx, db, func(r pgx.BatchResults) error {
		rows, err := r.Query()
		if err != nil {
			return err
		}
		keys, err = pgx.CollectRows(rows, pgx.RowToStructByPos[rowKey])
		return err
	}, sql, args...)
	return keys, err
}

const leafName = "duly.outbox_leaf"

// leaf makes a statement that stands for one leaf that of the slot's.
func leaf(sql string, slot int) string {
	return strings.ReplaceAll(sql, leafName, "duly.outbox_"+strconv.Itoa(slot))
}

// errLeafInUse: much was written to a leaf whose time is over.
var errLeafInUse = errors.New("the leaf is being written")

// inUse reports whether somebody uses what would have been locked.
func inUse(err error) bool {
	var pg *pgconn.PgError
	return errors.Is(err, errLeafInUse) || errors.As(err, &pg) && pg.Code == "55P03"
}
