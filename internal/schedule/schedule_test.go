package schedule

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/calendar"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// digest is every Monday at 09:00 on the recipients' clocks, to be sent until 18:00.
func digest(t *testing.T, change ...func(*calendar.Spec)) *Schedule {
	t.Helper()
	spec := calendar.Spec{Cron: "0 9 * * MON", Zone: "Europe/Paris", Clock: calendar.ClockRecipient, Period: calendar.PeriodISOWeek}
	for _, c := range change {
		c(&spec)
	}
	when, err := calendar.Compile(spec, nil)
	require.NoError(t, err)
	key, err := calendar.ParseKeyTemplate("digest:{period}:{customer}")
	require.NoError(t, err)
	until := calendar.Clock(18 * 60)
	deadline, err := calendar.CompileDeadline(calendar.DeadlineSpec{At: &until}, when, nil)
	require.NoError(t, err)
	return &Schedule{Name: "weekly-digest", Kind: "digest", When: when, Key: key, Query: "TABLE customer", Deadline: deadline}
}

// row is a row of a selection.
func row(columns map[string]string) machine.Columns {
	return func(name string) (string, bool) { v, ok := columns[name]; return v, ok }
}

// run is the run of a Monday.
func (s *Schedule) run(t *testing.T, at time.Time) machine.Run {
	t.Helper()
	o, ok := s.When.Next(at)
	require.True(t, ok)
	opening := s.opening(o, machine.RunFired, "scheduler")
	return machine.Run{Schedule: s.Name, Period: opening.Period, At: opening.At, Local: opening.Local, Zone: opening.Zone}
}

func recipients(t *testing.T, s *Schedule, r machine.Run) func(map[string]string) machine.Recipient {
	t.Helper()
	selection, err := s.selection(r)
	require.NoError(t, err)
	require.Equal(t, calendar.Release(), selection.ZoneData)
	return func(columns map[string]string) machine.Recipient { return selection.Recipient(row(columns)) }
}

var october = time.Date(2026, 10, 10, 0, 0, 0, 0, time.UTC)

// Each recipient's job is due at 09:00 on the recipient's clock, and its deadline is
// 18:00 there, however early the run opens for the first of them.
func TestJobsAreDueOnTheirRecipientsClocks(t *testing.T) {
	t.Parallel()
	s := digest(t)
	r := s.run(t, october)
	require.Equal(t, "2026-W42", r.Period)
	require.Equal(t, "2026-10-11T19:00:00Z", r.At.Format(time.RFC3339), "Monday begins first at UTC+14")
	recipient := recipients(t, s, r)
	for zone, want := range map[string][2]string{
		"Pacific/Kiritimati":  {"2026-10-11T19:00:00Z", "2026-10-12T04:00:00Z"},
		"Asia/Tokyo":          {"2026-10-12T00:00:00Z", "2026-10-12T09:00:00Z"},
		"Europe/Paris":        {"2026-10-12T07:00:00Z", "2026-10-12T16:00:00Z"},
		"America/Los_Angeles": {"2026-10-12T16:00:00Z", "2026-10-13T01:00:00Z"},
	} {
		got := recipient(map[string]string{"customer": "7", "destination": "seven@example.com", "zone": zone, "subject": "customer 7", "payload": `{"n":1}`})
		require.Nil(t, got.Refused, zone)
		require.Equal(t, want[0], got.Spec.Due.Format(time.RFC3339), zone)
		require.Equal(t, want[1], got.Spec.Deadline.Format(time.RFC3339), zone)
		require.Equal(t, []string{"digest", "digest:2026-W42:7", "2026-W42", "customer 7", `{"n":1}`, zone, "2026-10-12T18:00:00"},
			[]string{got.Spec.Kind, got.Spec.Key, got.Spec.Period, got.Spec.Subject, string(got.Spec.Payload), got.Spec.DeadlineZone, got.Spec.DeadlineLocal})
	}
}

func TestRowsWithoutAZoneUseTheSchedulesAndWithoutAPayloadAnEmptyOne(t *testing.T) {
	t.Parallel()
	s := digest(t)
	got := recipients(t, s, s.run(t, october))(map[string]string{"customer": "7", "destination": "seven@example.com"})
	require.Nil(t, got.Refused)
	require.Equal(t, "2026-10-12T07:00:00Z", got.Spec.Due.Format(time.RFC3339))
	require.Equal(t, "{}", string(got.Spec.Payload))
}

func TestRowsThatCanBeNoJobAreRefusedByFieldAndRule(t *testing.T) {
	t.Parallel()
	s := digest(t)
	s.MaxPayload = 100
	s.Check = func(d string, _ []byte) *job.Refusal {
		if d == "nowhere" {
			return job.Refuse("destination", "", job.RuleDestination, "")
		}
		return nil
	}
	recipient := recipients(t, s, s.run(t, october))
	good := map[string]string{"customer": "7", "destination": "seven@example.com"}
	require.Nil(t, recipient(good).Refused)
	for _, c := range []struct {
		column, value string // "-" takes the column away
		field         string
		rule          job.Rule
	}{
		{"customer", "-", "key", job.RuleRequired},
		{"customer", "a\x00b", "key", job.RulePrintable},
		{"destination", "-", "destination", job.RuleRequired},
		{"destination", "", "destination", job.RuleRequired},
		{"destination", "nowhere", "destination", job.RuleDestination},
		{"zone", "Mars/X", "zone", job.RuleUnknownZone},
		{"zone", "Local", "zone", job.RuleUnknownZone},
		{"zone", "", "zone", job.RuleUnknownZone},
		{"payload", "{", "payload", job.RuleJSON},
		{"payload", `"` + string(make([]byte, 200)) + `"`, "payload", job.RuleTooLarge},
	} {
		columns := map[string]string{"customer": "7", "destination": "seven@example.com", c.column: c.value}
		if c.value == "-" {
			delete(columns, c.column)
		}
		got := recipient(columns)
		require.NotNil(t, got.Refused, "%s %q", c.column, c.value)
		require.Equal(t, c.field, got.Refused.Field)
		require.Equal(t, c.rule, got.Refused.Rule)
	}
}

