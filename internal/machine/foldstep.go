package machine

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"duly.dev/duly/pkg/job"
)

// step folds one event, and before it the lease that it shows.
func (f *folder) step(e Logged) {
	if e.Name == Lease {
		f.leaseNoted(e)
		return
	}
	f.leaseBefore(e)
	if f.broken != nil {
		return
	}
	known := e.Policy == "" || e.Policy == f.hash || e.Name == Hold // which no policy decides
	if !known {
		f.weaken(otherwise, "policy "+e.Policy+" is not the kind's now: what it alone decides was not compared")
	}
	if f.depth >= loosely {
		f.follow(e)
		return
	}
	var first differences
	for i, ev := range f.explanations(e) {
		row, change := f.decide(e, ev)
		d := differ(e, change, f.row.State)
		if d.none() {
			f.accept(row)
			return
		}
		if i == 0 {
			first = d
		}
	}
	if !known {
		f.weaken(loosely, "decided under policy "+e.Policy+", which is not the kind's now: only changes of state and counters were compared")
		f.follow(e)
		return
	}
	stored, folded := first.texts()
	f.breaks(RuleEvent, describe(e)+": "+stored, folded)
}

// describe names an event.
func describe(e Logged) string { return string(e.Name) + " at " + instant(e.At) }

// decide lets the machine decide about an event at its instant.
func (f *folder) decide(e Logged, ev Event) (Row, Change) {
	row := f.row
	switch e.Name {
	case Replaced:
		due, deadline := f.replacement(e)
		return Replace(row, due, deadline, e.At)
	case Due, Lost, Hold:
		// What is ready expires at the instant that its row keeps.
		row.Kind = ageless(row.Kind)
	default: // by the policy that the event names
	}
	row, change := Next(row, ev, e.At)
	row.Kind = f.row.Kind
	return row, change
}

// replacement is what a request gave that took another's place: as the row has it of
// the last one, and of those before as it shows in what they did.
func (f *folder) replacement(e Logged) (due, deadline time.Time) {
	f.replaced--
	switch {
	case f.replaced == 0:
		return f.stored.Due, f.stored.Deadline
	case e.To == job.Scheduled && !f.staysHeld(e):
		return e.WakeAt, time.Time{}
	}
	return e.At, time.Time{}
}

// staysHeld reports whether a replacement left the hold as it was.
func (f *folder) staysHeld(e Logged) bool {
	return f.row.Waiting == job.WaitingHeld && e.WakeAt.Equal(f.row.WakeAt)
}

// explanations are the events that may have been recorded so, the likeliest first.
func (f *folder) explanations(e Logged) []Event {
	ev := Event{
		Name: e.Name, Fence: e.Fence, Emission: f.row.Emission, Worker: e.Worker, Actor: e.Actor, Detail: e.Detail,
		Result: job.Result{Outcome: e.Outcome, Class: e.Class, Code: e.Code, Detail: e.Detail, Receipt: e.Receipt},
		Hold:   job.Hold(e.Why), Until: e.WakeAt, AskedAt: e.At,
	}
	switch e.Name {
	case Hold:
		ev.Emission = 0
	case Redriven:
		ev.Forced = slices.ContainsFunc(f.h.Redrives, func(n RedriveNote) bool { return n.Predecessor == e.Generation && n.Forced })
	case NotDone, MayBeDone:
		all := []Event{ev}
		if asked := f.asked(e); asked > 0 {
			ev.Result.RetryAfter = asked
			all = append(all, ev)
		}
		return all
	default: // as it is
	}
	return []Event{ev}
}

// asked is the wait for which the receiver may have asked, as far as it shows in what
// was decided; zero where it does not.
func (f *folder) asked(e Logged) time.Duration {
	switch e.Why {
	case "retry_after":
		return e.WakeAt.Sub(e.At) + time.Microsecond - 1 // the instant was cut
	case "window":
		return f.row.Kind.Policy.Cap
	case string(job.ReasonDeadline):
		return f.row.Deadline.Sub(e.At)
	}
	return 0
}

