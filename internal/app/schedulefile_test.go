package app

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/calendar"
)

const kindsOnly = "kinds: {digest: {channel: go}}\n"

func TestAScheduleThatSaysLittleHasTheDefaults(t *testing.T) {
	t.Parallel()
	c := parse(t, kindsOnly+`
schedules:
  weekly:
    cron: 0 9 * * MON
    zone: Asia/Calcutta
    period: iso-week
    kind: digest
    key: "digest:{period}:{customer}"
    select: SELECT 1
`)
	require.Empty(t, c.Warnings())
	s, ok := c.Schedule("weekly")
	require.True(t, ok)
	_, ok = c.Schedule("monthly")
	require.False(t, ok)
	require.Len(t, c.Schedules(), 1)
	require.Equal(t, "SELECT 1", s.Select)
	require.Nil(t, s.Deadline)
	require.Equal(t, ScheduleSummary{
		Name: "weekly", Kind: "digest", When: "0 9 * * MON", Zone: "Asia/Kolkata", ZoneGiven: "Asia/Calcutta", Clock: "schedule",
		Gap: "first-valid", Overlap: "first", Period: "iso-week", Key: "digest:{period}:{customer}", Window: "1m", CatchUp: "latest",
		WhileRunning: "allow", Source: "ledger", Columns: []string{"customer", "destination"},
	}, s.Summary())
	var table bytes.Buffer
	require.NoError(t, c.Summary().Table(&table))
	require.Contains(t, table.String(), "0 9 * * MON")
}

func TestEveryKeyOfSchedulesIsTakenOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "closures.txt"), []byte("2026-08-31 Inventory\n2026-06-30 Inventory\n"), 0o600))
	c, err := ParseConfig(filepath.Join(dir, "duly.yaml"), []byte(kindsOnly+`
holidays:
  ours: {countries: [fr, de-by], file: closures.txt, weekend: [fri, saturday]}
  all: {weekend: []}
sources:
  crm: {env: CRM_DATABASE_URL}
schedules:
  last:
    business_days: [-2, last]
    at: [17:30, "09:00"]
    zone: Europe/Paris
    clock: recipient
    earliest_zone: Asia/Tokyo
    gap: shift
    overlap: second
    holidays: ours
    period: occurrence
    window: 2h
    catch_up: all
    catch_up_max: 7
    while_running: wait
    kind: digest
    key: "{period}/{customer}"
    select: SELECT customer, destination, renewal
    source: crm
    deadline: {at: 17:00, on: renewal, business_days: -3, holidays: ours, non_business_day: previous, zone: recipient}
  often:
    every: 90m
    anchor: 2026-01-01T00:15
    zone: UTC
    period: hour
    kind: digest
    key: "{period}/{customer}"
    select: SELECT 1
    deadline: {after: 36h}
`))
	require.NoError(t, err)
	last, _ := c.Schedule("last")
	require.Equal(t, ScheduleSummary{
		Name: "last", Kind: "digest", When: "business days -2, last at 09:00, 17:30", Zone: "Europe/Paris", ZoneGiven: "Europe/Paris", Clock: "recipient",
		Gap: "shift", Overlap: "second", Period: "occurrence", Key: "{period}/{customer}", Window: "2h", CatchUp: "all", CatchUpMax: 7,
		WhileRunning: "wait", Source: "crm", Columns: []string{"customer", "destination", "renewal"},
	}, last.Summary())
	require.Equal(t, "Asia/Tokyo", last.When.Opens().Name())
	require.True(t, last.HasHolidays)
	require.Equal(t, "2026-08-31", last.HolidaysUntil.String())
	// The 31st is closed by the file, the 28th is a Friday: the 27th, a Thursday, and the 30th, a Sunday, are left.
	next, ok := last.When.Next(time.Date(2026, 8, 20, 0, 0, 0, 0, time.UTC))
	require.True(t, ok)
	require.Equal(t, "2026-08-27T09:00:00", next.Wall.String())
	d, err := last.Deadline.Resolve(calendar.DeadlineInput{On: ptrTo(t, "2026-07-14")})
	require.NoError(t, err)
	require.Equal(t, "2026-07-09T17:00:00", d.Local.String(), "three business days before Bastille Day, over the weekend of Friday and Saturday")
	often, _ := c.Schedule("often")
	require.Equal(t, "every 1h30m", often.When.String())
	require.Empty(t, often.Summary().Gap)
	next, _ = often.When.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	require.Equal(t, "2026-01-01T00:15:00", next.Wall.String())
}

func ptrTo(t *testing.T, date string) *calendar.Date {
	t.Helper()
	d, err := calendar.ParseDate(date)
	require.NoError(t, err)
	return &d
}