// "17:00 in Paris on the renewal date": a date of each row's own.
func TestDeadlinesCountFromADateOfTheRow(t *testing.T) {
	t.Parallel()
	s := digest(t)
	at := calendar.Clock(17 * 60)
	var err error
	s.Deadline, err = calendar.CompileDeadline(calendar.DeadlineSpec{At: &at, On: "renewal", Zone: "Europe/Paris"}, s.When, nil)
	require.NoError(t, err)
	recipient := recipients(t, s, s.run(t, october))
	for _, date := range []string{"2026-10-30", "2026-10-30 00:00:00+02", "2026-10-30T00:00:00Z"} {
		got := recipient(map[string]string{"customer": "7", "destination": "seven@example.com", "renewal": date})
		require.Nil(t, got.Refused, date)
		require.Equal(t, "2026-10-30T16:00:00Z", got.Spec.Deadline.Format(time.RFC3339))
	}
	for _, bad := range []map[string]string{{"renewal": "soon"}, {"renewal": "2026-02-30"}, {}} {
		bad["customer"], bad["destination"] = "7", "seven@example.com"
		require.Equal(t, "renewal", recipient(bad).Refused.Field)
	}
}

// What was missed says whose fault it is: nobody was there, or somebody was and waited.
func TestWhatWasMissedSaysWhatItWaitedFor(t *testing.T) {
	t.Parallel()
	s := minutely(t, func(spec *calendar.Spec) { spec.WhileRunning, spec.CatchUp = calendar.RunWait, calendar.CatchUpNone })
	now := october.Add(5 * time.Minute)
	why := func(running bool) string {
		f, _ := s.decide(machine.Moment{Since: october, Now: now, Running: running})
		require.NotEmpty(t, f.Without)
		require.Equal(t, machine.OccurrenceMissed, f.Without[0].Outcome)
		return f.Without[0].Why
	}
	require.Contains(t, why(true), "the run before it was not over")
	require.Contains(t, why(false), "no scheduler")
}

// What was missed or skipped names the periods by which its runs can be asked for.
func TestOccurrencesWithoutARunNameTheirPeriods(t *testing.T) {
	t.Parallel()
	s := digest(t, func(spec *calendar.Spec) { spec.CatchUp, spec.WhileRunning = calendar.CatchUpNone, calendar.RunSkip })
	f, _ := s.decide(machine.Moment{Since: october, Now: october.AddDate(0, 0, 20)})
	require.Len(t, f.Without, 1)
	require.Equal(t, []any{int64(3), "2026-W42", "2026-W44"}, []any{f.Without[0].Count, f.Without[0].Period, f.Without[0].LastPeriod})
	_, err := s.Opening(f.Without[0].Period, "alice", october)
	require.NoError(t, err)
	monday := time.Date(2026, 10, 11, 19, 0, 0, 0, time.UTC)
	f, _ = s.decide(machine.Moment{Since: october, Now: monday, Running: true})
	require.Len(t, f.Without, 1)
	require.Equal(t, []any{machine.OccurrenceSkipped, "2026-W42", ""}, []any{f.Without[0].Outcome, f.Without[0].Period, f.Without[0].LastPeriod})
}

// After a long stop, what the schedule's own rules leave out is recorded too.
func TestWhatWasSkippedLongAgoIsRecordedInOneRow(t *testing.T) {
	t.Parallel()
	s := digest(t)
	days, err := calendar.NewBusiness([]calendar.Weekday{calendar.Weekday(time.Saturday), calendar.Weekday(time.Sunday)})
	require.NoError(t, err)
	s.When, err = calendar.Compile(calendar.Spec{Cron: "0 9 * * *", Zone: "UTC", Period: calendar.PeriodDate, Holidays: "none", NonBusinessDay: calendar.DaySkip}, days)
	require.NoError(t, err)
	f, _ := s.decide(machine.Moment{Since: october, Now: october.AddDate(0, 0, 28)})
	skipped, rows := int64(0), 0
	for _, o := range f.Without {
		if o.Outcome == machine.OccurrenceSkipped {
			skipped, rows = skipped+max(o.Count, 1), rows+1
		}
	}
	require.Equal(t, int64(8), skipped)
	require.Equal(t, 3, rows, "those of the last week, and the others")
}

func TestPersonAsksForTheRunOfAPeriod(t *testing.T) {
	t.Parallel()
	s := digest(t)
	o, err := s.Opening("2026-W42", "alice", october)
	require.NoError(t, err)
	require.Equal(t, machine.Opening{
		Period: "2026-W42", At: time.Date(2026, 10, 11, 19, 0, 0, 0, time.UTC), Local: "2026-10-12T09:00:00", Zone: "Pacific/Kiritimati",
		Cause: machine.RunManual, Actor: "alice",
	}, o)
	_, err = s.Opening("2026-42", "alice", october)
	var unknown *PeriodError
	require.ErrorAs(t, err, &unknown)
	require.Equal(t, "2026-W42", unknown.Example)
}
