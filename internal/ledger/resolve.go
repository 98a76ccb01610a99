package ledger

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// Resolve applies a person's answer to the current generation of a job: it was
// delivered, it was not, or nobody will know. It returns where the generation stands
// then.
//
// Errors: job.ErrNotFound, and a *machine.Denied that says whether the fence is
// stale, the generation was never tried, it is too soon for "not delivered" (and
// from when on it is not), or the state does not take the answer.
func (l *Ledger) Resolve(ctx context.Context, a machine.Answer) (machine.Standing, error) {
	var standing machine.Standing
	err := l.inTx(ctx, "resolving", func(tx pgx.Tx) error {
		ev := a.Event()
		d, err := l.act(ctx, tx, a.Kind, a.Key, ev)
		if err != nil {
			return err
		}
		standing = machine.StandingOf(d.Row)
		switch {
		case d.Change.Refused == machine.Applied:
			return l.audit(ctx, tx, a.Actor, "resolve", rowID{d.Row.Job, d.Row.Generation}, auditAnswer(a))
		case a.Verdict == machine.VerdictGiveUp && d.Row.Closed && d.Row.Fence == a.Fence:
			standing.Again = true
			return nil
		}
		return machine.Deny(a.Kind, a.Key, d.Row, ev, d.Change.Refused)
	})
	if err != nil {
		return machine.Standing{}, err
	}
	return standing, nil
}

func auditAnswer(a machine.Answer) map[string]string {
	detail := map[string]string{
		"as": string(a.Verdict), "fence": strconv.FormatInt(a.Fence, 10),
		"evidence": job.Storable(a.Evidence, job.MaxDetail),
	}
	if !a.LookedAt.IsZero() {
		detail["looked_at"] = a.LookedAt.UTC().Format(time.RFC3339)
	}
	return detail
}