// differ compares what was recorded with what the machine decides in the state.
func differ(e Logged, c Change, state job.State) differences {
	var d differences
	r := c.Record
	if c.Refused != Applied || r == nil {
		d.add("", string(e.From)+" to "+string(e.To), "refused in "+string(state)+": "+string(c.Refused))
		return d
	}
	d.add("event", string(e.Name), string(r.Name))
	d.add("from", string(e.From), string(r.From))
	d.add("to", string(e.To), string(r.To))
	d.add("attempt", number(e.Attempt), number(r.Attempt))
	d.add("fence", number(e.Fence), number(r.Fence))
	d.add("emission", number(e.Emission), number(r.Emission))
	d.add("late", strconv.FormatBool(e.Late), strconv.FormatBool(r.Late))
	d.add("outcome", string(e.Outcome), string(r.Outcome))
	d.add("class", string(e.Class), string(r.Class))
	d.add("code", string(e.Code), string(r.Code))
	d.add("why", e.Why, r.Why)
	d.add("wake_at", instant(e.WakeAt.Truncate(time.Microsecond)), instant(r.WakeAt.Truncate(time.Microsecond)))
	return d
}

func number[N int32 | int64](n N) string { return strconv.FormatInt(int64(n), 10) }

// accept takes a decision over. What a policy decided that is not known is taken from
// the stored row, where that has it.
func (f *folder) accept(row Row) {
	f.row = rounded(row)
	if f.depth == exactly {
		return
	}
	s := f.stored
	if f.row.Fixed && s.Fixed {
		f.row.Channel, f.row.Promises = s.Channel, s.Promises
	}
	if f.row.Fence == s.Fence && !f.row.LeasedAt.IsZero() {
		f.row.Limit = s.Limit
	}
	if f.row.InDoubt() {
		f.row.DoubtUntil = f.row.DoubtSince
	}
	if f.row.InDoubt() && s.InDoubt() {
		f.row.DoubtUntil = s.DoubtUntil
	}
	if f.row.State == job.Unknown && s.State == job.Unknown {
		f.row.Reason = s.Reason
	}
}

func (f *folder) nextLease() Logged {
	l := f.leases[0]
	f.leases = f.leases[1:]
	return l
}

// leaseBefore folds the leases that must have come before the event. A lease has no
// event of its own as a rule; but while it runs the generation is leased, and so says
// the first event behind it.
func (f *folder) leaseBefore(e Logged) {
	for e.From == job.Leased && (f.row.State != job.Leased || !e.Late && e.Fence > f.row.Fence) {
		if len(f.leases) == 0 || !e.Late && f.leases[0].Fence > e.Fence {
			f.breaks(RuleLease, describe(e)+": leased under fence "+number(max(e.Fence, f.row.Fence+1)), "no lease row")
			return
		}
		if f.lease(f.nextLease()); f.broken != nil {
			return
		}
	}
}

// leaseNoted folds a lease that has an event besides its lease row.
func (f *folder) leaseNoted(e Logged) {
	if len(f.leases) == 0 || f.leases[0].Fence != e.Fence {
		f.breaks(RuleLease, describe(e)+": leased under fence "+number(e.Fence), "no lease row")
		return
	}
	from := f.row.State
	if f.lease(f.nextLease()); f.broken != nil {
		return
	}
	var d differences
	d.add("from", string(e.From), string(from))
	d.add("attempt", number(e.Attempt), number(f.row.Attempt))
	d.add("emission", number(e.Emission), number(f.row.Emission))
	if !d.none() {
		stored, folded := d.texts()
		f.breaks(RuleEvent, describe(e)+": "+stored, folded)
	}
}

// lease folds a lease row.
func (f *folder) lease(l Logged) {
	l.Name = Lease
	row := f.row
	if l.Policy != f.hash {
		f.weaken(otherwise, "policy "+l.Policy+" is not the kind's now: what it alone decides was not compared")
	}
	if f.depth < loosely {
		row.Kind = ageless(row.Kind)
		var change Change
		row, change = Next(row, Event{Name: Lease, Emission: row.Emission, Worker: l.Worker}, l.At)
		if row.State != job.Leased || change.Refused != Applied {
			f.noLease(l, change)
			return
		}
		row.Kind = f.row.Kind
	} else if row = f.looseLease(l); row.State != job.Leased {
		f.noLease(l, Change{Refused: Stale})
		return
	}
	var d differences
	d.add("attempt", number(l.Attempt), number(row.Attempt))
	d.add("fence", number(l.Fence), number(row.Fence))
	if !d.none() {
		stored, folded := d.texts()
		f.breaks(RuleEvent, describe(l)+": "+stored, folded)
		return
	}
	f.accept(row)
}

// noLease tells of a lease that was not possible.
func (f *folder) noLease(l Logged, c Change) {
	folded := fmt.Sprintf("refused in %s: %s", f.row.State, c.Refused)
	if c.Refused == Applied {
		folded = fmt.Sprintf("%s, since it had ended: %s", c.Record.To, c.Record.Why)
	}
	f.breaks(RuleEvent, fmt.Sprintf("%s: leased under fence %d", describe(l), l.Fence), folded)
}
