package e2e_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// weeklyRun is a schedule that nobody but a person fires, to everybody in a table of the
// ledger's database; {select} is put in.
const weeklyRun = `
schedules:
  weekly:
    cron: "0 9 * * MON"
    zone: UTC
    period: iso-week
    catch_up: none
    kind: deduped
    key: "weekly:{period}:{customer}"
    select: |
      SELECT customer, url AS destination, (1 / divisor)::text AS payload FROM recipient ORDER BY n
`

// Bad input: a selection with duplicate keys and NULL destinations makes a run of the other
// rows and a report of each of these; one that fails in the middle leaves no half run, says
// why, and is frozen once it is repaired. All of it by the tools.
func TestG10ABadSelectionIsReportedRowByRowAndAFailingOneLeavesNothing(t *testing.T) {
	t.Parallel()
	s := quick
	s.Schedules = weeklyRun
	r := newRig(t, s, servers{})
	exec := func(sql string, args ...any) {
		_, err := r.pool.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}
	exec(`CREATE TABLE recipient (n int PRIMARY KEY, customer text, url text, divisor int NOT NULL DEFAULT 1)`)
	exec(`INSERT INTO recipient SELECT n, 'c' || n, $1 FROM generate_series(1, 5000) n`, r.web.url)
	exec(`UPDATE recipient SET divisor = 0 WHERE n = 4500`) // behind what is read first
	exec(`UPDATE recipient SET customer = 'c10' WHERE n IN (11, 4000)`)
	exec(`UPDATE recipient SET url = NULL WHERE n IN (20, 21, 4001)`)
	exec(`UPDATE recipient SET customer = NULL WHERE n = 30`)
	period := isoWeek(time.Now().Add(-14 * 24 * time.Hour))
	stdout, stderr, code := r.duly("runs", "start", "weekly", "--period", period, "--json")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, `"created_now":true`)

	r.start(scheduler)
	var shown shownRun
	show := func() shownRun {
		stdout, stderr, code := r.dlq("runs", "show", "--json", "weekly", period)
		require.Zero(t, code, stderr)
		shown = shownRun{}
		require.NoError(t, json.Unmarshal([]byte(stdout), &shown))
		return shown
	}
	r.await("the selection has failed", func() bool { return show().Tries > 0 })
	require.Equal(t, machine.RunOpen, shown.State)
	require.Contains(t, shown.Error, "22012", "a division by zero, without the value")
	stdout, _, code = r.dlq("runs", "show", "weekly", period)
	require.Zero(t, code)
	require.Contains(t, stdout, "its freeze failed")
	var jobs, members, refusals int
	require.NoError(t, r.pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM duly.job), (SELECT count(*) FROM duly.run_member), (SELECT count(*) FROM duly.run_refused)`).Scan(&jobs, &members, &refusals))
	require.Equal(t, []int{0, 0, 0}, []int{jobs, members, refusals}, "nothing of it was made")
	stdout, stderr, code = r.duly("check")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "1 runs: 0 disagreements")

	exec(`UPDATE recipient SET divisor = 1`)
	r.await("the run is frozen", func() bool { return show().State == machine.RunFrozen })
	require.True(t, shown.Complete)
	require.Equal(t, []int64{5000, 6, 4994}, []int64{shown.Selected, shown.Refused, shown.Expected})
	require.EqualValues(t, 4994, shown.Members.All())
	stdout, stderr, code = r.dlq("runs", "refused", "--json", "weekly", period)
	require.Zero(t, code, stderr)
	var listed struct{ Refused []machine.RefusedRow }
	require.NoError(t, json.Unmarshal([]byte(stdout), &listed))
	type told struct {
		row   int64
		field string
		rule  job.Rule
	}
	var all []told
	for _, row := range listed.Refused {
		all = append(all, told{row.Row, row.Field, row.Rule})
	}
	require.Equal(t, []told{
		{11, "key", job.RuleTwice},
		{20, "destination", job.RuleRequired},
		{21, "destination", job.RuleRequired},
		{30, "key", job.RuleRequired},
		{4000, "key", job.RuleTwice},
		{4001, "destination", job.RuleRequired},
	}, all)
	stdout, _, code = r.dlq("runs", "refused", "weekly", period)
	require.Zero(t, code)
	require.Contains(t, stdout, "another row of the selection has this key")
	stdout, stderr, code = r.duly("check")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "1 runs: 0 disagreements")
}

func isoWeek(t time.Time) string {
	year, week := t.UTC().ISOWeek()
	return fmt.Sprintf("%d-W%02d", year, week)
}
