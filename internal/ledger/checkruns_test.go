package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// Each thing that may be wrong with a run is found, and names the run; a sound one is not,
// whatever became of its members.
func TestG10CheckFindsRunsThatDoNotAddUp(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.customers(4)
	b.exec(`UPDATE customer SET mail = NULL WHERE id = 4`)
	b.fire(b.Ledger, "2026-W42")
	b.fire(b.Ledger, "2026-W43")
	for range 2 {
		_, err := b.freeze(b.Ledger, selecting(allCustomers))
		require.NoError(t, err)
	}
	b.fire(b.Ledger, "2026-W44") // open
	b.claim(lane)
	b.deliver(b.lease(b.announced()...)...)
	b.exec(`UPDATE duly.occurrence SET period = '2026-W42'`) // what its run is of; both have one instant here

	found := func() (all []machine.Disagreement) {
		done, err := b.Check(t.Context(), ledger.CheckRequest{}, func(d machine.Disagreement) error { all = append(all, d); return nil })
		require.NoError(t, err)
		require.Equal(t, 3, done.Runs)
		return all
	}
	require.Empty(t, found())
	for name, c := range map[string]struct {
		broken, mended string
		want           machine.Disagreement
	}{
		"too few members": {
			`UPDATE duly.run SET selected = selected + 1 WHERE period = '2026-W42'`, `UPDATE duly.run SET selected = selected - 1 WHERE period = '2026-W42'`,
			machine.Disagreement{Rule: machine.RuleRun, Schedule: digest, Period: "2026-W42", Stored: "expected=4", Folded: "expected=3"},
		},
		"a refusal is gone": {
			`UPDATE duly.run_refused SET run = 2, row = 99 WHERE run = 1`, `UPDATE duly.run_refused SET run = 1, row = 4 WHERE row = 99`,
			machine.Disagreement{Rule: machine.RuleRun, Schedule: digest, Period: "2026-W42", Stored: "refused=1", Folded: "refused=0"},
		},
		"linked": {
			`UPDATE duly.run_member SET linked = true WHERE run = 2 AND job = 4`, `UPDATE duly.run_member SET linked = false`,
			machine.Disagreement{Rule: machine.RuleRun, Schedule: digest, Period: "2026-W43", Stored: "linked=0", Folded: "linked=1"},
		},
		"a member without a job": {
			`UPDATE duly.run_member SET job = 1000 WHERE run = 2 AND job = 4`, `UPDATE duly.run_member SET job = 4 WHERE job = 1000`,
			machine.Disagreement{
				Rule: machine.RuleMember, Schedule: digest, Period: "2026-W43", Stored: "1 members without a job, or a word about how it ended", Folded: "a job behind every member",
			},
		},
		"an open run with a member": {
			`INSERT INTO duly.run_member SELECT 3, job, hash FROM duly.run_member WHERE run = 1 AND job = 1`, `DELETE FROM duly.run_member WHERE run = 3`,
			machine.Disagreement{Rule: machine.RuleRun, Schedule: digest, Period: "2026-W44", Stored: "members=0", Folded: "members=1"},
		},
		"a run without an occurrence": {
			`UPDATE duly.run SET at = at + interval '1 h' WHERE id = 3`, `UPDATE duly.run SET at = at - interval '1 h' WHERE id = 3`,
			machine.Disagreement{Rule: machine.RuleOccurrence, Schedule: digest, Period: "2026-W44", Stored: "a run without an occurrence", Folded: "an occurrence that fired it"},
		},
		"an occurrence of another run": {
			`UPDATE duly.occurrence SET period = '2026-W50'`, `UPDATE duly.occurrence SET period = '2026-W42'`,
			machine.Disagreement{Rule: machine.RuleOccurrence, Schedule: digest, Period: "2026-W50", Stored: "an occurrence of run 1", Folded: "run 1 of period 2026-W42"},
		},
		"members of no run": {
			`INSERT INTO duly.run_member SELECT 99, job, hash FROM duly.run_member WHERE run = 1 AND job = 1`, `DELETE FROM duly.run_member WHERE run = 99`,
			machine.Disagreement{Rule: machine.RuleOccurrence, Stored: "1 members of run 99", Folded: "no such run"},
		},
	} {
		b.exec(c.broken)
		require.Contains(t, found(), c.want, name)
		b.exec(c.mended)
		require.Empty(t, found(), name)
	}
}

// A run whose members retention has removed is held to the counts that were kept.
func TestCheckHoldsARetiredRunToItsCounts(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	c.customers(3)
	c.fire(c.Ledger, "2026-W42")
	_, err := c.freeze(c.Ledger, selecting(allCustomers))
	require.NoError(t, err)
	c.claim(lane)
	c.deliver(c.lease(c.announced()...)...)
	_, err = c.FinishRuns(t.Context())
	require.NoError(t, err)
	c.later(2 * retention)
	c.patrol(100)
	require.Zero(t, c.count(`SELECT count(*) FROM duly.job`), "the jobs are gone, their keys say how they ended")
	broken, _ := c.check(ledger.CheckRequest{})
	require.Empty(t, broken)
	retired, err := c.RetireRun(t.Context(), time.Nanosecond)
	require.NoError(t, err)
	require.True(t, retired)
	broken, _ = c.check(ledger.CheckRequest{})
	require.Empty(t, broken)
	c.exec(`UPDATE duly.run SET counts = '{"` + string(job.Delivered) + `": 2}'`)
	broken, _ = c.check(ledger.CheckRequest{})
	require.Len(t, broken, 1)
	require.Equal(t, machine.RuleRun, broken[0].Rule)
}
