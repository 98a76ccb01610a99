package explain_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/explain"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// began is when the jobs of these tests were first ready.
var began = time.Date(2026, 9, 30, 12, 0, 0, 0, time.UTC)

func kind(promises func(*machine.Promises)) machine.Kind {
	k := machine.Kind{Name: "mail", Lane: "main", Channel: "smtp", Policy: machine.DefaultPolicy(), Promises: machine.DefaultPromises(10 * time.Second)}
	promises(&k.Promises)
	return k
}

func none(*machine.Promises)     {}
func window(p *machine.Promises) { p.Window = 24 * time.Hour }
func lookup(p *machine.Promises) { p.Lookup = machine.MeansHTTP }
func both(p *machine.Promises)   { window(p); lookup(p) }

// asked says how far the asking about the story's job has come, by HTTP.
func asked(s machine.Story, a machine.Asking) machine.Story {
	a.Means = machine.MeansHTTP
	s.Generations[len(s.Generations)-1].Asking = a
	return s
}

func ready(k machine.Kind) machine.Row {
	row, _ := machine.Begin(k, time.Time{}, began.Add(6*time.Hour), began)
	row.Job = 7
	return row
}

func story(rows ...machine.Row) machine.Story {
	s := machine.Story{Now: began.Add(30 * time.Second), Job: 7, Kind: rows[0].Kind, Key: "customer 1"}
	for _, r := range rows {
		s.Generations = append(s.Generations, machine.Generation{Row: r, Destination: "ann@example.com", Payload: []byte(`{"a": 1}`)})
	}
	return s
}

// tell applies events to a row and tells the story of it.
func tell(row machine.Row, events ...machine.Event) machine.Story {
	now := began
	s := story(row)
	for _, ev := range events {
		now = now.Add(10 * time.Second)
		var change machine.Change
		row, change = machine.Next(row, ev, now)
		if change.Record != nil {
			s.Events = append(s.Events, machine.Logged{At: now, Generation: row.Generation, Record: *change.Record, Version: "v9"})
		}
	}
	s.Generations[0].Row = row
	if !row.State.Pending() {
		s.Generations[0].Ended = now
	}
	return s
}

func lease() machine.Event {
	return machine.Event{Name: machine.Lease, Emission: 1, Worker: "w-1", Actor: "worker"}
}

func ends(name machine.Name, r job.Result) machine.Event {
	return machine.Event{Name: name, Fence: 1, Result: r, Worker: "w-1", Actor: "worker"}
}

var (
	throttled = ends(machine.NotDone, job.NotDone(job.ClassTransient, job.CodeThrottled, "429 slow down"))
	rejected  = ends(machine.NotDone, job.NotDone(job.ClassPermanent, job.CodeDestinationInvalid, "550 no such user"))
	timeout   = ends(machine.MayBeDone, job.MayBeDone(job.CodeTimeout, "no answer in 10s"))
	delivered = ends(machine.Done, job.Done(&job.Receipt{ID: "r-1", Status: "250 2.0.0"}))
	cancel    = machine.Event{Name: machine.Cancel, Actor: "bob", Detail: "customer left"}
)

