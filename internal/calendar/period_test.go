package calendar

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestPeriodsAreCalledByTheirRule(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		period Period
		zone   string
		at     string
		want   string
	}{
		{PeriodISOWeek, "UTC", "2026-12-31T12:00:00Z", "2026-W53"},
		{PeriodISOWeek, "UTC", "2027-01-03T12:00:00Z", "2026-W53"}, // a Sunday
		{PeriodISOWeek, "UTC", "2027-01-04T12:00:00Z", "2027-W01"},
		{PeriodISOWeek, "UTC", "2024-12-30T12:00:00Z", "2025-W01"}, // a Monday
		{PeriodISOWeek, "UTC", "2021-01-01T12:00:00Z", "2020-W53"},
		{PeriodISOWeek, "Pacific/Kiritimati", "2026-01-04T10:00:00Z", "2026-W02"}, // Monday there
		{PeriodDate, "Pacific/Kiritimati", "2026-01-04T10:00:00Z", "2026-01-05"},
		{PeriodDate, "America/New_York", "2026-01-01T04:59:00Z", "2025-12-31"},
		{PeriodMonth, "America/New_York", "2026-01-01T04:59:00Z", "2025-12"},
		{PeriodHour, "America/New_York", "2026-11-01T05:30:00Z", "2026-11-01T01-04"},
		{PeriodHour, "America/New_York", "2026-11-01T06:30:00Z", "2026-11-01T01-05"},
		{PeriodHour, "Asia/Kathmandu", "2026-11-01T06:30:00Z", "2026-11-01T12+0545"},
		{PeriodHour, "UTC", "2026-11-01T06:30:00Z", "2026-11-01T06Z"},
		{PeriodOccurrence, "America/New_York", "2026-11-01T06:30:00Z", "2026-11-01T06:30:00Z"},
	} {
		s := &Schedule{zone: zone(t, c.zone), opens: zone(t, c.zone), period: c.period}
		require.Equal(t, c.want, s.PeriodOf(s.at(instant(t, c.at))), "%s %s", c.period, c.at)
	}
}

func TestOccurrencesAreFoundByTheirPeriod(t *testing.T) {
	t.Parallel()
	weekly := compile(t, Spec{Cron: "0 9 * * SUN", Zone: "Europe/Paris", Period: PeriodISOWeek})
	o, ok := weekly.Occurrence("2026-W53")
	require.True(t, ok)
	require.Equal(t, "2027-01-03T09:00:00", o.Wall.String())
	monthly := compile(t, Spec{Cron: "0 9 1 * *", Zone: "UTC", Holidays: "test", NonBusinessDay: DayPrevious, Period: PeriodMonth})
	o, ok = monthly.Occurrence("2026-08")
	require.True(t, ok)
	require.Equal(t, "2026-07-31T09:00:00", o.Wall.String())
	daily := compile(t, Spec{Cron: "0 9 * * *", Zone: "UTC", Holidays: "test", NonBusinessDay: DaySkip, Period: PeriodDate})
	o, ok = daily.Occurrence("2026-08-01")
	require.True(t, ok)
	require.Equal(t, SkipDay, o.Skip, "it is there, and does not fire")
	for s, wrong := range map[*Schedule][]string{
		weekly:  {"", "2026-W54", "2026-W00", "2026-53", "2026-W5", "2026-W53x", "x"},
		monthly: {"", "2026-13", "2026-8", "2026-08-01"},
		daily:   {"", "2026-02-30", "2026-08", "2026-08-01T09"},
		compile(t, Spec{Cron: "0 9 * * *", Zone: "UTC", Period: PeriodOccurrence}): {"", "2026-08-01T09:01:00Z", "2026-08-01", "2026-08-01T11:00:00+02:00"},
		compile(t, Spec{Cron: "0 9 * * *", Zone: "UTC", Period: PeriodHour}):       {"", "2026-08-01T10Z", "2026-08-01T09+01", "2026-08-01T09"},
	} {
		for _, period := range wrong {
			_, ok := s.Occurrence(period)
			require.False(t, ok, "%s %q", s.period, period)
		}
	}
}

