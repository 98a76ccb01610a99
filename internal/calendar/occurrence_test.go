package calendar

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// compile makes a schedule whose business days, where it names any, are those of
// testBusiness.
func compile(t require.TestingT, spec Spec) *Schedule {
	s, err := tryCompile(spec)
	require.NoError(t, err)
	return s
}

func tryCompile(spec Spec) (*Schedule, error) {
	switch spec.Holidays {
	case "":
		return Compile(spec, nil)
	case "none":
		b, _ := NewBusiness([]Weekday{Weekday(time.Saturday), Weekday(time.Sunday)})
		return Compile(spec, b)
	}
	return Compile(spec, testBusiness())
}

// testBusiness has Saturdays, Sundays and some days off.
func testBusiness() *Business {
	off := map[string]string{
		"2026-01-01": "New Year", "2026-04-03": "Good Friday", "2026-04-06": "Easter Monday", "2026-05-01": "May Day",
		"2026-12-24": "Closed", "2026-12-25": "Christmas", "2026-12-31": "Closed",
	}
	b, err := NewBusiness([]Weekday{Weekday(time.Saturday), Weekday(time.Sunday)}, func(d Date) string { return off[d.String()] })
	if err != nil {
		panic(err)
	}
	return b
}

func instant(t require.TestingT, text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return at.UTC()
}

// list are n occurrences after an instant: the instant, the period, and the note.
func list(t require.TestingT, s *Schedule, after string, n int) []string {
	var all []string
	for o := range s.All(instant(t, after)) {
		line := o.At.Format(time.RFC3339) + " " + s.PeriodOf(o)
		if note := s.Note(o); note != "" {
			line += " | " + note
		}
		if all = append(all, line); len(all) == n {
			break
		}
	}
	return all
}

func TestC01NothingIsLeftOutWhenClocksGoForward(t *testing.T) {
	t.Parallel()
	s := compile(t, Spec{Cron: "0 2 * * *", Zone: "America/Los_Angeles", Period: PeriodDate})
	require.Equal(t, []string{
		"2025-03-09T10:00:00Z 2025-03-09 | gap: the clocks leave 02:00 out; the first valid instant",
		"2025-03-10T09:00:00Z 2025-03-10",
	}, list(t, s, "2025-03-08T20:00:00Z", 2))
}

func TestC02WallTimesFireOnceADay(t *testing.T) {
	t.Parallel()
	autumn := compile(t, Spec{Cron: "30 1 * * *", Zone: "America/New_York", Period: PeriodDate})
	require.Equal(t, []string{
		"2026-11-01T05:30:00Z 2026-11-01 | overlap: the first of two 01:30",
		"2026-11-02T06:30:00Z 2026-11-02",
	}, list(t, autumn, "2026-11-01T04:58:00Z", 2))
	spring := compile(t, Spec{Cron: "30 2 * * *", Zone: "America/New_York", Period: PeriodDate})
	require.Equal(t, []string{
		"2026-03-08T07:00:00Z 2026-03-08 | gap: the clocks leave 02:30 out; the first valid instant",
		"2026-03-09T06:30:00Z 2026-03-09",
	}, list(t, spring, "2026-03-08T04:59:00Z", 2))
}

