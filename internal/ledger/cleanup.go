package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// gates are generations that came to an end, of kinds with a cleanup gate, column by
// column as cleanup_put takes them.
type gates struct {
	jobs         []int64
	generations  []int32
	since        []*time.Time // null: since the row says that it ended
	by           []string
	receipts     []bool
	later, after []time.Duration
}

// add puts a generation behind the gate of its kind, which it has.
func (g *gates) add(at rowID, rule machine.CleanupRule, since *time.Time) {
	g.jobs, g.generations, g.since = append(g.jobs, at.job), append(g.generations, at.generation), append(g.since, since)
	g.by, g.receipts = append(g.by, string(rule.By)), append(g.receipts, rule.When == machine.CleanupReceipt)
	g.later, g.after = append(g.later, rule.From), append(g.after, rule.After)
}

// queue puts them in the transaction of what ended them. Where no kind has a gate nothing
// is sent.
func (g *gates) queue(batch *pgx.Batch) {
	if len(g.jobs) > 0 {
		batch.Queue(stmt("cleanup_put"), g.jobs, g.generations, g.since, g.by, g.receipts, g.later, g.after)
	}
}

// queueCleanups keeps the cleanups in step with what was decided. Every transition but the
// hot one of a delivered result is stored here, so that none forgets them.
func queueCleanups(batch *pgx.Batch, w *writer) {
	var over gates
	var retired []int64
	for _, at := range w.order { // in order of the locks
		before, row := w.before[at], w.after[at]
		changed := before.State != row.State || before.Closed != row.Closed
		switch {
		case row.Over() && (changed || !before.Over()):
			if row.Kind.Cleanup != nil {
				over.add(at, *row.Kind.Cleanup, &w.now)
			}
		case before.Over() && !row.Over():
			retired = append(retired, at.job)
		}
	}
	if len(retired) > 0 {
		batch.Queue(stmt("cleanup_retire"), retired)
	}
	over.queue(batch)
}

// scanCleanup reads a row of cleanup_lock or cleanup_show; the zero Cleanup where there
// is none.
func scanCleanup(row pgx.Row) (machine.Cleanup, error) {
	var c machine.Cleanup
	var next, since, failed, parked, done, givenUp *time.Time
	var why *string
	var rows *int64
	err := row.Scan(&c.Generation, &c.By, &c.Accepted, &c.DueAt, &next, &c.Tries, &since, &failed, &why, &parked, &done, &givenUp, &rows)
	if errors.Is(err, pgx.ErrNoRows) {
		return machine.Cleanup{}, nil
	}
	c.NextAt, c.FailingSince, c.FailedAt, c.Error = value(next), value(since), value(failed), value(why)
	c.ParkedAt, c.DoneAt, c.GivenUpAt, c.Rows = value(parked), value(done), value(givenUp), value(rows)
	return c, wrapped(err, "reading its cleanup")
}

// mayBeSentAgain locks the cleanup of a job that is to be redriven, whose row is locked,
// and refuses where rows may be gone that it needs, unless it is forced.
func mayBeSentAgain(ctx context.Context, tx pgx.Tx, req machine.RedriveRequest, row machine.Row) (machine.Cleanup, error) {
	c, err := scanCleanup(tx.QueryRow(ctx, stmt("cleanup_lock"), row.Job))
	if err != nil || !c.Begun() || req.Forced {
		return c, err
	}
	d := machine.Deny(req.Kind, req.Key, row, req.Event(), machine.CleanedUp)
	d.Since = c.DoneAt
	return c, d
}

