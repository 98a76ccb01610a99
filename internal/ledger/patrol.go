package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// Patrol looks at the next page of the whole ledger, of about rows rows, and sets right
// what no index finds: leases that nobody ended, generations that have expired by a
// policy that changed or a commit that came late, unknown outcomes that are not listed,
// and jobs whose retention is over, which are removed. The machine is asked about every
// row that is not terminal; only where it would change something is the row locked and
// asked about again.
//
// Every scheduler may call it: they share one walk, and a page is taken at least every
// ago after the last.
func (l *Ledger) Patrol(ctx context.Context, rows int, every, retention time.Duration) (machine.Patrol, error) {
	const name, doing = "patrol", "patrolling"
	var found machine.Patrol
	mine, err := l.turn(ctx, name, every, doing, func(tx pgx.Tx, at progress) error {
		found = machine.Patrol{Acted: make(map[machine.Finding]int)}
		var last *int64
		if err := tx.QueryRow(ctx, stmt("patrol_page"), at.id, rows).Scan(&found.Rows, &last); err != nil {
			return fmt.Errorf("taking a page: %w", err)
		}
		if found.Rows == 0 { // the walk has ended; the next begins
			if at.id > 0 {
				found.Walk = at.now.Sub(at.instant)
			}
			return move(ctx, tx, name, at.now, 0)
		}
		page, err := l.patrolRows(ctx, tx, at.id, *last, retention)
		if err != nil {
			return fmt.Errorf("reading a page: %w", err)
		}
		if err := l.setRight(ctx, tx, page, at.now, &found); err != nil {
			return err
		}
		if found.Acted[machine.FoundOld], err = removeJobs(ctx, tx, page.old(at.now, retention), retention); err != nil {
			return err
		}
		began := at.instant
		if at.id == 0 {
			began = at.now
		}
		return move(ctx, tx, name, began, *last)
	})
	found.Mine = mine
	return found, err
}

// suspect is a row that may need something.
type suspect struct {
	row  machine.Row
	lost bool    // it is leased, and its lease does not live
	key  *string // of a row that is old
}

type suspects []suspect

func (l *Ledger) patrolRows(ctx context.Context, tx pgx.Tx, after, last int64, retention time.Duration) (suspects, error) {
	rows, err := tx.Query(ctx, stmt("patrol_rows"), after, last, retention, lateCommit)
	if err != nil {
		return nil, err
	}
	type raw struct {
		stored
		lost bool
		key  *string
	}
	all, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (raw, error) {
		var s raw
		return s, r.Scan(append(s.scanInto(), &s.lost, &s.key)...)
	})
	if err != nil {
		return nil, err
	}
	page := make(suspects, len(all))
	for i, s := range all {
		r, err := l.row(ctx, s.stored)
		if err != nil {
			return nil, err
		}
		page[i] = suspect{r, s.lost, s.key}
	}
	return page, nil
}

// setRight decides about the rows of a page that the machine would change, and notes
// the oldest of what runs and waits.
func (l *Ledger) setRight(ctx context.Context, tx pgx.Tx, page suspects, now time.Time, found *machine.Patrol) error {
	var targets []target
	var findings []machine.Finding
	for _, s := range page {
		switch s.row.State {
		case job.Leased:
			found.OldestLease = max(found.OldestLease, now.Sub(s.row.LeasedAt))
		case job.Ready:
			found.OldestReady = max(found.OldestReady, now.Sub(s.row.FirstReady))
		default: // neither runs nor waits for a worker
		}
		if event, finding := s.wants(); finding != "" {
			if _, change := machine.Next(s.row, event, now); change.Refused == machine.Applied {
				targets = append(targets, target{Job: s.row.Job, Generation: s.row.Generation, Event: event})
				findings = append(findings, finding)
			}
		}
	}
	for begin := 0; begin < len(targets); begin += sweepBatch {
		end := min(begin+sweepBatch, len(targets))
		decisions, _, err := l.decideFree(ctx, tx, targets[begin:end])
		if err != nil {
			return err
		}
		for i, d := range decisions {
			if d.Found && d.Change.Refused == machine.Applied {
				found.Acted[findings[begin+i]]++
			}
		}
	}
	return nil
}

// wants is the event that the row may have missed.
func (s suspect) wants() (machine.Event, machine.Finding) {
	switch s.row.State {
	case job.Leased:
		if s.lost {
			return machine.Event{Name: machine.LeaseEnded, Fence: s.row.Fence, Detail: "no record of a lease that lives was found", Actor: "patrol"}, machine.FoundLease
		}
	case job.Scheduled, job.Ready:
		return machine.Event{Name: machine.Expire, Actor: "patrol"}, machine.FoundExpired
	case job.Unknown:
		return machine.Event{Name: machine.Close, Actor: "patrol"}, machine.FoundOpen
	default: // terminal
	}
	return machine.Event{}, ""
}

// old are the jobs of the page whose retention is over.
func (page suspects) old(now time.Time, retention time.Duration) []removal {
	var all []removal
	for _, s := range page {
		open := s.row.State.Pending() || s.row.State == job.Unknown && (!s.row.Closed || now.Before(s.row.ClosesAt().Add(retention)))
		if s.key != nil && !open {
			all = append(all, removal{s.row.Job, job.KeyHash(s.row.Kind.Name, *s.key)})
		}
	}
	return slices.Clip(all)
}