func TestC20GapAndOverlapHaveADefaultAndEveryOption(t *testing.T) {
	t.Parallel()
	gap := func(rule Gap) []string {
		return list(t, compile(t, Spec{Cron: "30 2 * * *", Zone: "Europe/Paris", Gap: rule, Period: PeriodDate}), "2026-03-28T12:00:00Z", 2)
	}
	require.Equal(t, []string{"2026-03-29T01:00:00Z 2026-03-29 | gap: the clocks leave 02:30 out; the first valid instant", "2026-03-30T00:30:00Z 2026-03-30"}, gap(""))
	require.Equal(t, gap(""), gap(GapFirst))
	require.Equal(t, []string{"2026-03-29T01:30:00Z 2026-03-29 | gap: the clocks leave 02:30 out; put off by the jump", "2026-03-30T00:30:00Z 2026-03-30"}, gap(GapShift))
	require.Equal(t, []string{"2026-03-29T01:00:00Z 2026-03-29 | skipped (gap): the clocks leave 02:30 out", "2026-03-30T00:30:00Z 2026-03-30"}, gap(GapSkip))

	overlap := func(rule Overlap, period Period) []string {
		return list(t, compile(t, Spec{Cron: "30 2 * * *", Zone: "Europe/Paris", Overlap: rule, Period: period}), "2026-10-24T12:00:00Z", 2)
	}
	require.Equal(t, []string{"2026-10-25T00:30:00Z 2026-10-25 | overlap: the first of two 02:30", "2026-10-26T01:30:00Z 2026-10-26"}, overlap("", PeriodDate))
	require.Equal(t, overlap("", PeriodDate), overlap(OverlapFirst, PeriodDate))
	require.Equal(t, []string{"2026-10-25T01:30:00Z 2026-10-25 | overlap: the second 02:30", "2026-10-26T01:30:00Z 2026-10-26"}, overlap(OverlapSecond, PeriodDate))
	require.Equal(t, []string{"2026-10-25T00:30:00Z 2026-10-25T02+02 | overlap: the first of two 02:30", "2026-10-25T01:30:00Z 2026-10-25T02+01 | overlap: the second 02:30"}, overlap(OverlapBoth, PeriodHour))
}

func TestWildcardsGoByElapsedTime(t *testing.T) {
	t.Parallel()
	hourly := Spec{Cron: "30 * * * *", Zone: "America/New_York", Period: PeriodHour}
	require.Equal(t, []string{"2026-03-08T06:30:00Z 2026-03-08T01-05", "2026-03-08T07:30:00Z 2026-03-08T03-04"},
		list(t, compile(t, hourly), "2026-03-08T06:00:00Z", 2), "nothing is left out: an hour after 01:30 it is 03:30")
	require.Equal(t, []string{
		"2026-11-01T04:30:00Z 2026-11-01T00-04", "2026-11-01T05:30:00Z 2026-11-01T01-04 | overlap: the first of two 01:30",
		"2026-11-01T06:30:00Z 2026-11-01T01-05 | overlap: the second 01:30", "2026-11-01T07:30:00Z 2026-11-01T02-05",
	}, list(t, compile(t, hourly), "2026-11-01T04:00:00Z", 4))
	once := hourly
	once.Gap, once.Overlap = GapFirst, OverlapSecond
	require.Equal(t, []string{
		"2026-03-08T06:30:00Z 2026-03-08T01-05", "2026-03-08T07:00:00Z 2026-03-08T02-04 | gap: the clocks leave 02:30 out; the first valid instant",
		"2026-03-08T07:30:00Z 2026-03-08T03-04",
	}, list(t, compile(t, once), "2026-03-08T06:00:00Z", 3))
	require.Equal(t, []string{"2026-11-01T04:30:00Z 2026-11-01T00-04", "2026-11-01T06:30:00Z 2026-11-01T01-05 | overlap: the second 01:30"},
		list(t, compile(t, once), "2026-11-01T04:00:00Z", 2))
	// A list of all hours is fixed times: it says when, not how often.
	fixed := Spec{Cron: "30 0-23 * * *", Zone: "America/New_York", Period: PeriodHour}
	require.Equal(t, []string{"2026-11-01T05:30:00Z 2026-11-01T01-04 | overlap: the first of two 01:30", "2026-11-01T07:30:00Z 2026-11-01T02-05"},
		list(t, compile(t, fixed), "2026-11-01T05:00:00Z", 2))
}

func TestTimesThatAGapPushesTogetherFireOnce(t *testing.T) {
	t.Parallel()
	s := compile(t, Spec{Cron: "0,30 2,3 * * *", Zone: "America/New_York", Period: PeriodOccurrence})
	require.Equal(t, []string{
		"2026-03-08T07:00:00Z 2026-03-08T07:00:00Z",
		"2026-03-08T07:00:00Z 2026-03-08T07:00:00Z | gap: the clocks leave 02:00 out; the first valid instant; skipped (merged): another fires at this instant",
		"2026-03-08T07:00:00Z 2026-03-08T07:00:00Z | gap: the clocks leave 02:30 out; the first valid instant; skipped (merged): another fires at this instant",
		"2026-03-08T07:30:00Z 2026-03-08T07:30:00Z",
		"2026-03-09T06:00:00Z 2026-03-09T06:00:00Z",
	}, list(t, s, "2026-03-08T05:00:00Z", 5))
}

