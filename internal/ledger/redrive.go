package ledger

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/failpoint"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// Redrive opens the next generation of a job, as a person decided, in one
// transaction. The row of the generation that the person saw is locked first; then
// a recovery key that was used before is answered with the generation that it made,
// and everything else is decided by the machine. Requests must have passed
// redrive.Check.
//
// Errors: job.ErrNotFound, and a *machine.Denied that says what is in the way.
func (l *Ledger) Redrive(ctx context.Context, req machine.RedriveRequest) (machine.Successor, error) {
	req.Deadline, req.NotBefore = req.Deadline.Truncate(time.Microsecond), req.NotBefore.Truncate(time.Microsecond) // as it is kept
	var made machine.Successor
	err := l.inTx(ctx, "redriving", func(tx pgx.Tx) error {
		at, err := l.locate(ctx, tx, req.Kind, req.Key)
		if err != nil {
			return err
		}
		if at.removed == nil {
			if err := l.know(ctx, tx, at); err != nil {
				return err
			}
		}
		id := rowID{at.job, req.Generation}
		locked, now, err := l.lock(ctx, tx, stmt("decide_lock"), []target{{Job: id.job, Generation: id.generation}})
		if err != nil {
			return err
		}
		var found bool
		if made, found, err = l.redriven(ctx, tx, id.job, req); found || err != nil {
			return err
		}
		row, ok := locked[id]
		if !ok {
			return denyAbsent(req, at)
		}
		made, err = l.succeed(ctx, tx, req, row, now)
		return err
	})
	if err != nil {
		return machine.Successor{}, err
	}
	return made, nil
}

// denyAbsent refuses a redrive of a generation that there is not.
func denyAbsent(req machine.RedriveRequest, at whereabouts) error {
	d := &machine.Denied{Why: machine.Superseded, Act: machine.Redriven, Kind: req.Kind, Key: req.Key, Generation: value(at.generation)}
	if at.removed != nil {
		d.Why, d.State = machine.Removed, job.State(*at.removed)
	}
	return d
}

// redriven returns what the recovery key made before, if it did.
func (l *Ledger) redriven(ctx context.Context, tx pgx.Tx, id int64, req machine.RedriveRequest) (machine.Successor, bool, error) {
	var request [16]byte
	var state *string
	var wake *time.Time
	made := machine.Successor{Job: id, Again: true}
	err := tx.QueryRow(ctx, stmt("redrive_made"), id, uuid(req.RecoveryHash()), uuid(job.KeyHash(req.Kind, req.Key))).
		Scan(&request, &made.Generation, &state, &wake)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return machine.Successor{}, false, nil
	case err != nil:
		return machine.Successor{}, false, fmt.Errorf("looking for the recovery key: %w", err)
	case request != req.Hash():
		return machine.Successor{}, false, &machine.Denied{Why: machine.KeyReused, Act: machine.Redriven, Kind: req.Kind, Key: req.Key, Successor: made.Generation}
	}
	made.State, made.Starts = job.State(value(state)), value(wake)
	return made, true, nil
}

