package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// Cancel withdraws a job: see CancelIn.
func (l *Ledger) Cancel(ctx context.Context, c machine.Cancellation) (machine.Standing, error) {
	var standing machine.Standing
	err := l.inTx(ctx, "cancelling", func(tx pgx.Tx) (err error) {
		standing, err = l.CancelIn(ctx, tx, c)
		return err
	})
	return standing, err
}

// CancelIn withdraws a job in the caller's transaction. What waits is cancelled at
// once; what is leased or unknown keeps the request, which takes effect when the
// attempt ends or the doubt is settled. Cancelling again changes nothing. The job
// row itself excludes lease and cancel: whichever commits first is seen by the other.
//
// Errors: job.ErrNotFound, and a *machine.Denied for what is delivered.
func (l *Ledger) CancelIn(ctx context.Context, tx pgx.Tx, c machine.Cancellation) (machine.Standing, error) {
	if _, err := tx.Exec(ctx, stmt("durable")); err != nil {
		return machine.Standing{}, fmt.Errorf("preparing to cancel %s/%s: %w", c.Kind, c.Key, err)
	}
	ev := c.Event()
	d, err := l.act(ctx, tx, c.Kind, c.Key, ev)
	if gone := cancelledBefore(err); gone != nil {
		return *gone, nil
	}
	if err != nil {
		return machine.Standing{}, err
	}
	standing := machine.StandingOf(d.Row)
	if d.Row.State == job.Cancelled && d.Change.Refused != machine.Applied {
		standing.Again = true
		return standing, nil
	}
	if d.Change.Refused != machine.Applied {
		return machine.Standing{}, machine.Deny(c.Kind, c.Key, d.Row, ev, d.Change.Refused)
	}
	return standing, l.audit(ctx, tx, c.Actor, "cancel", rowID{d.Row.Job, d.Row.Generation}, map[string]string{"reason": c.Reason})
}

// cancelledBefore is where a job stands that was cancelled, and removed since.
func cancelledBefore(err error) *machine.Standing {
	var denied *machine.Denied
	if !errors.As(err, &denied) || denied.Why != machine.Removed || denied.State != job.Cancelled {
		return nil
	}
	return &machine.Standing{State: job.Cancelled, Again: true}
}
