package model

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// now is the instant at which the machine is asked.
var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func stand(r machine.Row) string {
	if !r.Current() {
		return Superseded
	}
	return Stand(r.State, r.Waiting, r.InDoubt(), r.Closed)
}

// The conditions that the rules speak of, one bit each.
const (
	inDoubt = 1 << iota
	windowOpen
	cancelRequested
	closed
	expired
	lastAttempt
	permanent
	superseded
	neverLeased
	conditions
)

// rows are a row in every place under every condition, as far as the machine can bring it about.
func rows(yield func(machine.Row) bool) {
	for _, state := range job.States() {
		waitings := []job.Waiting{""}
		if state == job.Scheduled {
			waitings = []job.Waiting{job.WaitingDue, job.WaitingRetry, job.WaitingHeld}
		}
		for _, waiting := range waitings {
			for condition := range conditions {
				r := row(state, waiting, func(bit int) bool { return condition&bit != 0 })
				if possible(r) && !yield(r) {
					return
				}
			}
		}
	}
}

func row(state job.State, waiting job.Waiting, is func(int) bool) machine.Row {
	kind := machine.Kind{Name: "k", Lane: "l", Channel: "http", Policy: machine.DefaultPolicy(), Promises: machine.DefaultPromises(10 * time.Second)}
	if is(windowOpen) {
		kind.Promises.Window = 24 * time.Hour
	}
	r := machine.Row{
		Job: 1, Generation: 1, Kind: kind, State: state, Waiting: waiting, Attempt: 2, Fence: 2, Emission: 2,
		Created: now.Add(-time.Hour), Due: now.Add(-time.Hour), FirstReady: now.Add(-time.Hour), Origin: now.Add(-time.Hour),
		LeasedAt: now.Add(-time.Minute), Limit: kind.Policy.Limit, Worker: "w", Fixed: true, Channel: kind.Channel, Promises: kind.Promises,
		CancelRequested: is(cancelRequested), Closed: is(closed),
	}
	if waiting != "" {
		r.WakeAt = now.Add(-machine.RetryGrace)
	}
	if is(inDoubt) {
		r.DoubtSince, r.DoubtUntil = now.Add(-30*time.Minute), now.Add(-29*time.Minute)
	}
	if is(expired) {
		r.Deadline = now
	}
	if is(lastAttempt) {
		r.Attempt = kind.Policy.MaxAttempts
	}
	if is(permanent) {
		r.LastClass = job.ClassPermanent
	}
	if is(superseded) {
		r.Successor = 2
	}
	if is(neverLeased) {
		r.Attempt, r.Fence, r.LeasedAt, r.Worker, r.Fixed, r.Channel, r.Promises = 0, 0, time.Time{}, "", false, "", machine.Promises{}
	}
	return r
}

// possible reports whether the machine can bring a row about.
func possible(r machine.Row) bool {
	leased, waits := !r.LeasedAt.IsZero(), r.State == job.Scheduled || r.State == job.Ready
	ended := r.State == job.Delivered || r.State == job.Quarantined || r.State == job.Cancelled
	last := r.Attempt >= r.Kind.Policy.MaxAttempts
	switch {
	case r.State == job.Unknown && !r.InDoubt(),
		r.InDoubt() && (ended || !leased),
		r.InDoubt() && waits && r.Promises.Window == 0,
		!leased && (r.State == job.Leased || r.State == job.Delivered || r.Waiting == job.WaitingRetry),
		leased && r.Waiting == job.WaitingDue,
		waits && (r.CancelRequested || last || r.LastClass == job.ClassPermanent),
		r.State == job.Leased && r.LastClass == job.ClassPermanent,
		r.Closed && r.State != job.Unknown,
		r.LastClass != "" && !leased,
		!r.Current() && r.State != job.Unknown && r.State != job.Quarantined:
		return false
	}
	return true
}

// happenings are every event with every value that matters: of the newest attempt and reference, and of older ones.
func happenings(r machine.Row) []machine.Event {
	var all []machine.Event
	for _, name := range machine.Names() {
		for _, fence := range []int64{r.Fence, r.Fence - 1, 0} {
			for _, emission := range []int32{r.Emission, r.Emission - 1} {
				ev := machine.Event{Name: name, Fence: fence, Emission: emission, Worker: "w", Hold: job.HoldPaused, AskedAt: now}
				switch name {
				case machine.NotDone:
					for _, class := range job.Classes() {
						ev.Result = job.NotDone(class, job.CodeReceiverBusy, "")
						all = append(all, ev)
					}
					continue
				case machine.Redriven:
					all = append(all, ev)
					ev.Forced, ev.Detail = true, "their log shows nothing"
				case machine.Due, machine.Lost, machine.Lease, machine.Hold, machine.HandedBack, machine.Done, machine.MayBeDone,
					machine.LeaseEnded, machine.AnswerYes, machine.AnswerNo, machine.Expire, machine.Close, machine.Cancel, machine.Replaced:
				}
				all = append(all, ev)
			}
		}
	}
	return all
}

