package calendar

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// said is a decision in short: what fires (late with a '!'), what is missed and skipped.
func said(d Decision) string {
	text := ""
	for _, f := range d.Fire {
		text += f.At.Format("01-02T15:04")
		if f.Late {
			text += "!"
		}
		text += " "
	}
	text += fmt.Sprintf("missed %d", d.Missed.Count)
	if n := d.SkippedBefore.Count + len(d.Skipped); n > 0 {
		text += fmt.Sprintf(" skipped %d", n)
	}
	if d.Waiting {
		text += " waiting"
	}
	return text
}

func spanned(s Span) string {
	return fmt.Sprintf("%d: %s to %s", s.Count, s.First.At.Format(time.RFC3339), s.Last.At.Format(time.RFC3339))
}

func minutely(t require.TestingT, catchUp CatchUp, most int) *Schedule {
	spec := Spec{Cron: "* * * * *", Zone: "UTC", Period: PeriodOccurrence, CatchUp: catchUp}
	if catchUp == CatchUpAll && most > 0 {
		spec.CatchUpMax = &most
	}
	return compile(t, spec)
}

func TestWhatIsDueFiresWithinItsWindow(t *testing.T) {
	t.Parallel()
	s := compile(t, Spec{Cron: "0 9 * * *", Zone: "UTC", Period: PeriodDate, CatchUp: CatchUpNone, Window: new(10 * time.Minute)})
	since := instant(t, "2026-06-01T08:00:00Z")
	for now, want := range map[string]string{
		"2026-06-01T08:59:59Z": "missed 0",
		"2026-06-01T09:00:00Z": "06-01T09:00 missed 0",
		"2026-06-01T09:09:59Z": "06-01T09:00 missed 0",
		"2026-06-01T09:10:00Z": "missed 1",
		"2026-06-03T09:00:00Z": "06-03T09:00 missed 2",
	} {
		d := s.Decide(since, instant(t, now), false)
		require.Equal(t, want, said(d), now)
		require.Equal(t, instant(t, now), d.Through)
	}
	d := s.Decide(since, instant(t, "2026-06-04T08:00:00Z"), false)
	require.Equal(t, "3: 2026-06-01T09:00:00Z to 2026-06-03T09:00:00Z", spanned(d.Missed))
	require.Equal(t, instant(t, "2026-06-04T09:00:00Z"), d.Next)
	require.Equal(t, "missed 0", said(s.Decide(d.Through, d.Through, false)), "what is decided is not decided again")
}

func TestC12SchedulingResumesAfterAnyNumberOfMissedStarts(t *testing.T) {
	t.Parallel()
	since := instant(t, "2026-06-01T12:00:00Z")
	after101 := since.Add(101 * time.Minute)
	require.Equal(t, "06-01T13:41 missed 100", said(minutely(t, CatchUpNone, 0).Decide(since, after101, false)), "the newest is within its window of a minute")
	require.Equal(t, "06-01T13:41 missed 100", said(minutely(t, CatchUpLatest, 0).Decide(since, after101, false)))
	d := minutely(t, CatchUpAll, 5).Decide(since, after101, false)
	require.Equal(t, "06-01T13:36! 06-01T13:37! 06-01T13:38! 06-01T13:39! 06-01T13:40! 06-01T13:41 missed 95", said(d))
	require.Equal(t, "95: 2026-06-01T12:01:00Z to 2026-06-01T13:35:00Z", spanned(d.Missed))

	weekend := instant(t, "2026-06-05T18:00:00Z")
	monday := instant(t, "2026-06-08T08:00:30Z")
	for _, policy := range []CatchUp{CatchUpNone, CatchUpLatest, CatchUpAll} {
		s := minutely(t, policy, 0)
		d := s.Decide(weekend, monday, false)
		require.Equal(t, 62*60, len(d.Fire)+d.Missed.Count, "each is accounted for")
		require.Equal(t, monday, d.Through)
		require.Equal(t, instant(t, "2026-06-08T08:01:00Z"), d.Next, "scheduling resumes")
		next := s.Decide(d.Through, d.Next, false)
		require.Equal(t, "06-08T08:01 missed 0", said(next))
	}
	// A year: 525,600 are counted, and at most 100 made.
	d = minutely(t, CatchUpAll, 0).Decide(since.AddDate(-1, 0, 0), since, false)
	require.Len(t, d.Fire, 101)
	require.Equal(t, 365*24*60-101, d.Missed.Count)
	// With days that are skipped, these are counted too, and those of the last week listed.
	s := compile(t, Spec{Cron: "0 9 * * *", Zone: "UTC", Period: PeriodDate, Holidays: "none", NonBusinessDay: DaySkip})
	d = s.Decide(since.AddDate(-1, 0, 0), since, false)
	require.Equal(t, "06-01T09:00! missed 260 skipped 104", said(d))
	require.Len(t, d.Skipped, 2)
	require.Equal(t, SkipDay, d.Skipped[0].Skip)
	require.Equal(t, "102: 2025-06-07T09:00:00Z to 2026-05-24T09:00:00Z", spanned(d.SkippedBefore), "the others in one")
	d = s.Decide(instant(t, "2026-05-30T12:00:00Z"), instant(t, "2026-06-12T12:00:00Z"), false)
	require.Equal(t, "1: 2026-05-31T09:00:00Z to 2026-05-31T09:00:00Z", spanned(d.SkippedBefore))
}