// Property: what fires is found by what it is called.
func TestEveryOccurrenceIsFoundByItsPeriod(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawSchedule(t)
		again := *s
		again.period = rapid.SampledFrom(Periods()).Draw(t, "period")
		if _, _, found := again.collision(); found {
			again.period = PeriodOccurrence
		}
		from := time.Unix(rapid.Int64Range(instant(t, "2026-01-01T00:00:00Z").Unix(), instant(t, "2030-01-01T00:00:00Z").Unix()).Draw(t, "from"), 0).UTC()
		o, ok := again.Next(from)
		if !ok {
			return
		}
		got, ok := again.Occurrence(again.PeriodOf(o))
		require.True(t, ok)
		require.Equal(t, o, got)
	})
}

// Every day is in the ISO week of its Thursday.
func TestISOWeeksFollowTheirThursday(t *testing.T) {
	t.Parallel()
	for day := NewDate(1999, 12, 20); day < NewDate(2060, 1, 10); day++ {
		thursday := day
		for thursday.isoWeek() == day.isoWeek() && thursday.Weekday() != time.Thursday {
			thursday++
		}
		if thursday.isoWeek() != day.isoWeek() { // Friday to Sunday
			thursday = day
			for thursday.Weekday() != time.Thursday {
				thursday--
			}
		}
		require.Equal(t, thursday.isoWeek(), day.isoWeek())
		year, _, _ := thursday.Date()
		gotYear, week := day.midnight().ISOWeek()
		require.Equal(t, year, gotYear, day)
		require.Equal(t, int(thursday-NewDate(year, 1, 1))/7+1, week, day)
	}
}