func TestEverythingThatIsWrongWithSchedulesIsToldAtOnce(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		`duly.yaml:3: holidays.Ours.weekend[0]: "someday": it must be a day of the week, such as saturday`,
		`duly.yaml:3: holidays.Ours: a name is 1 to 64 characters of a-z, 0-9 and '-'`,
		`duly.yaml:4: holidays.all.weekend: at least one day of the week must not be of the weekend`,
		`duly.yaml:5: holidays.none: it has no value; give one or remove the key`,
		`duly.yaml:7: schedules.a: it has no value; give one or remove the key`,
		`duly.yaml:8: schedules.b.kind: it must be given: the kind of the schedule's jobs`,
		`duly.yaml:8: schedules.b.key: it must be given: a text with {period} and columns of the selection, such as digest:{period}:{customer}`,
		`duly.yaml:8: schedules.b.select: it must be given: the query that yields the recipients`,
		`duly.yaml:8: schedules.b.zone: it must be given: an IANA time zone such as Europe/Paris`,
		`duly.yaml:8: schedules.b.cron: exactly one of cron, every and business_days must say when`,
		`duly.yaml:8: schedules.b.period: it must be given: iso-week, date, month, hour or occurrence`,
		`duly.yaml:10: schedules.c.cron: "*/5 25 * * *": hour "25": it must be between 0 and 23`,
		`duly.yaml:11: schedules.c.zone: "Mars/X": it must be an IANA time zone such as Europe/Paris`,
		`duly.yaml:12: schedules.c.perod: there is no such key; did you mean "period"?`,
		`duly.yaml:13: schedules.c.period: "year": it must be one of iso-week, date, month, hour, occurrence`,
		`duly.yaml:14: schedules.c.kind: "dgest": there is no such kind; describe it as kinds.dgest`,
		`duly.yaml:15: schedules.c.key: "digest:{customer}": it must contain {period}, or the jobs of the next run would be taken for copies of this one's`,
		`duly.yaml:16: schedules.c.select: " ": it must be given: the query that yields the recipients`,
		`duly.yaml:17: schedules.c.source: "The CRM": a name is 1 to 64 characters of a-z, 0-9 and '-'`,
		`duly.yaml:18: schedules.c.holidays: "france": there is no such entry; declare it as holidays.france`,
		`duly.yaml:19: schedules.c.catch_up_max: "0": it is for catch_up: all`,
		`duly.yaml:19: schedules.c.catch_up_max: "0": it must be between 1 and 100`,
		`duly.yaml:20: schedules.c.window: "soon": it must be a duration with its unit, such as 500ms, 30s, 10m, 24h or 7d`,
		`duly.yaml:21: schedules.c.deadline.at: "5 PM": it must be a time of day in hours and minutes, such as "17:00"`,
		`duly.yaml:22: schedules.c.deadline.days: "1.5": it must be a whole number`,
		`duly.yaml:25: schedules.d.period: "date": two occurrences would share the period 2026-01-01: 2026-01-01T00:00:00 and 2026-01-01T00:05:00`,
		`duly.yaml:28: schedules.e.deadline: jobs that are due at 2026-01-01T18:00:00Z would have the deadline 2026-01-01T17:00:00Z, which is not behind it`,
		`duly.yaml:29: schedules.f.business_days[1]: "third": it must be a number such as 3, last, or a number from the end such as -2`,
		`duly.yaml:30: schedules.f.at[0]: "9": it must be a time of day in hours and minutes, such as "17:00"`,
		`duly.yaml:32: schedules.g.key: "a:{period} ": it must not begin or end with a space`,
	}, problems(t, kindsOnly+`holidays:
  Ours: {countries: [fr], weekend: [someday]}
  all: {weekend: [mon, tue, wed, thu, fri, sat, sun]}
  none:
schedules:
  a:
  b: {}
  c:
    cron: "*/5 25 * * *"
    zone: Mars/X
    perod: date
    period: year
    kind: dgest
    key: "digest:{customer}"
    select: " "
    source: The CRM
    holidays: france
    catch_up_max: 0
    window: soon
    deadline: {at: 5 PM,
      days: 1.5}
  d: {cron: "*/5 * * * *", zone: UTC,
    kind: digest, key: "{period}", select: SELECT 1,
    period: date}
  e: {cron: "0 18 * * *", zone: UTC,
    kind: digest, key: "{period}", select: SELECT 1, period: date,
    deadline: {at: "17:00"}}
  f: {business_days: [1, third],
    at: ["9"], holidays: all, zone: UTC, kind: digest, key: "{period}", select: SELECT 1, period: date}
  g: {cron: "0 18 * * *", zone: UTC, kind: digest, select: SELECT 1, period: date,
    key: "a:{period} "}
`))
}

func TestUnknownCountriesAreAnsweredWithTheList(t *testing.T) {
	t.Parallel()
	got := problems(t, kindsOnly+"holidays: {ours: {countries: [fr, france]}}\n")
	require.Len(t, got, 1)
	require.True(t, strings.HasPrefix(got[0], `duly.yaml:2: holidays.ours.countries[1]: "france": there is no such country or region; known are ar, at, au-act, `), got[0])
}

func TestFilesOfHolidaysAreReadStrictly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "closures.txt")
	require.NoError(t, os.WriteFile(path, []byte("2026-12-24 Eve\n2026-02-30 Never\n2026-12-24 Again\n"), 0o600))
	_, err := ParseConfig(filepath.Join(dir, "duly.yaml"), []byte("kinds: {}\nholidays:\n  ours: {file: closures.txt}\n  gone: {file: gone.txt}\n"))
	require.Error(t, err)
	lines := strings.Split(err.Error(), "\n")
	require.Len(t, lines, 4)
	require.Equal(t, path+`:2: holidays.ours.file: date "2026-02-30": it must be a date that exists, such as 2026-09-30`, lines[0])
	require.Equal(t, path+`:3: holidays.ours.file: 2026-12-24 is on line 1 already`, lines[1])
	require.Contains(t, lines[2], "duly.yaml:1: kinds: at least one kind must be described")
	require.Contains(t, lines[3], `duly.yaml:4: holidays.gone.file: "gone.txt": it cannot be read: `)
}

func TestWarningsOfSchedulesAreToldByConfigCheck(t *testing.T) {
	t.Parallel()
	c := parse(t, kindsOnly+`schedules: {odd: {cron: 0 9 1-7 * MON, zone: UTC, period: date, kind: digest, key: "{period}", select: SELECT 1}}`)
	require.Len(t, c.Warnings(), 1)
	require.Contains(t, c.Warnings()[0], `schedule odd: day "1-7" and weekday "MON": it fires on days that fit either of them`)
}