func TestC13AClockThatJumpsForwardAndBackLeavesNoSilentGapAndNothingRunsTwice(t *testing.T) {
	t.Parallel()
	for _, policy := range []CatchUp{CatchUpNone, CatchUpLatest, CatchUpAll} {
		s := minutely(t, policy, 10)
		fired := map[string]int{} // the ledger: a period is taken once
		runs := 0
		since := instant(t, "2026-06-01T14:59:00Z")
		tick := func(now time.Time) Decision {
			d := s.Decide(since, now, false)
			for _, f := range d.Fire {
				period := s.PeriodOf(f.Occurrence)
				if fired[period]++; fired[period] == 1 {
					runs++
				}
			}
			since = d.Through
			return d
		}
		tick(instant(t, "2026-06-01T15:00:00Z"))
		d := tick(instant(t, "2026-06-01T17:00:00Z"))
		require.Equal(t, 120, len(d.Fire)+d.Missed.Count)
		d = tick(instant(t, "2026-06-01T15:00:30Z"))
		require.True(t, d.ClockWentBack)
		require.Equal(t, instant(t, "2026-06-01T15:01:00Z"), d.Next, "it does not wait until 17:01")
		for now := instant(t, "2026-06-01T15:01:00Z"); !now.After(instant(t, "2026-06-01T17:05:00Z")); now = now.Add(time.Minute) {
			require.False(t, tick(now).ClockWentBack)
		}
		require.Equal(t, 126, runs, "15:00 to 17:05, each once")
		require.Len(t, fired, 126)
		// A laptop that slept for 3 hours.
		d = tick(instant(t, "2026-06-01T20:05:00Z"))
		require.Equal(t, 180, len(d.Fire)+d.Missed.Count)
	}
}

func TestC19AnOverdueOccurrenceIsDecidedAtOnce(t *testing.T) {
	t.Parallel()
	s := compile(t, Spec{Cron: "0 9 * * *", Zone: "UTC", Period: PeriodDate})
	d := s.Decide(instant(t, "2026-06-01T08:00:00Z"), instant(t, "2026-06-01T08:30:00Z"), false)
	wait, ok := d.Wait(instant(t, "2026-06-01T08:30:00Z"))
	require.True(t, ok)
	require.Equal(t, 30*time.Minute, wait)
	wait, ok = d.Wait(instant(t, "2026-06-01T10:00:00Z"))
	require.True(t, ok)
	require.Zero(t, wait, "a loop that wakes late does not wait for a negative time")
	_, ok = (Decision{}).Wait(d.Through)
	require.False(t, ok)
}

func TestMoreThanAHundredInOneWindowFireInSeveralDecisions(t *testing.T) {
	t.Parallel()
	s := compile(t, Spec{Cron: "* * * * *", Zone: "UTC", Period: PeriodOccurrence, Window: new(4 * time.Hour)})
	since, now := instant(t, "2026-06-01T12:00:00Z"), instant(t, "2026-06-01T15:00:00Z")
	d := s.Decide(since, now, false)
	require.Len(t, d.Fire, 100)
	require.Equal(t, since.Add(100*time.Minute), d.Through)
	wait, _ := d.Wait(now)
	require.Zero(t, wait)
	d = s.Decide(d.Through, now, false)
	require.Len(t, d.Fire, 80)
	require.Equal(t, now, d.Through)
}

func TestCatchUpOfOccurrencesThatWereMissed(t *testing.T) {
	t.Parallel()
	daily := func(policy CatchUp, most *int) string {
		s := compile(t, Spec{Cron: "0 9 * * *", Zone: "UTC", Period: PeriodDate, CatchUp: policy, CatchUpMax: most})
		return said(s.Decide(instant(t, "2026-06-01T12:00:00Z"), instant(t, "2026-06-05T12:00:00Z"), false))
	}
	require.Equal(t, "missed 4", daily(CatchUpNone, nil))
	require.Equal(t, "06-05T09:00! missed 3", daily(CatchUpLatest, nil))
	require.Equal(t, daily(CatchUpLatest, nil), daily("", nil), "the default")
	require.Equal(t, "06-02T09:00! 06-03T09:00! 06-04T09:00! 06-05T09:00! missed 0", daily(CatchUpAll, nil))
	require.Equal(t, "06-04T09:00! 06-05T09:00! missed 2", daily(CatchUpAll, new(2)))
}

