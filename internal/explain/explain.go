package explain

import (
	"fmt"
	"slices"
	"time"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// Explanation answers the questions that a person has about a job.
type Explanation struct {
	// State is the state in words, such as "scheduled: it waits for another try".
	State string `json:"state"`
	// Why it is in this state.
	Why string `json:"why"`
	// Next is what happens next by itself, and When at the latest; zero where no instant
	// is known.
	Next string    `json:"next"`
	When time.Time `json:"when,omitzero"`
	// Bounds are what ends the generation if nothing else does, the first to come first.
	Bounds []Bound `json:"bounds,omitempty"`
	// Do is what a person can do about it.
	Do []string `json:"do,omitempty"`
	// Notes are what else matters: doubt, a requested cancellation, earlier generations.
	Notes []string `json:"notes,omitempty"`
}

// Bound is an instant, or a number of attempts, that ends a generation.
type Bound struct {
	Name string `json:"name"`
	// At is when; zero for attempts, which are counted.
	At time.Time `json:"at,omitzero"`
	// What says it in words.
	What string `json:"what"`
}

// Of explains a job.
func Of(s machine.Story) Explanation {
	g, ok := s.Current()
	if !ok {
		return removed(s)
	}
	e := &explainer{story: s, g: g}
	switch g.State {
	case job.Scheduled:
		e.scheduled()
	case job.Ready:
		e.ready()
	case job.Leased:
		e.leased()
	case job.Delivered:
		e.delivered()
	case job.Quarantined:
		e.quarantined()
	case job.Cancelled:
		e.cancelled()
	case job.Unknown:
		e.unknown()
	}
	if g.State.Pending() {
		e.Bounds = bounds(g)
	}
	e.note()
	e.bound()
	e.cleanup()
	return e.Explanation
}

// removed explains a job of which only the key is kept.
func removed(s machine.Story) Explanation {
	return Explanation{
		State: fmt.Sprintf("%s, and removed since", s.LastState),
		Why:   "its rows were removed when their retention was over; the key is kept, so that a late copy of the request makes no second job",
		Next:  "nothing",
	}
}

// explainer gathers an explanation.
type explainer struct {
	Explanation
	story machine.Story
	g     machine.Generation
}

func (e *explainer) dof(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); text != "" {
		e.Do = append(e.Do, text)
	}
}

func (e *explainer) ready() {
	e.State = "ready: it is announced, and waits for a worker"
	e.Why = fmt.Sprintf("emission %d was written to the outbox of lane %s together with this state", e.g.Emission, e.g.Kind.Lane)
	e.Next = fmt.Sprintf("a worker of lane %s leases it as soon as it has a free slot", e.g.Kind.Lane)
	if e.g.InDoubt() {
		e.Next += ", and repeats the effect under the same key, since its receiver dedupes"
	}
	for _, u := range e.story.Unsendable {
		e.Next, e.When = fmt.Sprintf("the broker would not take its announcement (%s); it is sent again", u.Error), u.Next
		e.dof("make the broker take messages of topic %s: it refused this one %d times since %s", u.Topic, u.Tries, instant(u.Since))
	}
	e.dof("if it stays so: check that a dispatcher and a worker of lane %s run, and that nothing is backed up before it", e.g.Kind.Lane)
}

func (e *explainer) leased() {
	end := e.g.LeasedAt.Add(e.g.Limit + e.g.Kind.Policy.LeaseTime)
	e.State = "leased: a worker is trying it"
	e.Why = fmt.Sprintf("worker %s%s began attempt %d at %s under fence %d", e.g.Worker, e.version(), e.g.Attempt, instant(e.g.LeasedAt), e.g.Fence)
	e.Next = "the worker reports how it ended; a lease that ends without a report counts as: it may have happened"
	e.When = end
	if e.story.Now.After(end) {
		e.Next = "the lease is over: the scheduler ends it, and what it tried counts as: it may have happened"
		e.dof("check that a scheduler runs")
	}
}

// version is that of the worker that holds the lease, as the events name it.
func (e *explainer) version() string {
	for _, ev := range e.story.Events {
		if ev.Name == machine.Lease && ev.Fence == e.g.Fence && ev.Version != "" {
			return " (" + ev.Version + ")"
		}
	}
	return ""
}

func (e *explainer) delivered() {
	e.State, e.Next = "delivered: it happened", "nothing"
	e.Why = "a worker reported it"
	last, found := e.last(func(ev machine.Logged) bool { return ev.To == job.Delivered && ev.From != job.Delivered })
	switch {
	case found && last.Name == machine.AnswerYes && last.Actor == machine.ActorLookup:
		e.Why = "its receiver said so when it was asked"
	case found && last.Name == machine.AnswerYes:
		e.Why = fmt.Sprintf("%s said that it happened: %s", actor(last.Actor), last.Detail)
	case found && last.Late:
		e.Why = "a worker reported it after its lease was over"
	}
	e.Why += " at " + instant(e.g.Ended)
	if r := e.g.Receipt; r != nil {
		e.Why += receipt(*r)
	}
	if n := e.copies(last.Fence); n > 0 {
		e.Notes = append(e.Notes, fmt.Sprintf("%d more attempts reported that they did it too: the receiver may have acted more than once", n))
	}
}

// copies counts successes of other attempts than the delivered one, whose own worker may
// have reported behind a person's answer.
func (e *explainer) copies(delivered int64) (n int) {
	for _, ev := range e.story.Events {
		if ev.Generation == e.g.Generation && ev.Name == machine.Done && ev.From == job.Delivered && ev.Fence != delivered {
			n++
		}
	}
	return n
}

func receipt(r job.Receipt) string {
	text := ""
	if r.Status != "" {
		text += ", answer " + r.Status
	}
	if r.ID != "" {
		text += ", receipt " + r.ID
	}
	return text
}

func (e *explainer) cancelled() {
	e.State, e.Next = "cancelled: it was withdrawn, and did not happen", "nothing"
	e.Why = "it was cancelled"
	if asked, ok := e.last(func(ev machine.Logged) bool { return ev.Name == machine.Cancel }); ok {
		e.Why = "it was cancelled by " + actor(asked.Actor)
		if asked.Detail != "" {
			e.Why += ": " + asked.Detail
		}
	}
	e.Why += " at " + instant(e.g.Ended)
}

// last finds the newest event of the generation that fits.
func (e *explainer) last(fits func(machine.Logged) bool) (machine.Logged, bool) {
	for _, ev := range slices.Backward(e.story.Events) {
		if ev.Generation == e.g.Generation && fits(ev) {
			return ev, true
		}
	}
	return machine.Logged{}, false
}

func actor(name string) string {
	if name == "" {
		return "somebody"
	}
	return name
}

// instant is an instant for people.
func instant(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 MST") }