func TestG12EveryStateIsExplained(t *testing.T) {
	t.Parallel()
	later, _ := machine.Begin(kind(none), began.Add(time.Hour), time.Time{}, began)
	past := ready(kind(none))
	past.Deadline = began.Add(time.Second)
	for name, c := range map[string]struct {
		story machine.Story
		state job.State
		// what the explanation says, in its order
		says []string
		when time.Time
	}{
		"due later": {story(later), job.Scheduled, []string{"not due yet", "its producer asked for it", "becomes ready"}, began.Add(time.Hour)},
		"retry": {tell(ready(kind(none)), lease(), throttled), job.Scheduled, []string{
			"waits for another try", "attempt 1 of 8 did not happen (transient, THROTTLED): 429 slow down", "the kind's backoff", "attempt 2 begins", "it is retried when the receiver allows",
		}, time.Time{}},
		"retry in doubt": {tell(ready(kind(window)), lease(), timeout), job.Scheduled, []string{
			"waits for another try", "may have happened (TIMEOUT): no answer in 10s", "repeats the effect under the same key", "if you know that it happened", "--fence 1 --as delivered", "in doubt since",
		}, time.Time{}},
		"ready":     {tell(ready(kind(none))), job.Ready, []string{"announced, and waits for a worker", "emission 1", "a worker of lane main leases it"}, time.Time{}},
		"leased":    {tell(ready(kind(none)), lease()), job.Leased, []string{"a worker is trying it", "worker w-1 (v9) began attempt 1", "under fence 1", "without a report counts as"}, began.Add(50 * time.Second)},
		"asked":     {tell(ready(kind(none)), lease(), cancel), job.Leased, []string{"a worker is trying it", "a cancellation is requested"}, began.Add(50 * time.Second)},
		"delivered": {tell(ready(kind(none)), lease(), delivered), job.Delivered, []string{"it happened", "a worker reported it", "nothing"}, time.Time{}},
		"twice done": {
			tell(ready(kind(none)), lease(), ends(machine.HandedBack, job.NotBegun("drain")), machine.Event{Name: machine.Lease, Emission: 2, Worker: "w-2"},
				delivered, machine.Event{Name: machine.Done, Fence: 2, Result: job.Done(nil), Worker: "w-2"}),
			job.Delivered,
			[]string{"after its lease was over", "1 more attempts reported that they did it too"},
			time.Time{},
		},
		"answered": {
			tell(ready(kind(none)), lease(), timeout, machine.Event{Name: machine.AnswerYes, Fence: 1, Actor: "bob", Detail: "seen in the log"}),
			job.Delivered,
			[]string{"bob said that it happened: seen in the log"},
			time.Time{},
		},
		"late": {tell(ready(kind(none)), lease(), timeout, delivered), job.Delivered, []string{"after its lease was over"}, time.Time{}},
		"quarantined": {tell(ready(kind(none)), lease(), rejected), job.Quarantined, []string{
			"will not be tried again", "the same input would fail again; attempt 1 of 8 did not happen (permanent, DESTINATION_INVALID): 550 no such user", "until a person redrives",
			"correct the destination", "dlq redrive 'mail/customer 1' --generation 1",
		}, time.Time{}},
		"deadline passed": {tell(past, machine.Event{Name: machine.Expire}), job.Quarantined, []string{"its deadline had passed", "--deadline TIME"}, time.Time{}},
		"cancelled":       {tell(ready(kind(none)), cancel), job.Cancelled, []string{"withdrawn", "cancelled by bob: customer left", "nothing"}, time.Time{}},
		"unknown": {tell(ready(kind(none)), lease(), timeout), job.Unknown, []string{
			"it may have happened", "may have happened (TIMEOUT)", "does not allow a repeat now", "until a person says", "ask the receiver whether it acted",
			"--as delivered", "--as not-delivered --evidence WHAT (counts if you looked after 2026-09-30 12:00:45 UTC)", "--as give-up",
		}, began.Add(10*time.Second + 7*24*time.Hour)},
		"unknown, to be asked": {
			asked(tell(ready(kind(lookup)), lease(), timeout), machine.Asking{NextAt: began.Add(time.Minute)}),
			job.Unknown,
			[]string{"its receiver is asked by http, again and again until it answers, or until it is closed at 2026-10-07 12:00:10 UTC", "--as delivered", "was not asked yet (by http)"},
			began.Add(time.Minute),
		},
		"unknown, asked": {
			asked(tell(ready(kind(lookup)), lease(), timeout), machine.Asking{Times: 3, NextAt: began.Add(time.Hour), Said: job.SaidWorking, AskedAt: began.Add(time.Minute), Detail: "HTTP 202 Accepted"}),
			job.Unknown,
			[]string{"was asked 3 times (by http); the last answer, asked for at 2026-09-30 12:01:00 UTC: it is still working on it (HTTP 202 Accepted)"},
			began.Add(time.Hour),
		},
		"unknown, asked too early": {
			asked(tell(ready(kind(lookup)), lease(), timeout), machine.Asking{Times: 1, NextAt: began.Add(45 * time.Second), Said: job.SaidNo, AskedAt: began.Add(30 * time.Second)}),
			job.Unknown,
			[]string{"was asked once (by http)", "it did not happen, which was asked too early to count: it may still have been working until 2026-09-30 12:00:45 UTC"},
			began.Add(45 * time.Second),
		},
		"unknown, asked by nobody": {
			asked(tell(ready(kind(lookup)), lease(), timeout), machine.Asking{NextAt: began.Add(-time.Minute)}),
			job.Unknown,
			[]string{"overdue: check that a scheduler runs"},
			began.Add(-time.Minute),
		},
		"answered by its receiver": {
			tell(ready(kind(lookup)), lease(), timeout, machine.Event{Name: machine.AnswerYes, Fence: 1, Actor: machine.ActorLookup, Detail: "HTTP 200 OK"}),
			job.Delivered,
			[]string{"its receiver said so when it was asked at"},
			time.Time{},
		},
		"retry in doubt, then asked": {
			tell(ready(kind(both)), lease(), timeout),
			job.Scheduled,
			[]string{"once no repeat is possible, its receiver is asked (by http)"},
			time.Time{},
		},
		"unknown, closed": {
			tell(ready(kind(none)), lease(), timeout, machine.Event{Name: machine.Close, Fence: 1, Actor: "bob"}),
			job.Unknown,
			[]string{"closed", "stays visible", "--force --evidence WHY"},
			time.Time{},
		},
	} {
		e := explain.Of(c.story)
		g, _ := c.story.Current()
		require.Equal(t, c.state, g.State, name)
		text := strings.Join(append(append([]string{e.State, e.Why, e.Next}, e.Do...), e.Notes...), "\n")
		require.NotContains(t, text, "%!", name)
		rest := text
		for _, want := range c.says {
			_, behind, found := strings.Cut(rest, want)
			require.True(t, found, "%s: %q is not said, or not there, in:\n%s", name, want, text)
			rest = behind
		}
		if !c.when.IsZero() {
			require.Equal(t, c.when, e.When, name)
		}
	}
}

