package calendar

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDeadlinesAreResolvedFromLocalTimeAndBusinessDays(t *testing.T) {
	t.Parallel()
	five := Clock(17 * 60)
	s := compile(t, Spec{Cron: "0 9 * * *", Zone: "Europe/Paris", Period: PeriodDate})
	date := func(text string) *Date {
		d, err := ParseDate(text)
		require.NoError(t, err)
		return &d
	}
	newYork := zone(t, "US/Eastern")
	for _, c := range []struct {
		name     string
		spec     DeadlineSpec
		in       DeadlineInput
		at       string
		local    string
		zone     string
		fit      Fit
		named    string
		closedBy string
	}{
		{"17:00 on the day of the occurrence", DeadlineSpec{At: &five}, DeadlineInput{Day: *date("2026-09-30")}, "2026-09-30T15:00:00Z", "2026-09-30T17:00:00", "Europe/Paris", Once, "2026-09-30", ""},
		{"on the renewal date", DeadlineSpec{At: &five, On: "renewal"}, DeadlineInput{On: date("2026-12-01")}, "2026-12-01T16:00:00Z", "2026-12-01T17:00:00", "Europe/Paris", Once, "2026-12-01", ""},
		{"or the last business day before", DeadlineSpec{At: &five, On: "renewal", Holidays: "test", NonBusinessDay: DayPrevious}, DeadlineInput{On: date("2026-12-26")}, "2026-12-23T16:00:00Z", "2026-12-23T17:00:00", "Europe/Paris", Once, "2026-12-26", "Saturday"},
		{"or the next", DeadlineSpec{At: &five, On: "renewal", Holidays: "test", NonBusinessDay: DayNext}, DeadlineInput{On: date("2026-12-24")}, "2026-12-28T16:00:00Z", "2026-12-28T17:00:00", "Europe/Paris", Once, "2026-12-24", "Closed"},
		{"it is a business day already", DeadlineSpec{At: &five, On: "renewal", Holidays: "test", NonBusinessDay: DayNext}, DeadlineInput{On: date("2026-12-28")}, "2026-12-28T16:00:00Z", "2026-12-28T17:00:00", "Europe/Paris", Once, "2026-12-28", ""},
		{"three days on", DeadlineSpec{At: &five, Days: new(3)}, DeadlineInput{Day: *date("2026-02-27")}, "2026-03-02T16:00:00Z", "2026-03-02T17:00:00", "Europe/Paris", Once, "2026-03-02", ""},
		{"two business days on, over Easter", DeadlineSpec{At: &five, BusinessDays: new(2), Holidays: "test"}, DeadlineInput{Day: *date("2026-04-02")}, "2026-04-08T15:00:00Z", "2026-04-08T17:00:00", "Europe/Paris", Once, "2026-04-08", ""},
		{"one business day before a holiday", DeadlineSpec{At: &five, On: "renewal", BusinessDays: new(-1), Holidays: "test"}, DeadlineInput{On: date("2026-04-06")}, "2026-04-02T15:00:00Z", "2026-04-02T17:00:00", "Europe/Paris", Once, "2026-04-02", ""},
		{"in the recipient's zone", DeadlineSpec{At: &five, Zone: ZoneRecipient}, DeadlineInput{Day: *date("2026-09-30"), Recipient: newYork}, "2026-09-30T21:00:00Z", "2026-09-30T17:00:00", "US/Eastern", Once, "2026-09-30", ""},
		{"of a recipient without a zone", DeadlineSpec{At: &five, Zone: ZoneRecipient}, DeadlineInput{Day: *date("2026-09-30")}, "2026-09-30T15:00:00Z", "2026-09-30T17:00:00", "Europe/Paris", Once, "2026-09-30", ""},
		{"in a zone of its own", DeadlineSpec{At: &five, Zone: "Asia/Calcutta"}, DeadlineInput{Day: *date("2026-09-30"), Recipient: newYork}, "2026-09-30T11:30:00Z", "2026-09-30T17:00:00", "Asia/Calcutta", Once, "2026-09-30", ""},
		{"in a gap", DeadlineSpec{At: new(Clock(150))}, DeadlineInput{Day: *date("2026-03-29")}, "2026-03-29T01:00:00Z", "2026-03-29T02:30:00", "Europe/Paris", Skipped, "2026-03-29", ""},
		{"in an overlap", DeadlineSpec{At: new(Clock(150))}, DeadlineInput{Day: *date("2026-10-25")}, "2026-10-25T00:30:00Z", "2026-10-25T02:30:00", "Europe/Paris", Repeated, "2026-10-25", ""},
		{"36 hours behind the due time, over a jump", DeadlineSpec{After: new(36 * time.Hour)}, DeadlineInput{Due: instant(t, "2026-03-28T08:00:00Z")}, "2026-03-29T20:00:00Z", "2026-03-29T22:00:00", "Europe/Paris", Once, "2026-03-29", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var business *Business
			if c.spec.Holidays != "" {
				business = testBusiness()
			}
			rule, err := CompileDeadline(c.spec, s, business)
			require.NoError(t, err)
			got, err := rule.Resolve(c.in)
			require.NoError(t, err)
			require.Equal(t, c.at, got.At.Format(time.RFC3339))
			require.Equal(t, c.local, got.Local.String())
			require.Equal(t, c.zone, got.Zone.Given())
			require.Equal(t, c.fit, got.Fit)
			require.Equal(t, c.named, got.Named.String())
			require.Equal(t, c.closedBy, got.Closed)
		})
	}
}

