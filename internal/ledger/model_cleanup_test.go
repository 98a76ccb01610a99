package ledger_test

import (
	"errors"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// cleaning is a cleanup that was taken from both ledgers.
type cleaning struct{ pg, mem machine.CleanupTask }

// clean takes what is due to be cleaned up.
func (tw *twins) clean() {
	kind := tw.kind()
	by := rapid.SampledFrom([]machine.Means{machine.MeansSQL, machine.MeansGo}).Draw(tw.t, "by")
	type taken struct {
		Tasks  []machine.CleanupTask
		Parked int
	}
	pg, mem := both(tw, "take cleanups",
		func() (t taken, err error) {
			t.Tasks, t.Parked, err = tw.pg.TakeCleanups(tw.clock.ctx, kind.Name, by, 100, hold)
			return t, err
		},
		func() (t taken, err error) {
			t.Tasks, t.Parked, err = tw.mem.TakeCleanups(tw.clock.ctx, kind.Name, by, 100, hold)
			return t, err
		})
	byKey := func(a, b machine.CleanupTask) int { return strings.Compare(a.Key, b.Key) }
	slices.SortFunc(pg.Tasks, byKey)
	slices.SortFunc(mem.Tasks, byKey)
	var shown, wanted []machine.CleanupTask
	for _, t := range pg.Tasks {
		t.Job, t.FailingSince = 0, tw.clock.toVirtual(t.FailingSince)
		shown = append(shown, t)
	}
	for _, t := range mem.Tasks {
		t.Job = 0
		wanted = append(wanted, t)
	}
	tw.alike("cleanups", shown, wanted)
	tw.alike("parked cleanups", pg.Parked, mem.Parked)
	tw.happened["cleanup parked"] += pg.Parked
	for i := range pg.Tasks {
		c := cleaning{pg.Tasks[i], mem.Tasks[i]}
		c.pg.FailingSince = shown[i].FailingSince
		tw.cleaning = append(tw.cleaning, c)
		tw.happened["cleanup of "+string(c.mem.State)]++
	}
}

// cleaned says what came of cleanups that were taken: of some again, of some late.
func (tw *twins) cleaned() {
	if len(tw.cleaning) == 0 {
		tw.t.Skip("nothing is to be cleaned up yet")
	}
	c := rapid.SampledFrom(tw.cleaning[max(0, len(tw.cleaning)-4):]).Draw(tw.t, "cleanup")
	why := rapid.SampledFrom([]string{"", "it failed"}).Draw(tw.t, "why")
	result := func(t machine.CleanupTask) []machine.CleanupResult {
		return []machine.CleanupResult{{CleanupTask: t, Error: why, Rows: 2}}
	}
	c.pg.FailingSince = tw.clock.toReal(c.pg.FailingSince)
	pg, mem := both(tw, "note a cleanup",
		func() ([]machine.CleanupOutcome, error) {
			return tw.pg.NoteCleanups(tw.clock.ctx, result(c.pg))
		},
		func() ([]machine.CleanupOutcome, error) {
			return tw.mem.NoteCleanups(tw.clock.ctx, result(c.mem))
		})
	tw.alike("noted cleanup", pg, mem)
	tw.happened["cleanup "+string(mem[0])]++
}

// retryCleanup is a person's decision.
func (tw *twins) retryCleanup() {
	key := tw.key()
	r := machine.CleanupRetry{Kind: kindOf(key), Key: name(key), Actor: "ann", Reason: "repaired"}
	pg, mem := both(tw, "retry a cleanup",
		func() (machine.Cleanup, error) { return plain(tw.pg.RetryCleanup(tw.clock.ctx, r)) },
		func() (machine.Cleanup, error) { return plain(tw.mem.RetryCleanup(tw.clock.ctx, r)) })
	tw.alike("retried cleanup", virtualCleanup(pg, tw.clock.toVirtual), mem)
}

// giveUpCleanup is another one.
func (tw *twins) giveUpCleanup() {
	key := tw.key()
	r := machine.CleanupGiveUp{Kind: kindOf(key), Key: name(key), Actor: "ann", Reason: "removed by hand"}
	pg, mem := both(tw, "give up a cleanup",
		func() (machine.Cleanup, error) { return plain(tw.pg.GiveUpCleanup(tw.clock.ctx, r)) },
		func() (machine.Cleanup, error) { return plain(tw.mem.GiveUpCleanup(tw.clock.ctx, r)) })
	tw.alike("given up cleanup", virtualCleanup(pg, tw.clock.toVirtual), mem)
	if !mem.GivenUpAt.IsZero() {
		tw.happened["cleanup given up"]++
	}
}

// plain leaves of an error what it is, without what it says.
func plain[T any](v T, err error) (T, error) {
	for _, is := range []error{job.ErrNotFound, job.ErrRefused} {
		if errors.Is(err, is) {
			return v, is
		}
	}
	return v, err
}

// gates: in both ledgers, what has ended of a kind with a gate has a cleanup, and what has
// not ended has none that could run.
func (tw *twins) gates(key string, s machine.Story) {
	g, ok := s.Current()
	if !ok {
		return
	}
	c := s.Cleanup
	open := c != machine.Cleanup{} && c.DoneAt.IsZero()
	require.False(tw.t, open && !g.Over(), "%s is %s and has a cleanup that is not done", key, g.State)
	require.False(tw.t, g.Kind.Cleanup != nil && g.Over() && c == machine.Cleanup{}, "%s is %s and has no cleanup", key, g.State)
}