func TestADayThatAZoneLeftOutFiresAtTheNextOnesBeginning(t *testing.T) {
	t.Parallel()
	s := compile(t, Spec{Cron: "0 12 * * *", Zone: "Pacific/Apia", Period: PeriodDate})
	require.Equal(t, []string{
		"2011-12-29T22:00:00Z 2011-12-29",
		"2011-12-30T10:00:00Z 2011-12-30 | gap: the clocks leave 12:00 out; the first valid instant",
		"2011-12-30T22:00:00Z 2011-12-31",
	}, list(t, s, "2011-12-29T00:00:00Z", 3))
}

func TestIntervalsGoByElapsedTime(t *testing.T) {
	t.Parallel()
	every := func(d time.Duration, anchor string) *Schedule {
		return compile(t, Spec{Every: &d, Anchor: anchor, Zone: "Europe/Paris", Period: PeriodOccurrence})
	}
	require.Equal(t, []string{
		"2026-03-28T23:30:00Z 2026-03-28T23:30:00Z", "2026-03-29T01:00:00Z 2026-03-29T01:00:00Z", "2026-03-29T02:30:00Z 2026-03-29T02:30:00Z",
	}, list(t, every(90*time.Minute, "2026-03-29T00:30:00"), "2026-03-28T23:29:59Z", 3))
	require.Equal(t, []string{"2026-10-25T00:30:00Z 2026-10-25T00:30:00Z | overlap: the first of two 02:30", "2026-10-25T01:30:00Z 2026-10-25T01:30:00Z | overlap: the second 02:30"},
		list(t, every(time.Hour, "2026-01-01T00:30:00"), "2026-10-24T23:30:00Z", 2))
	require.Equal(t, []string{"2026-07-01T22:00:00Z 2026-07-01T22:00:00Z"}, list(t, every(24*time.Hour, "2026-07-01T00:00"), "2026-06-30T22:00:00Z", 1), "what comes is strictly later")
	before := every(time.Hour, "2030-01-01T00:00:00")
	require.Equal(t, []string{"2026-01-01T00:00:00Z 2026-01-01T00:00:00Z"}, list(t, before, "2025-12-31T23:30:00Z", 1), "an anchor may lie in the future")
	withoutAnchor := compile(t, Spec{Every: new(time.Hour), Zone: "Asia/Kolkata", Period: PeriodHour})
	require.Equal(t, []string{"2026-01-01T00:30:00Z 2026-01-01T06+0530"}, list(t, withoutAnchor, "2026-01-01T00:00:00Z", 1), "whole hours of the zone")
}

func TestBusinessDays(t *testing.T) {
	t.Parallel()
	at := []Clock{9 * 60}
	numbered := func(days ...BusinessDay) []string {
		return list(t, compile(t, Spec{BusinessDays: days, At: at, Zone: "UTC", Holidays: "test", Period: PeriodDate}), "2026-01-01T00:00:00Z", 3)
	}
	require.Equal(t, []string{"2026-01-06T09:00:00Z 2026-01-06", "2026-02-04T09:00:00Z 2026-02-04", "2026-03-04T09:00:00Z 2026-03-04"}, numbered(3))
	require.Equal(t, []string{"2026-01-30T09:00:00Z 2026-01-30", "2026-02-27T09:00:00Z 2026-02-27", "2026-03-31T09:00:00Z 2026-03-31"}, numbered(-1))
	require.Equal(t, []string{"2026-01-02T09:00:00Z 2026-01-02", "2026-01-29T09:00:00Z 2026-01-29", "2026-02-02T09:00:00Z 2026-02-02"}, numbered(1, -2))
	require.Equal(t, []string{"2026-07-31T09:00:00Z 2026-07-31", "2026-12-31T09:00:00Z 2026-12-31"},
		list(t, compile(t, Spec{BusinessDays: []BusinessDay{23}, At: at, Zone: "UTC", Holidays: "none", Period: PeriodDate}), "2026-07-02T09:00:00Z", 2),
		"a month without so many is passed over")
}

