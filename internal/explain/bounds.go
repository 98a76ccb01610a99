package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// bounds are what ends a pending generation if nothing else does, the first to come
// first and attempts, which have no instant, last.
func bounds(g machine.Generation) []Bound {
	p := g.Kind.Policy
	ends := "quarantined"
	if g.InDoubt() {
		ends = "unknown"
	}
	var all []Bound
	add := func(name string, at time.Time, format string, args ...any) {
		all = append(all, Bound{name, at, fmt.Sprintf(format, args...)})
	}
	if !g.Deadline.IsZero() {
		local := ""
		if g.DeadlineLocal != "" {
			local = fmt.Sprintf(" (%s %s)", g.DeadlineLocal, g.DeadlineZone)
		}
		add("deadline", g.Deadline, "its effect must not begin from %s on%s; then it is %s (%s)", instant(g.Deadline), local, ends, job.ReasonDeadline)
	}
	if !g.FirstReady.IsZero() {
		add("max_age", g.FirstReady.Add(p.MaxAge), "%s after it was first ready it is %s (%s)", p.MaxAge, ends, job.ReasonTooOld)
	}
	if !g.Origin.IsZero() {
		add("max_lifetime", g.Origin.Add(p.MaxLifetime), "%s after its first generation was first ready it is %s (%s)", p.MaxLifetime, ends, job.ReasonTooOld)
	}
	if until := g.RepeatUntil(); !until.IsZero() {
		add("window", until, "from then on its receiver might not know a repeat as one; then it is unknown")
	}
	slices.SortStableFunc(all, func(a, b Bound) int { return a.At.Compare(b.At) })
	left := max(p.MaxAttempts-g.Attempt, 0)
	add("max_attempts", time.Time{}, "%d of %d attempts are left", left, p.MaxAttempts)
	return all
}

// note adds what matters in every state.
func (e *explainer) note() {
	g := e.g
	if g.CancelRequested && g.State != job.Cancelled && g.State != job.Delivered {
		e.Notes = append(e.Notes, "a cancellation is requested: it takes effect when the attempt ends, or the doubt is settled, without having happened")
	}
	if g.InDoubt() && g.State != job.Unknown {
		e.Notes = append(e.Notes, fmt.Sprintf("it is in doubt since %s: some attempt may have happened, so that it can end only as delivered or unknown", instant(g.DoubtSince)))
		e.dof("if you know that it happened: %s", e.resolve("delivered"))
	}
	if n := len(e.story.Redrives); n > 0 {
		r := slices.MaxFunc(e.story.Redrives, func(a, b machine.RedriveNote) int { return cmp.Compare(a.Successor, b.Successor) })
		e.Notes = append(e.Notes, fmt.Sprintf("generation %d was opened by %s, approved by %s, at %s: %s", r.Successor, r.Actor, r.Approver, instant(r.At), r.Reason))
	}
	if e.late() {
		e.Notes = append(e.Notes, "there is late evidence: a worker reported after its lease was over; see show")
	}
}

// late reports whether a worker's late success was recorded that changed nothing.
func (e *explainer) late() bool {
	_, ok := e.last(func(ev machine.Logged) bool {
		return ev.Late && ev.Name == machine.Done && ev.From == ev.To && ev.To != job.Delivered
	})
	return ok
}