// TestG12NothingIsLeftUnsaid walks every state with every reason to wait, hold, doubt,
// closing and cancellation that there is.
func TestG12NothingIsLeftUnsaid(t *testing.T) {
	t.Parallel()
	for name, s := range everything() {
		e := explain.Of(s)
		g, _ := s.Current()
		require.NotEmpty(t, e.State, name)
		require.NotEmpty(t, e.Why, name)
		require.NotEmpty(t, e.Next, name)
		require.True(t, strings.HasPrefix(e.State, string(g.State)), "%s: %s", name, e.State)
		if g.State == job.Scheduled || g.State == job.Leased {
			require.False(t, e.When.IsZero(), "%s says when", name)
		}
		if g.State.Pending() {
			require.NotEmpty(t, e.Bounds, name)
		} else {
			require.Empty(t, e.Bounds, name)
		}
		if g.State == job.Quarantined || g.State == job.Unknown {
			require.NotEmpty(t, e.Do, "%s says what a person can do", name)
		}
		if g.InDoubt() && g.State.Pending() {
			require.Contains(t, strings.Join(e.Notes, "\n"), "in doubt", name)
		}
		if g.CancelRequested && g.State != job.Cancelled && g.State != job.Delivered {
			require.Contains(t, strings.Join(e.Notes, "\n"), "cancellation is requested", name)
		}
		require.NotContains(t, fmt.Sprint(e), "%!", name)
		require.NotContains(t, fmt.Sprint(e), "ann@example.com", "G13: %s", name)
	}
}

// everything is a story for every combination of what a current generation can be.
func everything() map[string]machine.Story {
	all := make(map[string]machine.Story)
	for _, state := range job.States() {
		for waiting, hold := range waits(state) {
			for _, reason := range reasons(state) {
				for _, doubt := range []bool{false, true} {
					for _, flag := range []string{"", "closed", "cancel"} {
						for name, p := range map[string]func(*machine.Promises){"none": none, "window": window, "lookup": lookup} {
							row := ready(kind(p))
							row.State, row.Waiting, row.Hold, row.Reason = state, waiting, hold, reason
							row.Attempt, row.Fence, row.Worker, row.LeasedAt, row.Limit = 1, 1, "w-1", began, 10*time.Second
							row.Closed, row.CancelRequested = flag == "closed", flag == "cancel"
							row.LastCode = job.CodeTimeout
							if state == job.Scheduled {
								row.WakeAt = began.Add(time.Hour)
							}
							if doubt {
								row.DoubtSince, row.DoubtUntil = began, began.Add(time.Minute)
							}
							all[fmt.Sprint(state, waiting, hold, reason, doubt, flag, name)] = story(row)
						}
					}
				}
			}
		}
	}
	return all
}

func waits(state job.State) map[job.Waiting]job.Hold {
	if state != job.Scheduled {
		return map[job.Waiting]job.Hold{"": ""}
	}
	return map[job.Waiting]job.Hold{job.WaitingDue: "", job.WaitingRetry: "", job.WaitingHeld: job.HoldRate}
}

func reasons(state job.State) []job.Reason {
	switch state {
	case job.Quarantined:
		return job.Reasons()
	case job.Unknown:
		return append(job.Reasons(), "")
	default:
		return []job.Reason{""}
	}
}

func TestEveryHoldIsExplained(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, hold := range job.Holds() {
		e := explain.Of(tell(ready(kind(none)), machine.Event{Name: machine.Hold, Hold: hold, Until: began.Add(time.Hour)}))
		require.NotContains(t, e.Why, "held:", "it has words of its own: %s", hold)
		require.NotEmpty(t, e.Do, string(hold))
		require.Equal(t, began.Add(time.Hour), e.When)
		seen[e.Why] = true
	}
	require.Len(t, seen, len(job.Holds()))
}

