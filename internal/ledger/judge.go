package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/failpoint"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// Judge judges the next outbox rows of the lane, at most limit, that a passed mark
// covers, each once: a job that is still ready at the emission that such a row
// announced was lost on the bus, and is announced anew. contact is how long the
// caller, by its own monotonic clock, has been in unbroken contact with the ledger;
// with less than machine.JudgeAfter nothing is judged. It returns how many were lost and
// whether there is more to judge now. Several may call it at once: one judges, the
// others find nothing. Where somebody's open transaction has locked one of the jobs it
// fails soon: since each row is judged once, none is passed over.
func (l *Ledger) Judge(ctx context.Context, lane string, contact time.Duration, limit int) (lost int, more bool, err error) {
	if contact < machine.JudgeAfter {
		return 0, false, nil
	}
	var due bool
	if err := l.pool.QueryRow(ctx, stmt("judge_due"), lane, machine.JudgeAfter).Scan(&due); err != nil || !due {
		return 0, false, wrapped(err, "looking for a mark to judge on lane "+lane)
	}
	if _, err := l.pool.Exec(ctx, stmt("judge_add"), lane); err != nil {
		return 0, false, fmt.Errorf("making the judge's cursor of lane %s: %w", lane, err)
	}
	err = l.inTx(ctx, "judging lane "+lane, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, stmt("hurry"), rowPatience); err != nil {
			return err
		}
		lost, more, err = l.judge(ctx, tx, lane, limit)
		return err
	})
	if inUse(err) {
		err = fmt.Errorf("%w: a transaction that is open has locked one of its jobs; the lane is judged when that ends", err)
	}
	return lost, more, err
}

// judgement is where the judge of a lane stands.
type judgement struct {
	judged string  // snapshot up to which everything was judged
	pass   *string // snapshot of the mark that is being judged
	mark   *int64
	xid    uint64
	id     int64
}

func (l *Ledger) judge(ctx context.Context, tx pgx.Tx, lane string, limit int) (lost int, more bool, err error) {
	j, err := openJudgement(ctx, tx, lane)
	if err != nil || j.pass == nil {
		return 0, false, err
	}
	rows, err := l.between(ctx, tx, span{lane, j.judged, *j.pass, j.xid, j.id}, limit)
	if err != nil {
		return 0, false, fmt.Errorf("reading what mark %d covers: %w", *j.mark, err)
	}
	targets, err := l.lost(ctx, tx, rows)
	if err != nil {
		return 0, false, err
	}
	decisions, _, err := l.decide(ctx, tx, targets)
	if err != nil {
		return 0, false, err
	}
	for _, d := range decisions {
		if d.Found && d.Change.Refused == machine.Applied {
			lost++
		}
	}
	if n := len(rows); n > 0 {
		j.xid, j.id = rows[n-1].XID, rows[n-1].ID
	}
	if err := failpoint.At(failpoint.JudgeDecided); err != nil {
		return 0, false, err
	}
	more = len(rows) == limit
	return lost, more, closeJudgement(ctx, tx, lane, j, !more)
}

// openJudgement locks the lane's judge and takes the newest mark that is ripe where no
// pass is open. There is no pass if there is no such mark, or another judges.
func openJudgement(ctx context.Context, tx pgx.Tx, lane string) (judgement, error) {
	var j judgement
	err := tx.QueryRow(ctx, stmt("judge_lock"), lane).Scan(&j.judged, &j.pass, &j.mark, &j.xid, &j.id)
	if errors.Is(err, pgx.ErrNoRows) {
		return judgement{}, nil
	}
	if err != nil || j.pass != nil {
		return j, wrapped(err, "locking the judge")
	}
	err = tx.QueryRow(ctx, stmt("judge_next"), lane, machine.JudgeAfter).Scan(&j.mark, &j.pass)
	if errors.Is(err, pgx.ErrNoRows) {
		return j, nil
	}
	return j, wrapped(err, "taking the newest mark")
}

// closeJudgement moves the judge's cursor and, where the pass ends, drops the marks
// that have said what they could.
func closeJudgement(ctx context.Context, tx pgx.Tx, lane string, j judgement, ends bool) error {
	if _, err := tx.Exec(ctx, stmt("judge_move"), lane, ends, *j.pass, *j.mark, j.xid, j.id); err != nil {
		return fmt.Errorf("moving the judge: %w", err)
	}
	if !ends {
		return nil
	}
	_, err := tx.Exec(ctx, stmt("marks_judged"), lane, *j.mark)
	return wrapped(err, "dropping judged marks")
}

// lost makes a target of every reference in the rows whose announcement was lost.
func (l *Ledger) lost(ctx context.Context, tx pgx.Tx, rows []outboxRow) ([]target, error) {
	var jobs, outbox []int64
	var generations, emissions []int32
	for _, r := range rows {
		jobs, generations, emissions = append(jobs, r.Jobs...), append(generations, r.Generations...), append(emissions, r.Emissions...)
		for range r.Jobs {
			outbox = append(outbox, r.ID)
		}
	}
	var refs []job.Ref
	err := l.seek(ctx, tx, func(r pgx.BatchResults) error {
		found, err := r.Query()
		if err != nil {
			return err
		}
		refs, err = pgx.CollectRows(found, pgx.RowToStructByPos[job.Ref])
		return err
	}, stmt("judge_lost"), jobs, generations, emissions, outbox)
	if err != nil {
		return nil, fmt.Errorf("looking up %d announced jobs: %w", len(jobs), err)
	}
	targets := make([]target, len(refs))
	for i, r := range refs {
		targets[i] = target{Job: r.Job, Generation: r.Generation, Event: machine.Event{Name: machine.Lost, Emission: r.Emission}}
	}
	return targets, nil
}
