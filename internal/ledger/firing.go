package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/failpoint"
	"duly.dev/duly/internal/machine"
)

// Fire has the caller decide about a schedule and carries the decision out, in one
// transaction under the schedule's lock: runs are opened, occurrences without a run are
// recorded with their reasons, and the schedule moves on. Whatever clock a scheduler
// believes in, a period has one run. Where another decides about the schedule at this
// moment nothing is done; decided is false.
//
// A decision that does nothing and moves on by less than step is not written.
func (l *Ledger) Fire(ctx context.Context, schedule, kind string, step time.Duration, decide func(machine.Moment) machine.Firing) (fired machine.Fired, decided bool, err error) {
	id, err := l.kindID(ctx, kind)
	if err != nil {
		return machine.Fired{}, false, fmt.Errorf("firing schedule %s: %w", schedule, err)
	}
	if _, err := l.pool.Exec(ctx, stmt("schedule_add"), schedule); err != nil {
		return machine.Fired{}, false, fmt.Errorf("adding schedule %s: %w", schedule, err)
	}
	err = l.inTx(ctx, "firing schedule "+schedule, func(tx pgx.Tx) error {
		fired, decided = machine.Fired{}, false
		var m machine.Moment
		err := tx.QueryRow(ctx, stmt("schedule_lock"), schedule).Scan(&m.Since, &m.Now, &m.Running)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		decided = true
		f := decide(m)
		if f.Empty() && f.Through.Sub(m.Since).Abs() < step {
			return nil
		}
		if fired, err = openRuns(ctx, tx, schedule, id, f); err != nil {
			return err
		}
		if err := failpoint.At(failpoint.FireOpened); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, stmt("schedule_move"), schedule, f.Through)
		return err
	})
	return fired, decided && err == nil, err
}

// openRuns opens the runs of a decision and records its occurrences.
func openRuns(ctx context.Context, tx pgx.Tx, schedule string, kind int16, f machine.Firing) (machine.Fired, error) {
	var fired machine.Fired
	for _, o := range f.Open {
		run, err := openRun(ctx, tx, schedule, kind, o)
		if err != nil {
			return machine.Fired{}, err
		}
		if run.ID == 0 {
			fired.Taken++
			continue
		}
		fired.Opened = append(fired.Opened, run)
	}
	for _, o := range f.Without {
		if err := putOccurrence(ctx, tx, schedule, o); err != nil {
			return machine.Fired{}, err
		}
	}
	return fired, nil
}

// openRun opens a run and records its occurrence; ID is 0 where the period has one.
func openRun(ctx context.Context, tx pgx.Tx, schedule string, kind int16, o machine.Opening) (machine.Run, error) {
	run := machine.Run{Schedule: schedule, Period: o.Period, At: o.At, Local: o.Local, Zone: o.Zone, Cause: o.Cause, Actor: o.Actor, State: machine.RunOpen}
	err := tx.QueryRow(ctx, stmt("run_open"), schedule, o.Period, kind, o.At, o.Local, o.Zone, o.Cause, o.Actor).Scan(&run.ID)
	if errors.Is(err, pgx.ErrNoRows) {
		return machine.Run{}, nil
	}
	if err != nil {
		return machine.Run{}, fmt.Errorf("opening run %s of schedule %s: %w", o.Period, schedule, err)
	}
	outcome := machine.OccurrenceFired
	why := ""
	switch o.Cause {
	case machine.RunFired:
	case machine.RunLate:
		outcome, why = machine.OccurrenceLate, "caught up"
	case machine.RunManual:
		why = "asked for by " + o.Actor
	}
	return run, putOccurrence(ctx, tx, schedule, machine.Occurrence{At: o.At, Outcome: outcome, Why: why, Period: o.Period, Run: run.ID})
}

func putOccurrence(ctx context.Context, tx pgx.Tx, schedule string, o machine.Occurrence) error {
	if o.Count == 0 {
		o.Count = 1
	}
	if o.Last.IsZero() {
		o.Last = o.At
	}
	_, err := tx.Exec(ctx, stmt("occurrence_put"), schedule, o.At, o.Outcome, orNull(o.Why), o.Count, o.Last, orNull(o.Period), orNull(o.LastPeriod), orNone(o.Run))
	if err != nil {
		return fmt.Errorf("recording the occurrence of schedule %s at %s: %w", schedule, o.At.Format(time.RFC3339), err)
	}
	return nil
}

// StartRun opens the run of a period because a person asks for it; the occurrence is
// recorded with who did. created is false where the period has a run, which is returned.
func (l *Ledger) StartRun(ctx context.Context, schedule, kind string, o machine.Opening) (run machine.Run, created bool, err error) {
	id, err := l.kindID(ctx, kind)
	if err != nil {
		return machine.Run{}, false, fmt.Errorf("starting a run of schedule %s: %w", schedule, err)
	}
	err = l.inTx(ctx, fmt.Sprintf("starting run %s of schedule %s", o.Period, schedule), func(tx pgx.Tx) error {
		opened, err := openRun(ctx, tx, schedule, id, o)
		created = err == nil && opened.ID != 0
		if !created {
			return err
		}
		_, err = tx.Exec(ctx, stmt("audit_put"), o.Actor, "start run", nil, nil, map[string]string{"schedule": schedule, "period": o.Period})
		return err
	})
	if err != nil {
		return machine.Run{}, false, err
	}
	run, err = l.Run(ctx, schedule, o.Period)
	return run, created, err
}