// TakeCleanups takes due cleanups of a kind, to be done by these means, at most limit.
// Nobody else takes them before hold is over, so that one whose taker is lost costs that,
// and one try. What was taken as often as the kind's rule allows waits for a person
// instead, and is counted.
func (l *Ledger) TakeCleanups(ctx context.Context, kind string, by machine.Means, limit int, hold time.Duration) (tasks []machine.CleanupTask, parked int, err error) {
	doing := "taking cleanups of " + kind
	id, err := l.kindID(ctx, kind)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", doing, err)
	}
	k, err := l.kindByID(ctx, id)
	if err != nil || k.Cleanup == nil {
		return nil, 0, wrapped(err, doing)
	}
	err = l.inTx(ctx, doing, func(tx pgx.Tx) error {
		tasks, parked = tasks[:0], 0
		rows, err := tx.Query(ctx, stmt("cleanup_take"), id, string(by), limit, hold, k.Cleanup.MaxTries)
		if err != nil {
			return err
		}
		t := machine.CleanupTask{Kind: kind}
		var more bool
		var subject, period *string
		var since *time.Time
		_, err = pgx.ForEachRow(rows, []any{&t.Job, &t.Generation, &t.Tries, &since, &more, &t.Key, &subject, &period, &t.State}, func() error {
			if !more {
				parked++
				return nil
			}
			t.FailingSince, t.Subject, t.Period = value(since), value(subject), value(period)
			tasks = append(tasks, t)
			return nil
		})
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	slices.SortFunc(tasks, func(a, b machine.CleanupTask) int { return cmp.Compare(a.Job, b.Job) })
	return tasks, parked, nil
}

// NoteCleanups takes what came of tasks, and says what it made of each.
func (l *Ledger) NoteCleanups(ctx context.Context, results []machine.CleanupResult) ([]machine.CleanupOutcome, error) {
	var outcomes []machine.CleanupOutcome
	err := l.inTx(ctx, "noting cleanups", func(tx pgx.Tx) (err error) {
		outcomes, err = l.noteCleanups(ctx, tx, results)
		return err
	})
	return outcomes, err
}

func (l *Ledger) noteCleanups(ctx context.Context, tx pgx.Tx, results []machine.CleanupResult) ([]machine.CleanupOutcome, error) {
	order := make([]int, len(results))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(results[a].Job, results[b].Job) })
	var now time.Time
	if err := tx.QueryRow(ctx, stmt("clock")).Scan(&now); err != nil {
		return nil, fmt.Errorf("reading the clock: %w", err)
	}
	outcomes := make([]machine.CleanupOutcome, len(results))
	var done, failed taskColumns
	var rows []int64
	var why []string
	var again []*time.Time
	for _, i := range order {
		r := results[i]
		outcomes[i] = machine.CleanupStale
		if r.Error == "" {
			done.add(i, r.CleanupTask)
			rows = append(rows, r.Rows)
			continue
		}
		id, err := l.kindID(ctx, r.Kind)
		if err != nil {
			return nil, err
		}
		k, err := l.kindByID(ctx, id)
		if err != nil {
			return nil, err
		}
		failed.add(i, r.CleanupTask)
		why, again = append(why, job.Storable(r.Error, job.MaxDetail)), append(again, null(k.NextCleanup(r.CleanupTask, now)))
	}
	err := done.note(ctx, tx, "cleanup_done", func(i int) { outcomes[i] = machine.CleanupDone }, rows)
	if err == nil {
		err = failed.note(ctx, tx, "cleanup_failed", func(i int) {
			outcomes[i] = machine.CleanupFailed
			if n := slices.Index(failed.at, i); again[n] == nil {
				outcomes[i] = machine.CleanupParked
			}
		}, why, again)
	}
	return outcomes, err
}

// taskColumns are tasks, column by column, in order of their jobs.
type taskColumns struct {
	at          []int // index of the result
	jobs        []int64
	generations []int32
	tries       []int32
}

func (c *taskColumns) add(i int, t machine.CleanupTask) {
	c.at, c.jobs, c.generations, c.tries = append(c.at, i), append(c.jobs, t.Job), append(c.generations, t.Generation), append(c.tries, t.Tries)
}

// note runs a statement about the tasks, and calls changed for each that it changed.
func (c *taskColumns) note(ctx context.Context, tx pgx.Tx, statement string, changed func(i int), more ...any) error {
	if len(c.jobs) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, stmt(statement), append([]any{c.jobs, c.generations, c.tries}, more...)...)
	if err != nil {
		return err
	}
	var id int64
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
		n, _ := slices.BinarySearch(c.jobs, id)
		changed(c.at[n])
		return nil
	})
	return err
}

// RetryCleanup lets a cleanup that failed, or was given up, be tried again now, counted
// from the beginning, as a person decided. job.ErrNotFound where there is no such job or no
// cleanup of it; an error that says so where it is done or has not failed.
func (l *Ledger) RetryCleanup(ctx context.Context, r machine.CleanupRetry) (machine.Cleanup, error) {
	return l.decideCleanup(ctx, cleanupDecision{"retrying a cleanup", "cleanup_retry", r.Kind, r.Key, r.Actor, r.Reason}, func(c machine.Cleanup) error {
		if c.FailedAt.IsZero() && c.GivenUpAt.IsZero() {
			return fmt.Errorf("its cleanup has not failed; it is tried at %s: %w", c.NextAt.UTC().Format(time.RFC3339), job.ErrRefused)
		}
		return nil
	})
}

