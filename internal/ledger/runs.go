package ledger

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// storedRun is a run as its columns are.
type storedRun struct {
	ID                int64
	Schedule, Period  string
	Kind              int16
	At                time.Time
	Local, Zone       string
	Cause             string
	Actor             string
	Created           time.Time
	State             string
	Tries             int
	Error             *string
	Next              time.Time
	Frozen            *time.Time
	Selected, Refused *int64
	Linked            *int64
	Digest            []byte
	ZoneData          *string
	Finished          *time.Time
}

func (s storedRun) run(kind string) machine.Run {
	return machine.Run{
		ID: s.ID, Schedule: s.Schedule, Period: s.Period, Kind: kind,
		At: s.At.UTC(), Local: s.Local, Zone: s.Zone, Cause: machine.RunCause(s.Cause), Actor: s.Actor, Created: s.Created.UTC(),
		State: machine.RunState(s.State), Tries: s.Tries, Error: value(s.Error), Next: s.Next.UTC(),
		Frozen: value(s.Frozen).UTC(), Selected: value(s.Selected), Refused: value(s.Refused), Linked: value(s.Linked),
		Digest: hex.EncodeToString(s.Digest), ZoneData: value(s.ZoneData), Finished: value(s.Finished).UTC(),
	}
}

// Runs returns runs, the newest first.
func (l *Ledger) Runs(ctx context.Context, f machine.RunFilter) ([]machine.Run, error) {
	return l.runsOf(ctx, l.pool, f)
}

func (l *Ledger) runsOf(ctx context.Context, db Querier, f machine.RunFilter) ([]machine.Run, error) {
	if f.Limit <= 0 {
		f.Limit = 100
	}
	rows, err := db.Query(ctx, stmt("runs_list"), orNull(f.Schedule), orNull(f.Period), orNone(f.Before), min(f.Limit, 1000))
	if err != nil {
		return nil, fmt.Errorf("listing runs: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, fmt.Errorf("listing runs: %w", err)
	}
	runs, err := l.runs(ctx, db, ids)
	slices.Reverse(runs)
	return runs, err
}

// Run returns the run of a period; job.ErrNotFound where there is none.
func (l *Ledger) Run(ctx context.Context, schedule, period string) (machine.Run, error) {
	return l.runOf(ctx, l.pool, schedule, period)
}

// ShowRun returns the run of a period with the counts of its members, both as they are at
// one instant; job.ErrNotFound where there is none.
func (l *Ledger) ShowRun(ctx context.Context, schedule, period string) (run machine.Run, counts machine.RunCounts, err error) {
	err = pgx.BeginTxFunc(ctx, l.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) (err error) {
		if run, err = l.runOf(ctx, tx, schedule, period); err == nil {
			counts, err = runCounts(ctx, tx, run.ID)
		}
		return err
	})
	return run, counts, err
}

func (l *Ledger) runOf(ctx context.Context, db Querier, schedule, period string) (machine.Run, error) {
	runs, err := l.runsOf(ctx, db, machine.RunFilter{Schedule: schedule, Period: period, Limit: 1})
	if err == nil && len(runs) == 0 {
		err = fmt.Errorf("run %s of schedule %s: %w", period, schedule, job.ErrNotFound)
	}
	if err != nil {
		return machine.Run{}, err
	}
	return runs[0], nil
}

// runs reads runs, in the order of their ids.
func (l *Ledger) runs(ctx context.Context, db Querier, ids []int64) ([]machine.Run, error) {
	rows, err := db.Query(ctx, stmt("runs_by_id"), ids)
	if err != nil {
		return nil, fmt.Errorf("reading %d runs: %w", len(ids), err)
	}
	stored, err := pgx.CollectRows(rows, pgx.RowToStructByPos[storedRun])
	if err != nil {
		return nil, fmt.Errorf("reading %d runs: %w", len(ids), err)
	}
	runs := make([]machine.Run, len(stored))
	for i, s := range stored {
		kind, err := l.kindByID(ctx, s.Kind)
		if err != nil {
			return nil, err
		}
		runs[i] = s.run(kind.Name)
	}
	return runs, nil
}

// RunCounts counts the members of a run by the state of their newest generation. It looks
// at every member, unless retention has removed them: then at what was counted before.
func (l *Ledger) RunCounts(ctx context.Context, run int64) (machine.RunCounts, error) {
	return runCounts(ctx, l.pool, run)
}

func runCounts(ctx context.Context, db Querier, run int64) (machine.RunCounts, error) {
	rows, err := db.Query(ctx, stmt("run_kept_counts"), run)
	if err != nil {
		return nil, fmt.Errorf("counting the members of run %d: %w", run, err)
	}
	kept, err := pgx.CollectOneRow(rows, pgx.RowTo[machine.RunCounts])
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("counting the members of run %d: %w", run, err)
	}
	if kept != nil {
		return kept, nil
	}
	return countRun(ctx, db, run)
}

