package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// retryBatch bounds how much of what was set aside is tried again in one transaction.
const retryBatch = 100

// SetAside keeps rows of the topic that the broker will not take, or the references
// of them that are given, so that those behind flow. cause is kept for people. They
// are tried again after 10 s, doubling to 30 min.
func (l *Ledger) SetAside(ctx context.Context, topic string, rows []machine.OutboxRow, cause error) error {
	return l.inTx(ctx, fmt.Sprintf("setting %d rows of topic %s aside", len(rows), topic), func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		for _, r := range rows {
			kind, err := l.kindID(ctx, r.Kind)
			if err != nil {
				return err
			}
			jobs, generations, emissions := columns(r.Refs)
			batch.Queue(stmt("unsendable_put"), r.ID, topic, kind, null(r.At), jobs, generations, emissions, job.Storable(cause.Error(), job.MaxDetail))
		}
		return tx.SendBatch(ctx, batch).Close()
	})
}

// RetryUnsendable writes the next try of what was set aside on the topic and is due,
// as new outbox rows; it drops what was taken meanwhile or is waited for no more. It
// returns how many it tries again.
func (l *Ledger) RetryUnsendable(ctx context.Context, topic string) (int, error) {
	var due bool
	if err := l.pool.QueryRow(ctx, stmt("unsendable_due"), topic).Scan(&due); err != nil || !due {
		return 0, wrapped(err, "looking for what was set aside on topic "+topic)
	}
	var n int64
	err := l.inTx(ctx, "trying again what was set aside on topic "+topic, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, stmt("unsendable_sent"), topic); err != nil {
			return err
		}
		if topic != machine.DeadTopic {
			if _, err := tx.Exec(ctx, stmt("unsendable_stale"), topic); err != nil {
				return err
			}
		}
		tag, err := tx.Exec(ctx, stmt("unsendable_retry"), topic, retryBatch)
		n = tag.RowsAffected()
		return err
	})
	return int(n), err
}

// Unsendable lists what is set aside, the oldest first, at most limit.
func (l *Ledger) Unsendable(ctx context.Context, limit int) ([]machine.Unsendable, error) {
	rows, err := l.pool.Query(ctx, stmt("unsendable_list"), limit)
	if err != nil {
		return nil, fmt.Errorf("listing what is set aside: %w", err)
	}
	all, err := l.scanUnsendable(ctx, rows)
	if err != nil {
		return nil, fmt.Errorf("listing what is set aside: %w", err)
	}
	return all, nil
}

// scanUnsendable collects the rows of unsendable_list and show_unsendable.
func (l *Ledger) scanUnsendable(ctx context.Context, rows pgx.Rows) ([]machine.Unsendable, error) {
	var all []machine.Unsendable
	var kinds []int16
	var r outboxRow
	var u machine.Unsendable
	_, err := pgx.ForEachRow(rows, []any{&u.Outbox, &u.Topic, &r.Kind, &r.Jobs, &r.Generations, &r.Emissions, &u.Tries, &u.Since, &u.Next, &u.Error}, func() error {
		u.Refs = r.refs()
		all, kinds = append(all, u), append(kinds, r.Kind)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range all {
		kind, err := l.kindByID(ctx, kinds[i])
		if err != nil {
			return nil, err
		}
		all[i].Kind = kind.Name
	}
	return all, nil
}

// CountUnsendable returns how many rows are set aside, by topic.
func (l *Ledger) CountUnsendable(ctx context.Context) (map[string]int, error) {
	rows, err := l.pool.Query(ctx, stmt("unsendable_count"))
	if err != nil {
		return nil, fmt.Errorf("counting what is set aside: %w", err)
	}
	counts := make(map[string]int)
	var topic string
	var n int
	if _, err = pgx.ForEachRow(rows, []any{&topic, &n}, func() error { counts[topic] = n; return nil }); err != nil {
		return nil, fmt.Errorf("counting what is set aside: %w", err)
	}
	return counts, nil
}
