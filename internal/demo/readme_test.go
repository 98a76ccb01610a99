package demo

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/examples"
)

// The output in README.md is the demonstration's own: what it would print today.
func TestTheReadmeShowsWhatTheDemonstrationPrints(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	shown := string(readme)
	for _, b := range mailPlan {
		require.Contains(t, shown, b.does)
		require.Contains(t, shown, b.why)
	}
	for _, b := range hookPlan {
		require.Contains(t, shown, b.does)
		require.Contains(t, shown, b.why)
	}
	require.Contains(t, shown, "rows:      "+strconv.Itoa(rowsOf(examples.Renewals))+" = ")
	require.Contains(t, shown, "0 lost, 0 effects twice")
}