func TestARunThatIsNotOver(t *testing.T) {
	t.Parallel()
	since := instant(t, "2026-06-01T12:00:00Z")
	at := func(minutes int) time.Time { return since.Add(time.Duration(minutes) * time.Minute) }
	with := func(policy WhileRunning, catchUp CatchUp) *Schedule {
		return compile(t, Spec{Cron: "*/5 * * * *", Zone: "UTC", Period: PeriodOccurrence, WhileRunning: policy, CatchUp: catchUp})
	}
	require.Equal(t, "06-01T12:05 missed 0", said(with(RunAllow, "").Decide(since, at(5), true)))

	d := with(RunSkip, "").Decide(since, at(5), true)
	require.Equal(t, "missed 0 skipped 1", said(d))
	require.Equal(t, SkipRunning, d.Skipped[0].Skip)
	require.Equal(t, at(5), d.Through)
	require.Equal(t, "06-01T12:05 missed 0", said(with(RunSkip, "").Decide(since, at(5), false)))

	wait := with(RunWait, CatchUpLatest)
	d = wait.Decide(since, at(5), true)
	require.Equal(t, "missed 0 waiting", said(d))
	require.Equal(t, at(10), d.Next, "a loop does not spin meanwhile")
	require.Equal(t, "06-01T12:05 missed 0", said(wait.Decide(d.Through, at(5).Add(30*time.Second), false)), "it fires when the other is over")
	require.Equal(t, "06-01T12:05! missed 0", said(wait.Decide(d.Through, at(8), false)), "late, beyond its window")
	d = wait.Decide(d.Through, at(10), true)
	require.Equal(t, "missed 1 waiting", said(d), "a newer one takes its place")
	require.Equal(t, "06-01T12:10! missed 0", said(wait.Decide(d.Through, at(14), false)))
	require.Equal(t, "missed 1", said(with(RunWait, CatchUpNone).Decide(since, at(8), true)), "without catch-up it is missed")

	// With all, one after the other.
	all := with(RunWait, CatchUpAll)
	now, runs := at(17), []string{}
	for cursor := since; ; {
		d := all.Decide(cursor, now, false)
		if len(d.Fire) == 0 {
			break
		}
		runs = append(runs, said(d))
		cursor = d.Through
	}
	require.Equal(t, []string{"06-01T12:05! missed 0 waiting", "06-01T12:10! missed 0 waiting", "06-01T12:15! missed 0"}, runs)
}

// Property: however a loop is called, each occurrence is fired, missed or skipped, and
// each once.
func TestEveryOccurrenceIsAccountedForOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawSchedule(t)
		s.window = time.Duration(rapid.IntRange(1, 100_000).Draw(t, "window")) * time.Second
		s.catchUp = rapid.SampledFrom([]CatchUp{CatchUpNone, CatchUpLatest, CatchUpAll}).Draw(t, "catch up")
		s.catchUpMax = rapid.IntRange(1, 10).Draw(t, "most")
		s.running = rapid.SampledFrom([]WhileRunning{RunAllow, RunWait}).Draw(t, "while running")
		start := time.Unix(rapid.Int64Range(instant(t, "2026-03-01T00:00:00Z").Unix(), instant(t, "2026-11-01T00:00:00Z").Unix()).Draw(t, "start"), 0).UTC()
		since, now := start, start
		fired, missed, skipped := []time.Time{}, 0, 0
		for range rapid.IntRange(1, 10).Draw(t, "calls") {
			now = now.Add(time.Duration(rapid.IntRange(0, 200_000).Draw(t, "seconds")) * time.Second)
			for again := true; again; {
				d := s.Decide(since, now, rapid.Bool().Draw(t, "running"))
				require.False(t, d.Through.After(now))
				for _, f := range d.Fire {
					require.Equal(t, f.Late, !f.At.After(now.Add(-s.window)))
					fired = append(fired, f.At)
				}
				missed, skipped = missed+d.Missed.Count, skipped+d.SkippedBefore.Count+len(d.Skipped)
				if before := d.SkippedBefore; before.Count > 0 {
					require.True(t, before.First.Skip != "" && before.Last.Skip != "")
					require.False(t, before.Last.At.Before(before.First.At))
					require.True(t, len(d.Skipped) == 0 || !before.Last.At.After(d.Skipped[0].At))
				}
				since, again = d.Through, len(d.Fire) > 0 && d.Through.Before(now)
				if !d.Next.IsZero() && d.Through.Equal(now) {
					require.True(t, d.Next.After(now))
				}
			}
		}
		require.True(t, slices.IsSortedFunc(fired, time.Time.Compare))
		for i := 1; i < len(fired); i++ {
			require.NotEqual(t, fired[i-1], fired[i])
		}
		fire, skip := s.count(start, since)
		require.Equal(t, fire, len(fired)+missed)
		require.Equal(t, skip, skipped)
	})
}
