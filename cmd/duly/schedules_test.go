package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/app"
)

const scheduleConfig = `
kinds: {digest: {channel: go}}
holidays: {france: {countries: [fr]}}
schedules:
  clocks: {cron: 30 2 * * *, zone: America/New_York, period: date, kind: digest, key: "a:{period}", select: SELECT 1}
  either: {cron: 0 9 1-7 * MON, zone: UTC, period: date, kind: digest, key: "a:{period}", select: SELECT 1}
  first: {cron: 0 9 1 * *, zone: Europe/Paris, holidays: france, non_business_day: previous, period: month, kind: digest, key: "a:{period}", select: SELECT 1}
  ours: {cron: 0 9 * * *, zone: Asia/Calcutta, clock: recipient, period: date, kind: digest, key: "a:{period}:{id}", select: SELECT 1}
`

func TestPreviewShowsWhatClocksDo(t *testing.T) {
	t.Parallel()
	file := write(t, "duly.yaml", scheduleConfig)
	out, stderr, code := run(t, "schedules", "preview", "clocks", "--config", file, "--from", "2026-03-07", "--next", "3", "--zone", "Europe/Paris")
	require.Equal(t, app.ExitOK, code, stderr)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 5)
	require.Regexp(t, `^clocks: 30 2 \* \* \*, America/New_York, period date \(zone data 20\d\d[a-z]\)$`, lines[0])
	require.Regexp(t, `^America/New_York +UTC +Europe/Paris +PERIOD +NOTE$`, lines[1])
	require.Regexp(t, `^Sat 2026-03-07 02:30:00 -0500 +2026-03-07T07:30:00Z +Sat 2026-03-07 08:30:00 \+0100 +2026-03-07 *$`, lines[2])
	require.Regexp(t, `^Sun 2026-03-08 03:00:00 -0400 +2026-03-08T07:00:00Z .* 2026-03-08  gap: the clocks leave 02:30 out; the first valid instant; `+
		`the clocks of America/New_York go forward by 1h, to Sun 2026-03-08 03:00 -0400$`, lines[3])
	require.Regexp(t, `^Mon 2026-03-09 02:30:00 -0400 `, lines[4])

	out, _, code = run(t, "schedules", "preview", "clocks", "--config", file, "--from", "2026-11-01T00:00", "--next", "1", "--json")
	require.Equal(t, app.ExitOK, code)
	var got preview
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Len(t, got.Upcoming, 1)
	require.Equal(t, "2026-11-01", got.Upcoming[0].Period)
	require.Len(t, got.Jumps, 1)
	require.Equal(t, "-1h0m0s", got.Jumps[0].By)
	require.Equal(t, "clocks", got.Schedule.Name)
	require.False(t, got.Exhausted)
}

func TestC09PreviewWarnsOfDayOrWeekday(t *testing.T) {
	t.Parallel()
	file := write(t, "duly.yaml", scheduleConfig)
	out, _, code := run(t, "schedules", "preview", "either", "--config", file, "--from", "2026-09-01T12:00:00Z", "--next", "10")
	require.Equal(t, app.ExitOK, code)
	require.Contains(t, out, `warning: day "1-7" and weekday "MON": it fires on days that fit either of them`)
	require.Len(t, strings.Split(strings.TrimSpace(out), "\n"), 3+10)
}

func TestPreviewShowsWhatIsMoved(t *testing.T) {
	t.Parallel()
	file := write(t, "duly.yaml", scheduleConfig)
	out, _, code := run(t, "schedules", "preview", "first", "--config", file, "--from", "2026-04-15", "--next", "1", "--json")
	require.Equal(t, app.ExitOK, code)
	var got preview
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Equal(t, upcoming{
		At: got.Upcoming[0].At, Local: "Thu 2026-04-30 09:00:00 +0200", Wall: "2026-04-30T09:00:00", Period: "2026-05", Fit: "once",
		MovedFrom: "2026-05-01", Closed: "Fête du Travail", Note: "moved from Fri 2026-05-01: Fête du Travail",
	}, got.Upcoming[0])
}

func TestPreviewSaysWhenTheLastRecipientIsDue(t *testing.T) {
	t.Parallel()
	file := write(t, "duly.yaml", scheduleConfig)
	out, _, code := run(t, "schedules", "preview", "ours", "--config", file, "--from", "2026-04-15", "--next", "1")
	require.Equal(t, app.ExitOK, code)
	require.Contains(t, out, "on each recipient's clock, without one on that of Asia/Kolkata (given as Asia/Calcutta)")
	require.Contains(t, out, "OPENS")
	out, _, code = run(t, "schedules", "preview", "ours", "--config", file, "--from", "2026-04-15", "--next", "1", "--json")
	require.Equal(t, app.ExitOK, code)
	var got preview
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Equal(t, "26h0m0s", got.Upcoming[0].LastDue.Sub(got.Upcoming[0].At).String())
}

func TestPreviewRefusesWhatItCannotShow(t *testing.T) {
	t.Parallel()
	file := write(t, "duly.yaml", scheduleConfig)
	_, stderr, code := run(t, "schedules", "preview", "weekly", "--config", file)
	require.Equal(t, app.ExitRefused, code)
	require.Contains(t, stderr, `there is no schedule "weekly"`)
	_, stderr, code = run(t, "schedules", "preview", "first", "--config", file, "--from", "tomorrow", "--zone", "Local", "--next", "0")
	require.Equal(t, app.ExitUsage, code)
	require.Contains(t, stderr, `--from "tomorrow"`)
	require.Contains(t, stderr, `zone "Local": it must be an IANA time zone`)
	require.Contains(t, stderr, "--next 0: it must be between 1 and 10000")
	_, _, code = run(t, "schedules", "list", "--config", file+".none")
	require.Equal(t, app.ExitUsage, code)
}

func TestSchedulesAreListedWithTheirNextOccurrence(t *testing.T) {
	t.Parallel()
	file := write(t, "duly.yaml", scheduleConfig)
	out, _, code := run(t, "schedules", "list", "--config", file)
	require.Equal(t, app.ExitOK, code)
	require.Regexp(t, `(?m)^first +digest +0 9 1 \* \* +Europe/Paris +month +latest +20\d\d-`, out)
	out, _, code = run(t, "schedules", "list", "--config", file, "--json")
	require.Equal(t, app.ExitOK, code)
	var got []listedSchedule
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Len(t, got, 4)
	require.Equal(t, "clocks", got[0].Name)
	require.NotNil(t, got[0].Next)
	require.Len(t, got[1].Warnings, 1)
}

func TestAScheduleWithoutAnEndIsSaidToEnd(t *testing.T) {
	t.Parallel()
	file := write(t, "duly.yaml", scheduleConfig)
	out, _, code := run(t, "schedules", "preview", "first", "--config", file, "--from", "2200-11-15")
	require.Equal(t, app.ExitOK, code)
	require.Contains(t, out, "it does not fire again before the year 2201")
}