func TestDaysThatAreNoBusinessDaysAreMovedOrSkipped(t *testing.T) {
	t.Parallel()
	rule := func(cron string, rule NonBusinessDay, period Period, after string, n int) []string {
		return list(t, compile(t, Spec{Cron: cron, Zone: "UTC", Holidays: "test", NonBusinessDay: rule, Period: period}), after, n)
	}
	require.Equal(t, []string{
		"2026-07-01T09:00:00Z 2026-07", "2026-07-31T09:00:00Z 2026-08 | moved from Sat 2026-08-01: Saturday", "2026-09-01T09:00:00Z 2026-09",
	}, rule("0 9 1 * *", DayPrevious, PeriodMonth, "2026-06-30T00:00:00Z", 3), "what is moved keeps its month")
	require.Equal(t, []string{
		"2026-07-01T09:00:00Z 2026-07", "2026-08-03T09:00:00Z 2026-08 | moved from Sat 2026-08-01: Saturday", "2026-09-01T09:00:00Z 2026-09",
	}, rule("0 9 1 * *", DayNext, PeriodMonth, "2026-06-30T00:00:00Z", 3))
	require.Equal(t, []string{
		"2026-04-02T09:00:00Z 2026-04-04 | moved from Sat 2026-04-04: Saturday", "2026-05-04T09:00:00Z 2026-05-04",
	}, rule("0 9 4 * *", DayPrevious, PeriodDate, "2026-03-31T00:00:00Z", 2), "over Good Friday")
	require.Equal(t, []string{
		"2026-04-07T09:00:00Z 2026-04-03 | moved from Fri 2026-04-03: Good Friday",
	}, rule("0 9 3 4 *", DayNext, PeriodDate, "2026-03-31T00:00:00Z", 1), "over Easter")
	require.Equal(t, []string{
		"2026-04-03T09:00:00Z 2026-04-03 | skipped (no business day): Good Friday", "2026-04-10T09:00:00Z 2026-04-10",
	}, rule("0 9 * * FRI", DaySkip, PeriodDate, "2026-04-01T00:00:00Z", 2))
	require.Equal(t, []string{
		"2026-04-02T09:00:00Z 2026-04-02",
		"2026-04-02T09:00:00Z 2026-04-03 | moved from Fri 2026-04-03: Good Friday; skipped (merged): another fires at this instant",
		"2026-04-02T09:00:00Z 2026-04-04 | moved from Sat 2026-04-04: Saturday; skipped (merged): another fires at this instant",
	}, rule("0 9 * * *", DayPrevious, PeriodDate, "2026-04-01T12:00:00Z", 3), "days that move onto another fire once")
}

// bruteForce walks minute by minute and asks the naive reading what the clocks show:
// what an expression with '*' in minute or hour means.
func bruteForce(expr string, z *Zone, after, until time.Time) (all []time.Time) {
	for at := after.Truncate(time.Minute).Add(time.Minute); !at.After(until); at = at.Add(time.Minute) {
		local := at.In(z.Location())
		if local.Second() == 0 && naive(expr, time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), 0, 0, time.UTC)) {
			all = append(all, at)
		}
	}
	return all
}

