package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/machine"
)

// IssueMark writes a mark for everything that the holder has relayed on the lane, for
// the partitions that its client knows. Only then is it published.
// machine.ErrLostTopic: another holds the topic.
func (l *Ledger) IssueMark(ctx context.Context, lane, holder string, partitions []int32) (machine.Mark, error) {
	m := machine.Mark{Lane: lane, Partitions: partitions}
	err := l.inTx(ctx, "issuing a mark on lane "+lane, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, stmt("mark_issue"), lane, holder, partitions).Scan(&m.Number, &m.Issued)
		if errors.Is(err, pgx.ErrNoRows) {
			return machine.ErrLostTopic
		}
		return err
	})
	return m, err
}

// PassMark notes that the mark has passed the partition: whatever was published there
// before it was delivered, or is lost. The ledger keeps the largest number of a
// partition; a number that it did not issue, or has judged already, changes nothing.
func (l *Ledger) PassMark(ctx context.Context, lane string, partition int32, number int64) error {
	return l.inTx(ctx, fmt.Sprintf("noting that mark %d passed partition %d of lane %s", number, partition, lane), func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, stmt("mark_lock"), lane, number)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		tag, err = tx.Exec(ctx, stmt("mark_pass"), lane, partition, number)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		_, err = tx.Exec(ctx, stmt("marks_passed"), lane, number)
		return err
	})
}

// MarkStands reports whether the lane's newest mark has not passed everywhere yet.
func (l *Ledger) MarkStands(ctx context.Context, lane string) (bool, error) {
	var stands bool
	err := l.pool.QueryRow(ctx, stmt("mark_stands"), lane).Scan(&stands)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return false, fmt.Errorf("reading the newest mark of lane %s: %w", lane, err)
	}
	return stands, nil
}

// StandingMarks returns, for every lane that has one, the oldest mark that has not
// passed everywhere. An old one means that nobody takes the lane's messages, or that
// the bus lost it and no later one has come through yet.
func (l *Ledger) StandingMarks(ctx context.Context) ([]machine.Mark, error) {
	rows, err := l.pool.Query(ctx, stmt("marks_standing"))
	if err != nil {
		return nil, fmt.Errorf("reading the standing marks: %w", err)
	}
	marks, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (machine.Mark, error) {
		var m machine.Mark
		return m, r.Scan(&m.Number, &m.Lane, &m.Partitions, &m.Issued, &m.Age)
	})
	if err != nil {
		return nil, fmt.Errorf("reading the standing marks: %w", err)
	}
	return marks, nil
}