func TestTwoOccurrencesThatWouldShareAPeriodAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		spec Spec
		want string // "" is allowed
	}{
		{"every five minutes by date", Spec{Cron: "*/5 * * * *", Period: PeriodDate}, "share the period 2026-01-01: 2026-01-01T00:00:00 and 2026-01-01T00:05:00"},
		{"every five minutes by hour", Spec{Cron: "*/5 * * * *", Period: PeriodHour}, "share the period 2026-01-01T00-05: 2026-01-01T00:00:00 and 2026-01-01T00:05:00"},
		{"twice a day by hour", Spec{Cron: "0 9,17 * * *", Period: PeriodHour}, ""},
		{"twice a day by date", Spec{Cron: "0 9,17 * * *", Period: PeriodDate}, "share the period 2026-01-01: 2026-01-01T09:00:00 and 2026-01-01T17:00:00"},
		{"hourly by hour, over an overlap", Spec{Cron: "0 * * * *", Period: PeriodHour}, ""},
		{"daily by date", Spec{Cron: "0 9 * * *", Period: PeriodDate}, ""},
		{"daily by date, in both of an overlap", Spec{Cron: "30 1 * * *", Overlap: OverlapBoth, Period: PeriodDate}, "share the period 2026-11-01: 2026-11-01T01:30:00 (2026-11-01T05:30:00Z) and 2026-11-01T01:30:00 (2026-11-01T06:30:00Z)"},
		{"daily by date, beside the overlaps", Spec{Cron: "30 3 * * *", Overlap: OverlapBoth, Period: PeriodDate}, ""},
		{"monthly in both of an overlap that comes in years", Spec{Cron: "30 1 1 * *", Overlap: OverlapBoth, Period: PeriodMonth}, "2026-11-01T01:30:00 (2026-11-01T06:30:00Z)"},
		{"daily by week", Spec{Cron: "0 9 * * *", Period: PeriodISOWeek}, "share the period 2026-W01: 2026-01-01T09:00:00 and 2026-01-02T09:00:00"},
		{"weekly by week", Spec{Cron: "0 9 * * MON", Period: PeriodISOWeek}, ""},
		{"weekly by month", Spec{Cron: "0 9 * * MON", Period: PeriodMonth}, "share the period 2026-01: 2026-01-05T09:00:00 and 2026-01-12T09:00:00"},
		{"on Sunday and Monday by week", Spec{Cron: "0 9 * * SUN,MON", Period: PeriodISOWeek}, "share the period 2026-W02: 2026-01-05T09:00:00 and 2026-01-11T09:00:00"},
		{"the first and the fifth Monday by month", Spec{Cron: "0 9 * * MON#1,MON#5", Period: PeriodMonth}, "share the period 2026-03: 2026-03-02T09:00:00 and 2026-03-30T09:00:00"},
		{"monthly by month", Spec{Cron: "0 9 L * *", Period: PeriodMonth}, ""},
		{"monthly by week", Spec{Cron: "0 9 1 * *", Period: PeriodISOWeek}, ""},
		{"the last and the first by week", Spec{Cron: "0 9 1,L * *", Period: PeriodISOWeek}, "share the period"},
		{"29 February and 1 March by week", Spec{Cron: "0 9 29-31/2 2 *", Period: PeriodISOWeek}, ""},
		{"the first Monday or the 29th of February", Spec{Cron: "0 9 29 2 MON#1", Period: PeriodMonth}, "share the period 2028-02: 2028-02-07T09:00:00 and 2028-02-29T09:00:00"},
		{"every hour by hour", Spec{Every: new(time.Hour), Period: PeriodHour}, ""},
		{"every 59 minutes by hour", Spec{Every: new(59 * time.Minute), Period: PeriodHour}, "share the period"},
		{"every 24 hours at the wrong time by date", Spec{Every: new(24 * time.Hour), Anchor: "2026-07-01T00:30:00", Period: PeriodDate}, "share the period 2026-11-01: 2026-11-01T00:30:00 and 2026-11-01T23:30:00"},
		{"every 24 hours at noon by date", Spec{Every: new(24 * time.Hour), Anchor: "2026-07-01T12:30:00", Period: PeriodDate}, ""},
		{"every 25 hours by date", Spec{Every: new(25 * time.Hour), Period: PeriodDate}, ""},
		{"every 23 hours by date", Spec{Every: new(23 * time.Hour), Period: PeriodDate}, "share the period"},
		{"every 7 days by week", Spec{Every: new(7 * 24 * time.Hour), Anchor: "2026-01-07T12:00:00", Period: PeriodISOWeek}, ""},
		{"every 30 days by month", Spec{Every: new(30 * 24 * time.Hour), Period: PeriodMonth}, "share the period"},
		{"every 31 days by month", Spec{Every: new(31 * 24 * time.Hour), Anchor: "2026-01-07T12:00:00", Period: PeriodMonth}, ""},
		{"every minute by occurrence", Spec{Cron: "* * * * *", Period: PeriodOccurrence}, ""},
		{"a day of each month moved into the month before", Spec{Cron: "0 9 1 * *", Holidays: "test", NonBusinessDay: DayPrevious, Period: PeriodMonth}, ""},
		{"first and last business day by month", Spec{BusinessDays: []BusinessDay{1, -1}, At: []Clock{540}, Holidays: "test", Period: PeriodMonth}, "share the period 2026-01: 2026-01-02T09:00:00 and 2026-01-30T09:00:00"},
		{"last business day twice by month", Spec{BusinessDays: []BusinessDay{-1}, At: []Clock{540, 600}, Holidays: "test", Period: PeriodMonth}, "share the period 2026-01: 2026-01-30T09:00:00 and 2026-01-30T10:00:00"},
		{"weekly thanks to holidays", Spec{Cron: "0 9 * * SAT,SUN,MON", Holidays: "test", NonBusinessDay: DaySkip, Period: PeriodISOWeek}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.spec.Zone = "America/New_York"
			_, err := tryCompile(c.spec)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

// Property: where Compile found that no two occurrences share a period, no two of those
// that a walk meets do; where it found two, they are in the walk from shortly before.
func TestWhatIsProvedAboutPeriodsIsTrue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawSchedule(t)
		again := *s
		again.period = rapid.SampledFrom(Periods()).Draw(t, "period")
		a, b, found := again.collision()
		from := time.Unix(rapid.Int64Range(instant(t, "2026-01-01T00:00:00Z").Unix(), instant(t, "2030-01-01T00:00:00Z").Unix()).Draw(t, "from"), 0).UTC()
		if found {
			require.Equal(t, again.PeriodOf(a), again.PeriodOf(b))
			return
		}
		seen := map[string]time.Time{}
		n := 0
		for o := range again.All(from) {
			if n++; n > 400 || o.At.After(from.AddDate(4, 0, 0)) {
				break
			}
			if o.Skip != "" {
				continue
			}
			period := again.PeriodOf(o)
			require.NotContains(t, seen, period, "%s by %s at %s", &again, again.period, o.At)
			seen[period] = o.At
		}
	})
}