func TestADeadlineWithoutItsDateIsRefused(t *testing.T) {
	t.Parallel()
	s := compile(t, Spec{Cron: "0 9 * * *", Zone: "UTC", Period: PeriodDate})
	rule, err := CompileDeadline(DeadlineSpec{At: new(Clock(0)), On: "renewal"}, s, nil)
	require.NoError(t, err)
	require.Equal(t, "renewal", rule.Column())
	_, err = rule.Resolve(DeadlineInput{})
	require.ErrorIs(t, err, ErrNoDate)
	require.ErrorContains(t, err, "renewal")

	never := &Business{off: []DayOff{func(Date) string { return "closed" }}}
	for _, spec := range []DeadlineSpec{
		{At: new(Clock(0)), Holidays: "never", NonBusinessDay: DayNext}, {At: new(Clock(0)), Holidays: "never", BusinessDays: new(1)},
	} {
		rule, err = CompileDeadline(spec, s, never)
		require.NoError(t, err)
		_, err = rule.Resolve(DeadlineInput{Day: NewDate(2026, 1, 1)})
		require.EqualError(t, err, "there is no business day within 366 days of 2026-01-01")
	}
}

func TestDeadlinesReadOnTheRecipientsClockWhereDueTimesAre(t *testing.T) {
	t.Parallel()
	s := compile(t, Spec{Cron: "0 9 * * *", Zone: "Europe/Paris", Clock: ClockRecipient, Period: PeriodDate})
	rule, err := CompileDeadline(DeadlineSpec{At: new(Clock(17 * 60))}, s, nil)
	require.NoError(t, err)
	require.Empty(t, rule.Column())
	got, err := rule.Resolve(DeadlineInput{Day: NewDate(2026, 9, 30), Recipient: zone(t, "Asia/Tokyo")})
	require.NoError(t, err)
	require.Equal(t, "2026-09-30T08:00:00Z", got.At.Format(time.RFC3339))
}

func TestWrongRulesOfDeadlinesAreRefused(t *testing.T) {
	t.Parallel()
	s := compile(t, Spec{Cron: "0 9 * * *", Zone: "UTC", Period: PeriodDate})
	five := Clock(17 * 60)
	for want, spec := range map[string]DeadlineSpec{
		"at: exactly one of after and at must be given":                                                                                              {},
		"after: it counts from when the job is due, without days, holidays or another day":                                                           {After: new(time.Hour), Days: new(1)},
		"after: it must be between 1s and 400d, in whole seconds":                                                                                    {After: new(time.Duration(0))},
		"business_days: days are given too; only one of them can be counted":                                                                         {At: &five, Days: new(1), BusinessDays: new(1), Holidays: "test"},
		"days: it must be between -400 and 400":                                                                                                      {At: &five, Days: new(401)},
		`on "Renewal Date": it must be occurrence, or the name of a column of the selection: 1 to 63 characters of a-z, 0-9 and '_', a letter first`: {At: &five, On: "Renewal Date"},
		`holidays "other": there is no such entry; declare it as holidays.other`:                                                                     {At: &five, Holidays: "other", NonBusinessDay: DayNext},
		"holidays: it must be given: the entry of holidays that says which days are business days":                                                   {At: &five, NonBusinessDay: DayNext},
		`holidays "test": business_days or non_business_day must say what holidays change`:                                                           {At: &five, Holidays: "test"},
		`non_business_day "skip": it must be one of keep, previous, next`:                                                                            {At: &five, NonBusinessDay: DaySkip},
		`zone "Mars/X": it must be an IANA time zone such as Europe/Paris, or recipient`:                                                             {At: &five, Zone: "Mars/X"},
	} {
		var business *Business
		if spec.Holidays == "test" {
			business = testBusiness()
		}
		_, err := CompileDeadline(spec, s, business)
		require.EqualError(t, err, want)
	}
	_, err := CompileDeadline(DeadlineSpec{After: new(time.Hour), At: &five, Zone: "Local"}, nil, nil)
	require.Len(t, strings.Split(err.Error(), "\n"), 2, "all at once")
}