// Property: what fires by elapsed time is what a walk over all minutes finds, at jumps
// and far from them; and fixed times, where no clock jumps, are the same.
func TestOccurrencesAgreeWithAMinuteWalk(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		z, expr := drawZone(t), drawCron(t)
		at := time.Unix(rapid.Int64Range(instant(t, "1985-01-01T00:00:00Z").Unix(), instant(t, "2080-01-01T00:00:00Z").Unix()).Draw(t, "at"), 0).UTC()
		if _, end := period(at, z); !end.IsZero() && rapid.Bool().Draw(t, "near a jump") {
			at = end
		}
		after, until := at.Add(-36*time.Hour), at.Add(36*time.Hour)
		want := bruteForce(expr, z, after, until)
		check := func(spec Spec) {
			spec.Cron, spec.Zone, spec.Period = expr, z.Name(), PeriodOccurrence
			s := compile(t, spec)
			var got []time.Time
			for o := range s.All(after) {
				if o.At.After(until) {
					break
				}
				if o.Skip == "" {
					got = append(got, o.At)
				}
			}
			require.Equal(t, want, got, "%s in %s after %s", expr, z, after)
		}
		check(Spec{Gap: GapSkip, Overlap: OverlapBoth})
		jumps := false
		for range Jumps(z, after.Add(-settled), until.Add(settled)) {
			jumps = true
		}
		if !jumps {
			check(Spec{})
		}
	})
}

// drawSchedule draws schedules of all sorts, such as have many occurrences and few.
func drawSchedule(t *rapid.T) *Schedule {
	return rapid.Custom(func(t *rapid.T) *Schedule {
		s, err := tryCompile(drawSpec(t))
		if err != nil {
			require.ErrorContains(t, err, "never fires")
		}
		return s
	}).Filter(func(s *Schedule) bool { return s != nil }).Draw(t, "schedule")
}

func drawSpec(t *rapid.T) Spec {
	spec := Spec{Period: PeriodOccurrence}
	spec.Zone = rapid.SampledFrom([]string{"Europe/Paris", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kolkata", "America/St_Johns"}).Draw(t, "zone")
	switch rapid.IntRange(0, 2).Draw(t, "sort") {
	case 0:
		spec.Every = new(time.Duration(rapid.IntRange(1000, 1_000_000).Draw(t, "every")) * time.Second)
		return spec
	case 1:
		spec.BusinessDays = []BusinessDay{BusinessDay(rapid.IntRange(1, 5).Draw(t, "number")), -1}
		spec.At = []Clock{Clock(rapid.IntRange(0, 1439).Draw(t, "at"))}
		spec.Holidays = "test"
	case 2:
		spec.Cron = drawCron(t)
		if rapid.Bool().Draw(t, "holidays") {
			spec.Holidays = "test"
			spec.NonBusinessDay = rapid.SampledFrom([]NonBusinessDay{DaySkip, DayPrevious, DayNext}).Draw(t, "rule")
			if parsed(t, spec.Cron).Wildcard() {
				spec.NonBusinessDay = DaySkip
			}
		}
	}
	spec.Gap = rapid.SampledFrom([]Gap{"", GapFirst, GapSkip, GapShift}).Draw(t, "gap")
	spec.Overlap = rapid.SampledFrom([]Overlap{"", OverlapFirst, OverlapSecond, OverlapBoth}).Draw(t, "overlap")
	return spec
}

// Property: counting and walking back find what walking on finds, in order, each
// instant once.
func TestCountingAndWalkingBackAgreeWithWalkingOn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawSchedule(t)
		after := time.Unix(rapid.Int64Range(instant(t, "2011-12-01T00:00:00Z").Unix(), instant(t, "2012-01-30T00:00:00Z").Unix()).Draw(t, "after"), 0).UTC()
		if rapid.Bool().Draw(t, "later") {
			after = after.AddDate(14, rapid.IntRange(0, 36).Draw(t, "months"), 0)
		}
		until := after.Add(time.Duration(rapid.IntRange(0, 40*86400).Draw(t, "seconds")) * time.Second)
		var all, firing []Occurrence
		for o := range s.All(after) {
			if o.At.After(until) {
				break
			}
			require.True(t, o.At.After(after))
			all = append(all, o)
			if o.Skip == "" {
				firing = append(firing, o)
			}
		}
		require.True(t, slices.IsSortedFunc(all, func(a, b Occurrence) int { return a.At.Compare(b.At) }))
		for i := 1; i < len(firing); i++ {
			require.True(t, firing[i].At.After(firing[i-1].At), "one fires an instant")
		}
		fire, skip := s.count(after, until)
		require.Equal(t, len(firing), fire, "%s from %s to %s", s, after, until)
		require.Equal(t, len(all)-len(firing), skip)
		n := rapid.IntRange(0, 5).Draw(t, "n")
		require.Empty(t, cmp.Diff(firing[max(0, len(firing)-n):], s.newest(n, after, until, fires), cmpopts.EquateEmpty(), cmp.AllowUnexported(Local{})))
		if len(firing) > 0 {
			next, ok := s.Next(after)
			require.True(t, ok)
			require.Equal(t, firing[0], next)
		}
	})
}

