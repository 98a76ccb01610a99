package app

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRetentionIsLongEnoughToRedriveWithin(t *testing.T) {
	t.Parallel()
	const kind = "kinds:\n  ping: {channel: go, max_lifetime: 10d}\n"
	require.Equal(t, 30*24*time.Hour, parse(t, kind).Retention)
	c := parse(t, "retention: 9d\n"+kind)
	require.Equal(t, 9*24*time.Hour, c.Retention)
	require.Equal(t, []string{"jobs of kind ping are removed 9d after their end, within the 10d in which they could still be redriven: " +
		"raise retention or lower kinds.ping.max_lifetime"}, c.Warnings())
	require.Equal(t, "9d", c.Summary().Retention)
	require.Equal(t, []string{`duly.yaml:1: retention: "59m": it must be at least 1h`}, problems(t, "retention: 59m\n"+kind))
}