func TestTheFirstBoundComesFirst(t *testing.T) {
	t.Parallel()
	names := func(s machine.Story) (all []string) {
		for _, b := range explain.Of(s).Bounds {
			all = append(all, b.Name)
		}
		return all
	}
	row := ready(kind(none))
	require.Equal(t, []string{"deadline", "max_age", "max_lifetime", "max_attempts"}, names(story(row)))
	row.Deadline = began.Add(30 * time.Hour)
	require.Equal(t, []string{"max_age", "deadline", "max_lifetime", "max_attempts"}, names(story(row)))
	row.Deadline = time.Time{}
	require.Equal(t, []string{"max_age", "max_lifetime", "max_attempts"}, names(story(row)))
	doubtful := tell(ready(kind(window)), lease(), timeout)
	require.Equal(t, []string{"deadline", "window", "max_age", "max_lifetime", "max_attempts"}, names(doubtful))
	b := explain.Of(doubtful).Bounds
	require.Contains(t, b[0].What, "then it is unknown", "what is in doubt is not quarantined")
	require.Equal(t, "7 of 8 attempts are left", b[4].What)
}

func TestWhatIsOverdueSaysWhatToCheck(t *testing.T) {
	t.Parallel()
	s := tell(ready(kind(none)), lease(), throttled)
	s.Now = began.Add(time.Hour)
	require.Contains(t, strings.Join(explain.Of(s).Do, "\n"), "overdue: check that a scheduler runs")
	s = tell(ready(kind(none)), lease())
	s.Now = began.Add(time.Hour)
	require.Contains(t, explain.Of(s).Next, "the lease is over")
	s = story(ready(kind(none)))
	s.Unsendable = []machine.Unsendable{{Topic: "main", Tries: 3, Since: began, Next: began.Add(time.Hour), Error: "too large"}}
	e := explain.Of(s)
	require.Contains(t, e.Next, "too large")
	require.Equal(t, began.Add(time.Hour), e.When)
}

func TestARedrivenJobSaysWhoOpenedItsGeneration(t *testing.T) {
	t.Parallel()
	old := tell(ready(kind(none)), lease(), rejected)
	pred, succ, _ := machine.Redrive(old.Generations[0].Row, machine.Event{Actor: "bob"}, machine.Correction{NotBefore: began.Add(time.Hour)}, began.Add(time.Minute))
	s := story(pred, succ)
	s.Redrives = []machine.RedriveNote{{At: began, Approver: "ann", Actor: "bob", Reason: "corrected", Predecessor: 1, Successor: 2}}
	e := explain.Of(s)
	require.Contains(t, e.Why, "asked for a later start")
	require.Contains(t, strings.Join(e.Notes, "\n"), "generation 2 was opened by bob, approved by ann")
}

func TestATombstoneIsExplained(t *testing.T) {
	t.Parallel()
	e := explain.Of(machine.Story{Removed: true, LastState: job.Delivered})
	require.Equal(t, "delivered, and removed since", e.State)
	require.Equal(t, "nothing", e.Next)
}

func TestG13DocumentsShowWhatIsPrivateOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	s := tell(ready(kind(none)), lease(), delivered)
	text := func(p explain.Private) string {
		b, err := json.Marshal(explain.Show(s, p))
		require.NoError(t, err)
		return string(b)
	}
	hidden := text(explain.Private{})
	require.NotContains(t, hidden, "ann@")
	require.NotContains(t, hidden, `"payload":`)
	require.Contains(t, hidden, `"payload_bytes":8`)
	require.Contains(t, hidden, `"destination":"a…@example.com"`)
	shown := text(explain.Private{Destination: true, Payload: true})
	require.Contains(t, shown, "ann@example.com")
	require.Contains(t, shown, `"payload":{"a":1}`)
	require.Contains(t, shown, `"effect_key":"mail/customer 1:1:smtp"`)
	require.Contains(t, shown, `"event":"lease"`)
}

func TestAWorkersReportBehindAPersonsAnswerIsNoSecondEffect(t *testing.T) {
	t.Parallel()
	s := tell(ready(kind(none)), lease(), machine.Event{Name: machine.LeaseEnded, Fence: 1},
		machine.Event{Name: machine.AnswerYes, Fence: 1, Actor: "bob", Detail: "seen in the log"}, delivered)
	require.Equal(t, machine.Done, s.Events[len(s.Events)-1].Name, "it is recorded")
	e := explain.Of(s)
	require.Contains(t, e.Why, "bob said that it happened")
	require.Empty(t, e.Notes)
}