func countRun(ctx context.Context, db Querier, run int64) (machine.RunCounts, error) {
	rows, err := db.Query(ctx, stmt("run_counts"), run)
	if err != nil {
		return nil, fmt.Errorf("counting the members of run %d: %w", run, err)
	}
	counts := machine.RunCounts{}
	var state string
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&state, &n}, func() error {
		counts[job.State(state)] = n
		return nil
	})
	return counts, wrapped(err, fmt.Sprintf("counting the members of run %d", run))
}

// RunRefusals returns what became no member of a run, in the order of its selection, behind
// a row, at most limit.
func (l *Ledger) RunRefusals(ctx context.Context, run, behind int64, limit int) ([]machine.RefusedRow, error) {
	rows, err := l.pool.Query(ctx, stmt("run_refusals"), run, behind, limit)
	if err != nil {
		return nil, fmt.Errorf("reading what run %d refused: %w", run, err)
	}
	refused, err := pgx.CollectRows(rows, pgx.RowToStructByPos[machine.RefusedRow])
	return refused, wrapped(err, fmt.Sprintf("reading what run %d refused", run))
}

// Occurrences returns what became of a schedule's occurrences, the newest first.
func (l *Ledger) Occurrences(ctx context.Context, schedule string, limit int) ([]machine.Occurrence, error) {
	rows, err := l.pool.Query(ctx, stmt("occurrences"), schedule, limit)
	if err != nil {
		return nil, fmt.Errorf("reading the occurrences of schedule %s: %w", schedule, err)
	}
	all, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (machine.Occurrence, error) {
		o := machine.Occurrence{Schedule: schedule}
		return o, r.Scan(&o.At, &o.Outcome, &o.Why, &o.Count, &o.Last, &o.Period, &o.LastPeriod, &o.Run, &o.Recorded)
	})
	return all, wrapped(err, "reading the occurrences of schedule "+schedule)
}

// RetireRun removes the members, and what was refused, of one run that has been over for
// longer than retention, and keeps their counts: the jobs themselves leave by the same
// rule. It reports whether there was one.
func (l *Ledger) RetireRun(ctx context.Context, retention time.Duration) (bool, error) {
	found := false
	err := l.inTx(ctx, "retiring a run", func(tx pgx.Tx) error {
		var run int64
		err := tx.QueryRow(ctx, stmt("run_retired"), retention).Scan(&run)
		if found = err == nil; errors.Is(err, pgx.ErrNoRows) {
			return nil
		} else if err != nil {
			return err
		}
		counts, err := countRun(ctx, tx, run)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, stmt("run_keep_counts"), run, counts); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, stmt("run_drop_members"), run)
		return err
	})
	return found && err == nil, err
}

// retiredOccurrences bounds how many occurrences of a schedule are removed at once.
const retiredOccurrences = 1000

// RetireOccurrences removes what became of occurrences that came, and were recorded, longer
// ago than retention, some of each schedule, and returns how many. The runs that they made
// stay: a period is taken for good.
func (l *Ledger) RetireOccurrences(ctx context.Context, retention time.Duration) (int, error) {
	var n int
	err := l.inTx(ctx, "removing old occurrences", func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, stmt("occurrences_retired"), retention, retiredOccurrences)
		n = int(tag.RowsAffected())
		return err
	})
	return n, err
}

// endedPage is how many members one statement of FinishRuns looks at.
const endedPage = 10_000

// FinishRuns notes which runs have no pending member any more, and returns how many those
// are. It remembers how far it came in each, so that a run is walked once and, before it
// is finished, looked at once as a whole. A redrive does not make a finished run
// unfinished.
func (l *Ledger) FinishRuns(ctx context.Context) (finished int, err error) {
	rows, err := l.pool.Query(ctx, stmt("runs_unfinished"))
	if err != nil {
		return 0, fmt.Errorf("looking for unfinished runs: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return 0, fmt.Errorf("looking for unfinished runs: %w", err)
	}
	for _, id := range ids {
		over, err := l.finish(ctx, id)
		if err != nil {
			return finished, err
		}
		if over {
			finished++
		}
	}
	return finished, nil
}

func (l *Ledger) finish(ctx context.Context, run int64) (over bool, err error) {
	for more := true; more; {
		more = false
		err := l.inTx(ctx, fmt.Sprintf("looking at the members of run %d", run), func(tx pgx.Tx) error {
			err := tx.QueryRow(ctx, stmt("run_ended"), run, endedPage).Scan(&more, &over)
			if errors.Is(err, pgx.ErrNoRows) {
				more, over = false, false
				return nil
			}
			return err
		})
		if err != nil {
			return false, err
		}
	}
	return over, nil
}

// RunFigures returns them by schedule.
func (l *Ledger) RunFigures(ctx context.Context) ([]machine.RunFigures, error) {
	rows, err := l.pool.Query(ctx, stmt("runs_figures"))
	if err != nil {
		return nil, fmt.Errorf("measuring runs: %w", err)
	}
	figures, err := pgx.CollectRows(rows, pgx.RowToStructByPos[machine.RunFigures])
	return figures, wrapped(err, "measuring runs")
}