// Property: far from jumps a reader answers what the slow way answers.
func TestTheFastReadingOfWallTimesIsTheSlowOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		z := drawZone(t)
		r := reader{zone: z}
		wall := drawNearJump(t, z)
		for range 20 {
			require.Equal(t, Local{wall}.read(z), r.read(Local{wall}))
			wall = wall.Add(time.Duration(rapid.Int64Range(-5*86400, 5*86400).Draw(t, "on")) * time.Second)
		}
	})
}

func TestScheduleThatEndsWithTheYears(t *testing.T) {
	t.Parallel()
	s := compile(t, Spec{Cron: "0 0 1 1 *", Zone: "UTC", Period: PeriodDate})
	_, ok := s.Next(instant(t, "2199-12-31T00:00:00Z"))
	require.True(t, ok)
	_, ok = s.Next(instant(t, "2200-01-01T00:00:00Z"))
	require.False(t, ok)
	_, ok = s.Next(instant(t, "2300-01-01T00:00:00Z"))
	require.False(t, ok)
}

func TestC08ZonesAreResolvedAndKeptAsGiven(t *testing.T) {
	t.Parallel()
	for given, canonical := range map[string]string{
		"Asia/Calcutta": "Asia/Kolkata", "US/Pacific": "America/Los_Angeles", "EST5EDT": "EST5EDT", "Asia/Katmandu": "Asia/Kathmandu",
	} {
		s := compile(t, Spec{Cron: "0 9 * * *", Zone: given, Period: PeriodDate})
		require.Equal(t, canonical, s.Zone().Name())
		require.Equal(t, given, s.Zone().Given())
	}
	for _, given := range []string{"", "Local", "Mars/X"} {
		_, err := Compile(Spec{Cron: "0 9 * * *", Zone: given, Period: PeriodDate}, nil)
		require.ErrorContains(t, err, "IANA time zone such as Europe/Paris", "%q", given)
	}
}

func TestEverythingThatIsWrongWithAScheduleIsToldAtOnce(t *testing.T) {
	t.Parallel()
	_, err := Compile(Spec{
		Cron: "61 * * * *", Every: new(time.Millisecond), Anchor: "noon", BusinessDays: []BusinessDay{1}, Zone: "Mars/X", Clock: "wall", EarliestZone: "UTC",
		Gap: "both", Overlap: "none", NonBusinessDay: "never", Period: "year", Window: new(time.Duration(0)), CatchUp: "some", CatchUpMax: new(0), WhileRunning: "stop",
	}, nil)
	require.Equal(t, []string{
		`zone "Mars/X": it must be an IANA time zone such as Europe/Paris`,
		`clock "wall": it must be one of schedule, recipient`,
		`earliest_zone "UTC": it is for clock: recipient; all others open by their own zone`,
		`cron: exactly one of cron, every and business_days must say when`,
		`cron "61 * * * *": minute "61": it must be between 0 and 59`,
		`every: it must be between 1s and 400d, in whole seconds`,
		`holidays: it must be given with business_days: the name of an entry of holidays`,
		`at: it must be given with business_days: the times of day, such as ["09:00"]`,
		`non_business_day "never": business_days are business days`,
		`non_business_day "never": it must be one of keep, skip, previous, next`,
		`non_business_day "never": holidays must name which days are business days`,
		`gap "both": it must be one of first-valid, skip, shift`,
		`overlap "none": it must be one of first, second, both`,
		`period "year": it must be one of iso-week, date, month, hour, occurrence`,
		`window: it must be between 1s and 7d`,
		`catch_up "some": it must be one of latest, none, all`,
		`catch_up_max: it is for catch_up: all`,
		`catch_up_max: it must be between 1 and 100`,
		`while_running "stop": it must be one of allow, skip, wait`,
	}, strings.Split(err.Error(), "\n"))
}

