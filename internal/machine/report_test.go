package machine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/pkg/job"
)

func TestASuccessIsADuplicateOnlyWhereAnotherMayHaveHadTheEffect(t *testing.T) {
	t.Parallel()
	now := time.Now()
	kind := Kind{Name: "reminder", Policy: DefaultPolicy(), Promises: DefaultPromises(time.Second)}
	base := Row{
		Job: 1, Generation: 1, Kind: kind, State: job.Leased, Attempt: 1, Fence: 1, Emission: 1,
		Created: now, Origin: now, FirstReady: now, Due: now, LeasedAt: now, Worker: "w", Fixed: true, Promises: kind.Promises,
	}
	for name, c := range map[string]struct {
		edit      func(*Row)
		late, dup bool
	}{
		"in time":                       {func(*Row) {}, false, false},
		"the first that is known":       {func(r *Row) { r.State, r.DoubtSince, r.DoubtUntil = job.Unknown, now, now }, true, false},
		"behind a person who knew":      {func(r *Row) { r.State = job.Delivered }, true, false},
		"behind another attempt":        {func(r *Row) { r.State, r.Attempt, r.Fence = job.Delivered, 2, 2 }, true, true},
		"a copy of what was said":       {func(r *Row) { r.State, r.Reported = job.Delivered, true }, true, false},
		"although it is cancelled":      {func(r *Row) { r.State = job.Cancelled }, true, true},
		"although there is a successor": {func(r *Row) { r.State, r.Successor = job.Quarantined, 2 }, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row := base
			c.edit(&row)
			r := Report{Attempt: Attempt{Job: 1, Generation: 1, Fence: 1}, Result: job.Done(nil)}
			after, change := Next(row, r.Event(Worker{ID: "w"}), now)
			s := r.Settled(after, change)
			require.Equal(t, c.late, s.Late)
			require.Equal(t, c.dup, s.Duplicate)
			require.Equal(t, after.State, s.State)
		})
	}
	require.True(t, Report{}.Settled(Row{}, Change{}).Late, "of what is not there")
}
