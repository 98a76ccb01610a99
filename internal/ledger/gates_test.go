package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// Cleanups whose gate was taken out of the configuration are counted and named, until it comes back.
func TestCleanupsWithoutAGateAreTold(t *testing.T) {
	t.Parallel()
	rule := machine.DefaultCleanup()
	c := newCrew(t, func(k *machine.Kind) { k.Cleanup = &rule })
	for _, name := range []string{"a", "b"} {
		c.ended(name, job.Done(&job.Receipt{ID: "m"}))
	}
	gateless := func(rule *machine.CleanupRule) (counted int, told []machine.WaitingCleanups) {
		c.kind.Cleanup = rule
		require.NoError(t, c.SyncKinds(t.Context(), []machine.Kind{c.kind}))
		f, err := c.Figures(t.Context(), 100)
		require.NoError(t, err)
		told, err = c.GatelessCleanups(t.Context(), []machine.Kind{c.kind})
		require.NoError(t, err)
		return f.CleanupsGateless, told
	}
	counted, told := gateless(&rule)
	require.Zero(t, counted)
	require.Empty(t, told)
	counted, told = gateless(nil)
	require.Equal(t, 2, counted)
	require.Equal(t, []machine.WaitingCleanups{{Kind: kind, Count: 2}}, told)
	require.Contains(t, told[0].String(), "2 cleanups wait behind jobs of kind "+kind+", which has no cleanup any more")
	counted, _ = gateless(&rule)
	require.Zero(t, counted)
}
