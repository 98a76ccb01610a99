package main

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/pkg/job"
)

var start = time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)

func after(seconds float64) time.Time {
	return start.Add(time.Duration(seconds * float64(time.Second)))
}

// story is the evidence of one job of the kind plain, a, which was enqueued, sent and
// delivered; each test changes it.
func story() evidence {
	return evidence{
		journal: []entry{{Key: effectKey(plain, "a", 1), Kind: plain, Attempt: "1", Nth: 1, Began: after(2), At: after(2.1), Acted: true, Does: acts}},
		generations: []generation{
			{Job: 1, Kind: plain, Key: "a", Generation: 1, Current: true, State: job.Delivered, Attempt: 1, Receipt: true, Leases: 1},
		},
		requests: []request{
			{Verb: enqueues, Kind: plain, Key: "a", Called: after(1), Answered: after(1.1), As: ok, Created: true},
			{Verb: reads, Kind: plain, Key: "a", Called: after(9), Answered: after(9.1), As: ok, Generation: 1, State: job.Delivered},
		},
		workers: map[string]owner{"w-1": {name: "worker5"}, "w-2": {name: "worker6"}},
	}
}

// A check that finds nothing proves something only if it finds what is there.
func TestTheCheckerFindsWhatIsThere(t *testing.T) {
	t.Parallel()
	require.Empty(t, story().check())
	sent := func(e *evidence) *entry { return &e.journal[0] }
	row := func(e *evidence) *generation { return &e.generations[0] }
	for name, c := range map[string]struct {
		change func(*evidence)
		want   []string
	}{
		"an acknowledged job is nowhere": {func(e *evidence) { e.generations, e.journal, e.requests = nil, nil, e.requests[:1] }, []string{lost}},
		"an acknowledged job is there twice": {func(e *evidence) {
			second := *row(e)
			second.Job, second.Kind = 2, plain
			e.generations = append(e.generations, second)
		}, []string{lost, duplicate}},
		"a job is there that was refused": {func(e *evidence) { e.requests[0].As = failed }, []string{disagrees, disordered}},
		"a job never ends": {func(e *evidence) {
			row(e).State, e.journal, e.requests[1].State = job.Ready, nil, job.Ready
		}, []string{stuck}},
		"an effect happens twice": {func(e *evidence) {
			again := *sent(e)
			again.Nth, again.Began, again.At = 2, after(3), after(3.1)
			e.journal = append(e.journal, again)
		}, []string{duplicate, disordered}},
		"a generation repeats what its predecessor did": {func(e *evidence) {
			old := *row(e)
			old.Current, old.State = false, job.Quarantined
			row(e).Generation, e.requests[1].Generation = 2, 2
			e.generations = append(e.generations, old)
			e.redrives = []redriven{{plain, "a", 1, 2, after(4)}}
			e.requests = append(e.requests, request{Verb: redrives, Kind: plain, Key: "a", Generation: 1, Successor: 2, Called: after(3.9), Answered: after(4.1), As: ok})
			again := *sent(e)
			again.Key, again.Began, again.At = effectKey(plain, "a", 2), after(5), after(5.1)
			e.journal = append(e.journal, again)
		}, []string{dishonest, duplicate, disordered}},
		"an old generation is sent behind its redrive": {func(e *evidence) {
			old := *row(e)
			old.Current, old.State = false, job.Quarantined
			row(e).Generation, e.requests[1].Generation = 2, 2
			e.generations = append(e.generations, old)
			e.redrives = []redriven{{plain, "a", 1, 2, after(1.5)}}
			e.requests = append(e.requests, request{Verb: redrives, Kind: plain, Key: "a", Generation: 1, Successor: 2, Called: after(1.4), Answered: after(1.6), As: ok})
			sent(e).Key = effectKey(plain, "a", 2)
			e.journal = append(e.journal, entry{Key: effectKey(plain, "a", 1), Attempt: "1", Began: after(2), At: after(2.1), Does: throttles})
		}, []string{stale}},
		"what is delivered has not happened": {func(e *evidence) { sent(e).Acted = false }, []string{dishonest, disordered}},
		"what is quarantined has happened": {func(e *evidence) {
			row(e).State, e.requests[1].State = job.Quarantined, job.Quarantined
		}, []string{dishonest, disordered}},
		"what is cancelled has happened": {func(e *evidence) {
			row(e).State, e.requests[1].State = job.Cancelled, job.Cancelled
		}, []string{dishonest, disordered}},
		"what was cancelled is sent": {func(e *evidence) {
			e.requests = append(e.requests[:1:1], request{Verb: cancels, Kind: plain, Key: "a", Called: after(1.2), Answered: after(1.3), As: ok, State: job.Cancelled})
			row(e).State = job.Unknown
		}, []string{disordered}},
		"an effect begins behind its deadline": {func(e *evidence) {
			deadline := after(1.5)
			row(e).Deadline = &deadline
		}, []string{late}},
		"an attempt is uncounted": {func(e *evidence) { row(e).Leases = 2 }, []string{disagrees}},
		"an effect is of no job": {func(e *evidence) {
			e.journal = append(e.journal, entry{Key: effectKey(plain, "b", 1), Acted: true, Began: after(3), At: after(3.1), Does: acts})
		}, []string{disagrees}},
		"a job that was delivered is ready again": {func(e *evidence) {
			e.requests = append(e.requests, request{Verb: reads, Kind: plain, Key: "a", Called: after(10), Answered: after(10.1), As: ok, Generation: 1, State: job.Ready})
		}, []string{disordered}},
		"a job is seen before it was asked for": {func(e *evidence) {
			e.requests[1].Called, e.requests[1].Answered = after(0), after(0.5)
		}, []string{disordered}},
		"an outcome is unknown for no reason": {func(e *evidence) {
			e.doubts = []doubt{{Kind: plain, Key: "a", Generation: 1, Attempt: 1, Name: "may_be_done", Worker: "w-1", Leased: after(1.9), At: after(5)}}
		}, []string{unexplained}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := story()
			c.change(&e)
			var got []string
			for _, v := range e.check() {
				got = append(got, v.what)
			}
			require.ElementsMatch(t, c.want, unique(got), "%v", e.check())
		})
	}
}