// succeed decides the redrive of a locked row and stores both generations, the
// decision and its audit.
func (l *Ledger) succeed(ctx context.Context, tx pgx.Tx, req machine.RedriveRequest, row machine.Row, now time.Time) (machine.Successor, error) {
	ev := req.Event()
	pred, succ, change := machine.Redrive(row, ev, req.Correction, now)
	switch change.Refused {
	case machine.Applied:
	case machine.Irrelevant:
		return machine.Successor{}, machine.DenyIrrelevant(req.Kind, req.Key, row, ev, req.Correction)
	default:
		return machine.Successor{}, machine.Deny(req.Kind, req.Key, row, ev, change.Refused)
	}
	succ.Pinned = req.Pins(row)
	if err := l.mayRedrive(ctx, tx, req, row); err != nil {
		return machine.Successor{}, err
	}
	cleanup, err := mayBeSentAgain(ctx, tx, req, row)
	if err != nil {
		return machine.Successor{}, err
	}
	w := newWriter(now)
	w.add(row, pred, machine.Change{Record: change.Record}, target{})
	for _, e := range change.Emissions {
		w.emissions = append(w.emissions, emission{succ, e})
	}
	if err := l.write(ctx, tx, w); err != nil {
		return machine.Successor{}, err
	}
	if err := failpoint.At(failpoint.RedriveBetween); err != nil {
		return machine.Successor{}, err
	}
	if err := l.append(ctx, tx, req, row, succ); err != nil {
		return machine.Successor{}, err
	}
	if err := failpoint.At(failpoint.RedriveAppended); err != nil {
		return machine.Successor{}, err
	}
	detail := map[string]string{
		"recovery_key": req.RecoveryKey, "approver": req.Approver, "reason": job.Storable(req.Reason, job.MaxDetail),
		"successor": strconv.Itoa(int(succ.Generation)), "forced": strconv.FormatBool(req.Forced), "corrected": corrected(req),
	}
	if (cleanup != machine.Cleanup{}) {
		detail["cleanup"] = "retired"
		if cleanup.Begun() {
			detail["cleanup"] = "begun"
		}
	}
	if err := l.audit(ctx, tx, req.Actor, "redrive", rowID{row.Job, row.Generation}, detail); err != nil {
		return machine.Successor{}, err
	}
	return machine.Successor{Job: succ.Job, Generation: succ.Generation, State: succ.State, Starts: succ.WakeAt}, nil
}

// mayRedrive refuses a caller whose database role the kind does not allow.
func (l *Ledger) mayRedrive(ctx context.Context, tx pgx.Tx, req machine.RedriveRequest, row machine.Row) error {
	if row.Kind.RedriveBy != machine.RoleApprover {
		return nil
	}
	var approver bool
	if err := tx.QueryRow(ctx, stmt("redrive_may")).Scan(&approver); err != nil {
		return fmt.Errorf("asking for the session's role: %w", err)
	}
	if approver {
		return nil
	}
	d := machine.Deny(req.Kind, req.Key, row, req.Event(), machine.NotPermitted)
	d.Role = row.Kind.RedriveBy
	return d
}

// append stores the successor and the decision.
func (l *Ledger) append(ctx context.Context, tx pgx.Tx, req machine.RedriveRequest, row, succ machine.Row) error {
	tag, err := tx.Exec(ctx, stmt("redrive_append"), row.Job, row.Generation,
		succ.Generation, succ.Created, succ.Due, null(succ.Deadline), null(succ.FirstReady), null(succ.Origin), null(succ.WakeAt),
		null(succ.PromoteAt()), null(succ.ExpiresAt()), succ.Fence, succ.Emission, string(succ.State), orNull(succ.Waiting),
		orNull(req.Destination), orBytes(req.Payload), !req.Deadline.IsZero(), orNull(req.DeadlineZone), orNull(req.DeadlineLocal), flags(succ))
	if err == nil && tag.RowsAffected() != 1 {
		err = errors.New("the predecessor is not there")
	}
	if err != nil {
		return fmt.Errorf("appending generation %d: %w", succ.Generation, err)
	}
	_, err = tx.Exec(ctx, stmt("redrive_put"), row.Job, uuid(req.RecoveryHash()), req.RecoveryKey, row.Generation, succ.Generation,
		uuid(req.Hash()), req.Approver, req.Actor, job.Storable(req.Reason, job.MaxDetail), req.Forced, orNull(job.Storable(req.Evidence, job.MaxDetail)))
	if err != nil {
		return fmt.Errorf("writing the decision: %w", err)
	}
	return nil
}

// corrected names what the redrive corrects; never what to.
func corrected(req machine.RedriveRequest) string {
	var what string
	add := func(given bool, name string) {
		if given && what != "" {
			what += ","
		}
		if given {
			what += name
		}
	}
	add(req.Destination != "", "destination")
	add(len(req.Payload) > 0, "payload")
	add(!req.Deadline.IsZero(), "deadline")
	return what
}