// GiveUpCleanup lets a cleanup that is not done be tried no more, as a person decided for a
// reason: its job is no longer kept for it. One that runs at this moment is waited for.
// job.ErrNotFound where there is no such job or no cleanup of it; an error that says so
// where it is done, or was given up.
func (l *Ledger) GiveUpCleanup(ctx context.Context, r machine.CleanupGiveUp) (machine.Cleanup, error) {
	if strings.TrimSpace(r.Reason) == "" {
		return machine.Cleanup{}, job.Refuse("reason", "", job.RuleRequired, "what becomes of what was generated")
	}
	return l.decideCleanup(ctx, cleanupDecision{"giving up a cleanup", "cleanup_give_up", r.Kind, r.Key, r.Actor, r.Reason}, func(c machine.Cleanup) error {
		if !c.GivenUpAt.IsZero() {
			return fmt.Errorf("its cleanup was given up at %s: %w", c.GivenUpAt.UTC().Format(time.RFC3339), job.ErrRefused)
		}
		return nil
	})
}

// cleanupDecision is what a person decided about the cleanup of a job. statement carries it out,
// and is what the audit calls it.
type cleanupDecision struct{ doing, statement, kind, key, actor, reason string }

// decideCleanup carries a decision out where may, given the cleanup, which is locked and
// not done, has nothing against it. It returns the cleanup as it is then.
func (l *Ledger) decideCleanup(ctx context.Context, d cleanupDecision, may func(machine.Cleanup) error) (machine.Cleanup, error) {
	var c machine.Cleanup
	err := l.inTx(ctx, d.doing, func(tx pgx.Tx) error {
		name := d.kind + "/" + d.key
		at, err := l.locate(ctx, tx, d.kind, d.key)
		if err != nil {
			return err
		}
		if c, err = scanCleanup(tx.QueryRow(ctx, stmt("cleanup_lock"), at.job)); err != nil {
			return err
		}
		switch {
		case c == machine.Cleanup{}:
			return fmt.Errorf("%s: no cleanup of it is due: %w", name, job.ErrNotFound)
		case !c.DoneAt.IsZero():
			return fmt.Errorf("%s: its cleanup is done since %s: %w", name, c.DoneAt.UTC().Format(time.RFC3339), job.ErrRefused)
		}
		if err := may(c); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if _, err := tx.Exec(ctx, stmt(d.statement), at.job); err != nil {
			return err
		}
		if err := l.audit(ctx, tx, d.actor, d.statement, rowID{at.job, c.Generation}, map[string]string{"reason": job.Storable(d.reason, job.MaxDetail)}); err != nil {
			return err
		}
		c, err = scanCleanup(tx.QueryRow(ctx, stmt("cleanup_show"), at.job))
		return err
	})
	if err != nil {
		return machine.Cleanup{}, err
	}
	return c, nil
}

// Cleanups lists cleanups that failed, the newest failure first.
func (l *Ledger) Cleanups(ctx context.Context, req machine.CleanupList) ([]machine.CleanupEntry, error) {
	const doing = "listing cleanups"
	var kind *int16
	if req.Kind != "" {
		id, err := l.kindID(ctx, req.Kind)
		if err != nil {
			return nil, err
		}
		kind = &id
	}
	rows, err := l.pool.Query(ctx, stmt("cleanup_list"), kind, req.Parked, cmp.Or(max(req.Limit, 0), machine.DefaultListLimit))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	var kinds []int16
	all, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (machine.CleanupEntry, error) {
		var e machine.CleanupEntry
		var id int16
		var next, parked *time.Time
		err := r.Scan(&e.Job, &id, &e.Key, &e.Generation, &e.State, &e.By, &e.DueAt, &e.Tries, &e.FailedAt, &e.Error, &next, &parked)
		e.NextAt, e.ParkedAt = value(next), value(parked)
		kinds = append(kinds, id)
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	for i := range all {
		k, err := l.kindByID(ctx, kinds[i])
		if err != nil {
			return nil, err
		}
		all[i].Kind = k.Name
	}
	return all, nil
}