func unique(all []string) (once []string) {
	seen := map[string]bool{}
	for _, s := range all {
		if !seen[s] {
			once = append(once, s)
		}
		seen[s] = true
	}
	return once
}

// A reason is one that was injected, for that attempt or while it ran.
func TestADoubtIsExplainedByWhatWasBrokenWhileItRan(t *testing.T) {
	t.Parallel()
	e := story()
	e.doubts = []doubt{{Kind: plain, Key: "a", Generation: 1, Attempt: 1, Name: "may_be_done", Worker: "w-1", Leased: after(100), At: after(105)}}
	during := func(fault, target string, from, to float64) []incident {
		return []incident{{Fault: fault, Target: target, From: after(from), To: after(to), Struck: true}}
	}
	for name, c := range map[string]struct {
		incidents []incident
		explained bool
	}{
		"its worker was killed":             {during("kill-worker", "worker5", 102, 103), true},
		"another worker was killed":         {during("kill-worker", "worker6", 102, 103), false},
		"its worker was killed long before": {during("kill-worker", "worker5", 50, 51), false},
		"and afterwards":                    {during("kill-worker", "worker5", 106, 107), false},
		"the ledger was restarted":          {during("restart-database", "postgres", 101, 102), true},
		"its network was cut":               {during("cut-network", "worker5 to ledger", 95, 97), true},
		"the bus was wiped":                 {during("wipe-broker", "broker", 101, 102), false},
	} {
		e.incidents = c.incidents
		require.Equal(t, c.explained, len(e.unexplained()) == 0, name)
	}
	e.incidents = nil
	e.journal[0].Does = actsCloses
	require.Empty(t, e.unexplained(), "the receiver closed the connection")
	e.journal[0].Attempt = "2"
	require.Len(t, e.unexplained(), 1, "of another attempt")
}

func TestARequestThatNobodyAnsweredMayHaveHappenedOrNot(t *testing.T) {
	t.Parallel()
	e := story()
	e.requests[0].As = unclear
	require.Empty(t, e.check(), "it has happened")
	e.requests, e.generations, e.journal = e.requests[:1], nil, nil
	require.Empty(t, e.check(), "it has not")
}