func TestWhatContradictsItselfIsRefused(t *testing.T) {
	t.Parallel()
	hour := time.Hour
	for name, c := range map[string]struct {
		spec Spec
		want string
	}{
		"nothing":                   {Spec{}, "cron: exactly one of cron, every and business_days must say when"},
		"no period":                 {Spec{Cron: "0 9 * * *"}, "period: it must be given: iso-week, date, month, hour or occurrence"},
		"an anchor of no interval":  {Spec{Cron: "0 9 * * *", Anchor: "2026-01-01T00:00"}, `anchor "2026-01-01T00:00": it is for every: the others say when by themselves`},
		"an anchor between seconds": {Spec{Every: &hour, Anchor: "2026-01-01T00:00:00.5"}, `anchor "2026-01-01T00:00:00.5": it must be in whole seconds`},
		"times of a cron":           {Spec{Cron: "0 9 * * *", At: []Clock{1}}, "at: it is for business_days: the others say when by themselves"},
		"a time twice":              {Spec{BusinessDays: []BusinessDay{1}, At: []Clock{1, 1}, Holidays: "test"}, "at: a time is given twice"},
		"holidays for nothing":      {Spec{Cron: "0 9 * * *", Holidays: "test"}, `holidays "test": non_business_day must say what holidays change: skip, previous or next`},
		"days without holidays":     {Spec{Cron: "0 9 * * *", NonBusinessDay: DaySkip}, `non_business_day "skip": holidays must name which days are business days`},
		"all onto one":              {Spec{Cron: "* 9 * * *", NonBusinessDay: DayNext, Holidays: "test"}, `non_business_day "next": with '*' in minute or hour all of them would move onto those of another day; only keep and skip make sense`},
		"days of an interval":       {Spec{Every: &hour, NonBusinessDay: DaySkip, Holidays: "test"}, `non_business_day "skip": an interval goes by elapsed time and knows no days; use cron`},
		"a gap of an interval":      {Spec{Every: &hour, Gap: GapSkip}, `gap "skip": an interval goes by elapsed time, which has no gaps and no overlaps`},
		"an interval per recipient": {Spec{Every: &hour, Clock: ClockRecipient}, `clock "recipient": a recipient's clock needs fixed times, not an interval and no '*' in minute or hour`},
		"nothing for a recipient":   {Spec{Cron: "0 9 * * *", Clock: ClockRecipient, Gap: GapSkip}, `gap "skip": a recipient whose clocks leave a time out would get nothing; use first-valid or shift`},
		"two for a recipient":       {Spec{Cron: "0 9 * * *", Clock: ClockRecipient, Overlap: OverlapBoth}, `overlap "both": each recipient gets one job; use first or second`},
		"catching up and skipping":  {Spec{Cron: "0 9 * * *", CatchUp: CatchUpAll, WhileRunning: RunSkip}, `while_running "skip": with catch_up: all, each would be skipped because the one before it runs; use wait`},
		"never":                     {Spec{Cron: "0 9 * * SAT", Holidays: "test", NonBusinessDay: DaySkip, Period: PeriodDate}, `holidays "test": it never fires: none of its days is a business day`},
		"a business day too many":   {Spec{BusinessDays: []BusinessDay{25}, At: []Clock{1}, Holidays: "test"}, `holidays "test": it never fires: none of its days is a business day`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.spec.Zone = "UTC"
			if c.spec.Period == "" && name != "no period" {
				c.spec.Period = PeriodOccurrence
			}
			_, err := tryCompile(c.spec)
			require.EqualError(t, err, c.want)
		})
	}
	_, err := Compile(Spec{Cron: "0 9 * * *", Zone: "UTC", Period: PeriodDate, Holidays: "france", NonBusinessDay: DaySkip}, nil)
	require.EqualError(t, err, `holidays "france": there is no such entry; declare it as holidays.france`)
}
