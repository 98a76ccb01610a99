package e2e_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// often is a schedule that fires every few seconds, to everybody in a table of the
// ledger's database.
const often = `
schedules:
  often:
    every: 4s
    zone: UTC
    period: occurrence
    catch_up: all
    kind: deduped
    key: "often:{period}:{customer}"
    select: |
      SELECT id::text AS customer, url AS destination, 'customer ' || id AS subject,
             json_build_object('text', '` + payloadMarker + ` of ' || id) AS payload, pg_sleep(0.0005)::text AS slow
      FROM customer
    deadline: {after: 1h}
`

// shownRun is what `dlq runs show --json` prints.
type shownRun struct {
	machine.Run

	Expected int64             `json:"expected"`
	Members  machine.RunCounts `json:"members"`
	Complete bool              `json:"complete"`
}

// runs asks the operator's tool for every run, the newest first.
func (r *rig) runs() []machine.Run {
	r.t.Helper()
	stdout, stderr, code := r.dlq("runs", "--json", "--limit", "1000")
	require.Zero(r.t, code, stderr)
	var listed struct {
		Runs []machine.Run `json:"runs"`
	}
	require.NoError(r.t, json.Unmarshal([]byte(stdout), &listed), stdout)
	return listed.Runs
}

// G10: two schedulers fire a schedule; one after the other is killed or stopped, often in the
// middle of a freeze, and one is started again. Each period has one run, each run all of its
// members, and each member one effect.
func TestG10RunsOfASchedule(t *testing.T) {
	t.Parallel()
	const customers = 1200
	s := quick
	s.Schedules = often
	r := newRig(t, s, servers{})
	_, err := r.pool.Exec(t.Context(), `CREATE TABLE customer (id int PRIMARY KEY, url text)`)
	require.NoError(t, err)
	_, err = r.pool.Exec(t.Context(), `INSERT INTO customer SELECT n, CASE WHEN n % 100 <> 0 THEN $1 END FROM generate_series(1, $2) n`, r.web.url, customers)
	require.NoError(t, err)
	r.web.plans(func(v *visit) { v.act(); v.answer(http.StatusOK) })
	r.start(dispatcher, worker)
	stay := r.one(scheduler)
	for range 4 {
		victim := r.one(scheduler)
		before := len(r.runs())
		r.await("a run is open", func() bool { return len(r.runs()) > before })
		victim.kill()
	}
	before := len(r.runs())
	stay.pause()
	other := r.one(scheduler)
	r.await("another goes on", func() bool { return len(r.runs()) > before+1 })
	stay.resume()
	r.await("runs are frozen", func() bool {
		for _, run := range r.runs()[1:] {
			if run.State != machine.RunFrozen {
				return false
			}
		}
		return true
	})
	stay.stop()
	other.stop()
	_, err = r.pool.Exec(t.Context(), `UPDATE customer SET url = NULL`) // whoever comes now finds nobody
	require.NoError(t, err)
	r.configureSchedules("")
	r.start(scheduler)

	want := customers - customers/100
	periods := map[string]bool{}
	frozen := 0
	for _, run := range r.runs() {
		require.False(t, periods[run.Period], "period %s has two runs", run.Period)
		periods[run.Period] = true
		if run.State != machine.RunFrozen {
			continue
		}
		frozen++
		require.Equal(t, []int64{customers, customers / 100, int64(want)}, []int64{run.Selected, run.Refused, run.Selected - run.Refused}, run.Period)
		for i := range customers {
			if (i+1)%100 != 0 {
				r.accept(deduped, "often:"+run.Period+":"+strconv.Itoa(i+1))
			}
		}
	}
	require.GreaterOrEqual(t, frozen, 5)
	require.Equal(t, map[job.State]int{job.Delivered: frozen * want}, r.account())
	for _, run := range r.runs() {
		if run.State != machine.RunFrozen {
			continue
		}
		stdout, stderr, code := r.dlq("runs", "show", "--json", "often", run.Period)
		require.Zero(t, code, stderr)
		var shown shownRun
		require.NoError(t, json.Unmarshal([]byte(stdout), &shown))
		require.True(t, shown.Complete)
		require.Equal(t, machine.RunCounts{job.Delivered: int64(want)}, shown.Members)
		stdout, stderr, code = r.dlq("runs", "refused", "--json", "--limit", "1000", "often", run.Period)
		require.Zero(t, code, stderr)
		var listed struct {
			Refused []machine.RefusedRow `json:"refused"`
		}
		require.NoError(t, json.Unmarshal([]byte(stdout), &listed))
		require.Len(t, listed.Refused, customers/100)
		require.Equal(t, job.RuleRequired, listed.Refused[0].Rule)
	}
	for _, kept := range []string{"fired"} {
		stdout, stderr, code := r.dlq("schedules", "often")
		require.Zero(t, code, stderr)
		require.Contains(t, stdout, kept)
	}
}