func TestRecoveriesAreThoseThatNothingElseDisturbed(t *testing.T) {
	t.Parallel()
	e := story()
	e.workers["w-1"] = owner{"worker5", life{Ended: after(10)}}
	e.doubts = []doubt{
		{Name: "lease_ended", Worker: "w-1", Leased: after(9), At: after(17)},
		{Name: "lease_ended", Worker: "w-2", Leased: after(9), At: after(18)}, // another's
		{Name: "may_be_done", Worker: "w-1", Leased: after(5), At: after(9)},  // before
	}
	e.incidents = []incident{{Fault: "kill-worker", Target: "worker5", From: after(10), To: after(12), Struck: true}}
	alone, too := e.recoveries()
	require.Equal(t, []time.Duration{7 * time.Second}, alone)
	require.Empty(t, too)
	e.incidents = append(e.incidents, incident{Fault: "pause-scheduler", Target: "scheduler1", From: after(12), To: after(15)})
	alone, _ = e.recoveries()
	require.Empty(t, alone)
	require.Equal(t, 7*time.Second, percentile([]time.Duration{7 * time.Second, time.Second}, 99))
	require.Error(t, inTime("somebody", []time.Duration{time.Minute}, time.Second))
	require.NoError(t, inTime("nobody", nil, time.Second))
}

func TestAFaultThatNeverStruckFailsTheWhole(t *testing.T) {
	t.Parallel()
	o, err := parseOptions([]string{"--runs", "1", "--bus", "nats", "--faults", "kill-worker,cut-network"})
	require.NoError(t, err)
	r := outcome{plan: o.plans()[0], incidents: []incident{{Fault: "kill-worker", Struck: true}, {Fault: "cut-network"}}}
	err = conclude(o, []outcome{r}, t.Output())
	require.ErrorContains(t, err, "cut-network was asked for and never struck")
	require.NotContains(t, err.Error(), "kill-worker")
	r.incidents[1].Struck = true
	require.NoError(t, conclude(o, []outcome{r}, t.Output()))
	r.violations = []violation{{lost, "everything"}}
	require.ErrorContains(t, conclude(o, []outcome{r}, t.Output()), "lost: everything")
}

func TestEveryFaultIsAskedForOverTenRuns(t *testing.T) {
	t.Parallel()
	o, err := parseOptions(nil)
	require.NoError(t, err)
	require.Len(t, asked(o), len(allFaults))
	for _, p := range o.plans() {
		if p.bus == busKafka {
			for _, f := range p.faults {
				require.NotEqual(t, "fill-broker", f.name)
			}
		}
	}
	for _, args := range [][]string{{"--faults", "earthquake"}, {"--bus", "pigeon"}, {"--runs", "0"}} {
		_, err := parseOptions(args)
		require.Error(t, err)
	}
}

// What a receiver does follows from the seed, and over many keys it does everything.
func TestAReceiverDoesTheSameInEveryRunOfASeed(t *testing.T) {
	t.Parallel()
	does := map[conduct]int{}
	for n := range 2000 {
		key := effectKey(plain, strconv.Itoa(n), 1)
		once, again := decide(7, key, 1), decide(7, key, 1)
		require.Equal(t, once, again)
		does[once]++
	}
	for _, c := range []conduct{acts, actsCloses, actsFails, actsLate, closes, throttles, refuses} {
		require.Positive(t, does[c], c)
	}
	require.Greater(t, does[acts], 1400)
	require.Equal(t, actsSlowly, decide(7, effectKey(deduped, rateMark+"x", 1), 1))
}

func TestTheReportSaysWhatWasFound(t *testing.T) {
	t.Parallel()
	o, err := parseOptions([]string{"--runs", "1", "--bus", "nats"})
	require.NoError(t, err)
	r := outcome{
		plan: o.plans()[0], violations: []violation{{duplicate, "a|b"}}, incidents: []incident{{Fault: "kill-worker", Struck: true}},
		requests: map[answered]int{ok: 3}, states: map[string]int{"delivered": 2}, undisturbed: 100, back: 90, alone: []time.Duration{time.Second},
	}
	page := markdown(o, []outcome{r})
	for _, want := range []string{"**1 anomalies**", "- run 1: duplicate: a\\|b", "| kill-worker |", "| 1 | 1 |\n", "2 delivered", "90 %"} {
		require.Contains(t, page, want)
	}
}
