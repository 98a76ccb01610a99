package machine

import (
	"fmt"
	"time"

	"duly.dev/duly/pkg/job"
)

// Refusals that only a ledger can state, besides those of Next.
const (
	// Superseded: the generation that the person saw is not the current one.
	Superseded Refusal = "superseded"
	// KeyReused: the recovery key was used before, with another generation or other
	// corrections.
	KeyReused Refusal = "recovery_key_reused"
	// NotPermitted: the kind asks for a role that the caller does not have.
	NotPermitted Refusal = "not_permitted"
	// Removed: the job's rows were removed after their retention; its key remains.
	Removed Refusal = "removed"
	// CleanedUp: rows that were generated for the job were removed, or may have been.
	CleanedUp Refusal = "cleaned_up"
)

// Denied is the error of a person's act that the state of a job does not allow. It
// matches job.ErrRefused, and job.ErrConflict where a recovery key was reused.
type Denied struct {
	Why       Refusal
	Act       Name
	Kind, Key string
	// Generation, State and Fence are those of the current generation.
	Generation int32
	State      job.State
	Fence      int64
	// Successor is the generation that a redrive has opened already.
	Successor int32
	// Since is the bound that has passed (Irrelevant), the instant from which "no" may be
	// looked for (TooSoon), or that of the cleanup (CleanedUp; zero where it is not done).
	Since time.Time
	// Reason names that bound (Irrelevant).
	Reason job.Reason
	// Role is the one that is needed (NotPermitted).
	Role Role
}

// Deny says why the event changed nothing, from the row that it was refused for.
func Deny(kind, key string, r Row, ev Event, why Refusal) *Denied {
	d := &Denied{Why: why, Act: ev.Name, Kind: kind, Key: key, Generation: r.Generation, State: r.State, Fence: r.Fence, Successor: r.Successor}
	switch {
	case why == TooSoon && ev.Name == AnswerNo:
		d.Since = r.NoFrom()
	case why == Stale && !r.Current():
		d.Why = Superseded
	case why == Stale && r.State != job.Unknown && (ev.Name == AnswerNo || ev.Name == Close):
		d.Why = NotEligible
	}
	return d
}

// DenyIrrelevant says which bound of the row a successor would begin behind.
func DenyIrrelevant(kind, key string, r Row, ev Event, c Correction) *Denied {
	d := Deny(kind, key, r, ev, Irrelevant)
	if !c.Deadline.IsZero() {
		r.Deadline = c.Deadline
	}
	d.Reason, d.Since = job.ReasonTooOld, r.Origin.Add(r.Kind.Policy.MaxLifetime)
	if !r.Deadline.IsZero() && (r.Origin.IsZero() || r.Deadline.Before(d.Since)) {
		d.Reason, d.Since = job.ReasonDeadline, r.Deadline
	}
	return d
}

// Is matches job.ErrRefused, and job.ErrConflict where a recovery key was reused.
func (d *Denied) Is(target error) bool {
	return target == job.ErrRefused || target == job.ErrConflict && d.Why == KeyReused
}

// Error says what is in the way, and what to do.
func (d *Denied) Error() string { return d.Kind + "/" + d.Key + ": " + d.text() }

func (d *Denied) text() string {
	switch d.Why {
	case Superseded:
		if d.Successor != 0 {
			return fmt.Sprintf("generation %d was redriven already: generation %d is its successor; look at it first", d.Generation, d.Successor)
		}
		return fmt.Sprintf("that is not the current generation, which is %d: look at it first", d.Generation)
	case KeyReused:
		return "this recovery key was used before, with another generation or other corrections: use a key of its own for a new decision"
	case NotPermitted:
		return fmt.Sprintf("jobs of this kind are redriven by the role %s only", d.Role)
	case Removed:
		return fmt.Sprintf("it ended %s and was removed after its retention; only its key is kept", d.State)
	case Stale:
		return fmt.Sprintf("the fence is not that of the newest attempt, which is %d: look at what happened since", d.Fence)
	case Unleased:
		return fmt.Sprintf("generation %d was never tried, so that nothing can have happened: cancel it instead", d.Generation)
	case TooSoon:
		return "the receiver may still be working on it: \"not delivered\" counts only if it was looked for after " + d.Since.UTC().Format(time.RFC3339)
	case AlreadyDelivered:
		return "it is delivered"
	case NeedsForce:
		return "its outcome is unknown, so that sending again may send twice: resolve it, or force the redrive and give evidence"
	case CleanedUp:
		return d.cleanedUp()
	case Irrelevant:
		return d.irrelevant()
	case Applied, Early, NotExpired, NotEligible:
	}
	return d.notEligible()
}

func (d *Denied) cleanedUp() string {
	const force = ": whoever performs it would not find them; make sure that it can be sent without, and force the redrive with evidence"
	if d.Since.IsZero() {
		return "its cleanup was begun, so that the rows that were generated for it may be gone" + force
	}
	return "the rows that were generated for it were removed by its cleanup at " + d.Since.UTC().Format(time.RFC3339) + force
}

func (d *Denied) irrelevant() string {
	at := d.Since.UTC().Format(time.RFC3339)
	if d.Reason == job.ReasonDeadline {
		return "the new generation would begin after its deadline, " + at + ": correct the deadline with the redrive"
	}
	return "the lifetime of the job over all redrives ended at " + at + ": raise the kind's max_lifetime, or schedule a new job"
}

func (d *Denied) notEligible() string {
	switch d.Act {
	case Redriven:
		return fmt.Sprintf("it is %s; only what is quarantined (or unknown, when forced) can be redriven", d.State)
	case AnswerNo, Close:
		return fmt.Sprintf("it is %s; only an unknown outcome can be answered so", d.State)
	default:
		return fmt.Sprintf("it is %s", d.State)
	}
}