// machines is the table as the machine has it: every step that it decides, in order.
func machines() []Step {
	found := map[Step]bool{}
	for r := range rows {
		for _, ev := range happenings(r) {
			for _, wait := range []time.Duration{0, 8 * 24 * time.Hour} { // resolve_within may be over
				if wait > 0 && ev.Name != machine.Close {
					continue
				}
				if after, change := machine.Next(r, ev, now.Add(wait)); change.Refused == machine.Applied {
					found[Step{string(ev.Name), stand(r), stand(after)}] = true
				}
			}
		}
	}
	all := make([]Step, 0, len(found))
	for s := range found {
		all = append(all, s)
	}
	slices.SortFunc(all, inOrder)
	return all
}

var stands = []string{
	"due", "retry", "held", "ready", "leased", "retry?", "held?", "ready?", "leased?",
	"unknown", "closed", "delivered", "quarantined", "cancelled", Superseded,
}

func inOrder(a, b Step) int {
	place := func(s Step) int {
		event := slices.Index(machine.Names(), machine.Name(s.Event))
		return (event*len(stands)+slices.Index(stands, s.From))*len(stands) + slices.Index(stands, s.To)
	}
	return place(a) - place(b)
}

// write writes steps as the model's table has them.
func write(steps []Step) string {
	var b strings.Builder
	for i, s := range steps {
		if i == 0 || steps[i-1].Event != s.Event || steps[i-1].From != s.From {
			if i > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(" * " + s.Event + " " + s.From + ":")
		}
		b.WriteString(" " + s.To)
	}
	b.WriteByte('\n')
	return b.String()
}

// A rule that is changed in the machine, or in the model's table, is seen here.
func TestTheModelsTableIsTheMachines(t *testing.T) {
	t.Parallel()
	require.Greater(t, len(machines()), 100)
	if diff := cmp.Diff(write(machines()), strings.ReplaceAll(block(), "~", "")); diff != "" {
		t.Errorf("machine (-) and table of duly.pml (+) differ:\n%s", diff)
	}
	require.Equal(t, machines(), Table())
}

// What the model calls them is what the code calls them.
func TestTheModelNamesEveryEventAndStand(t *testing.T) {
	t.Parallel()
	for _, name := range machine.Names() {
		require.Contains(t, source, `"`+string(name)+`"`)
		require.Contains(t, source, "E_"+strings.ToUpper(string(name)))
	}
	for _, s := range stands {
		require.Contains(t, source, `"`+s+`"`)
	}
	for _, s := range Table() {
		require.Contains(t, stands, s.From)
		require.Contains(t, stands, s.To)
	}
}

func TestCheckNamesTheFirstStepThatTheModelDoesNotAllow(t *testing.T) {
	t.Parallel()
	ways := []Step{
		{"due", "due", "ready"},
		{"lease", "ready", "leased"},
		{"lease_ended", "leased", "retry?"},
		{"lease", "retry?", "leased?"},
		{"not_done", "leased?", "unknown"},
		{"close", "unknown", "closed"},
		{"done", "closed", "delivered"},
	}
	require.NoError(t, Check(nil))
	require.NoError(t, Check(ways))

	bent := slices.Clone(ways)
	bent[4].To, bent[5].From = "quarantined", "quarantined"
	wrong := forbidden(t, bent)
	require.Equal(t, 4, wrong.At)
	require.Equal(t, "step 4, leased? -not_done-> quarantined: the model has no such step", wrong.Error())

	torn := slices.Delete(slices.Clone(ways), 2, 3)
	wrong = forbidden(t, torn)
	require.Equal(t, 2, wrong.At)
	require.Equal(t, "the step before it ended in leased", wrong.Why)
}

func forbidden(t *testing.T, steps []Step) *Forbidden {
	t.Helper()
	var wrong *Forbidden
	require.ErrorAs(t, Check(steps), &wrong)
	return wrong
}

// Whatever the machine decides, in any row, the model allows: what a simulation records can be held against it.
func TestCheckTakesWhatTheMachineDecides(t *testing.T) {
	t.Parallel()
	for _, s := range machines() {
		require.NoError(t, Check([]Step{s}))
	}
}
