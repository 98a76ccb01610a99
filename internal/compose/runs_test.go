package compose_test

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/compose"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/ledger/ledgertest"
)

// A source that is away, and one that refuses, keep no other's selections from being
// tried when a scheduler starts.
func TestASourceThatIsAwayKeepsNoOtherSelectionFromBeingTried(t *testing.T) {
	own := ledgertest.URL(t)
	strange, err := url.Parse(own)
	require.NoError(t, err)
	strange.Path = "/there-is-no-such-database"
	t.Setenv("DULY_TEST_AWAY", "postgres://nobody@127.0.0.1:1/nowhere")
	t.Setenv("DULY_TEST_STRANGE", strange.String())
	c := config(t, `
sources: {away: {env: DULY_TEST_AWAY}, strange: {env: DULY_TEST_STRANGE}}
kinds: {digest: {channel: http}}
schedules:
  a-away: &schedule
    cron: "0 9 * * MON"
    zone: UTC
    period: iso-week
    kind: digest
    key: "{period}:{customer}"
    source: away
    select: SELECT customer, destination FROM customers
  b-strange: {<<: *schedule, source: strange}
  c-strange: {<<: *schedule, source: strange}
  d-own: {<<: *schedule, source: ledger}
`)
	var log said
	s := service(t, &log)
	starting, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, compose.Scheduler(starting, s, c, ledger.New(ledgertest.Pool(t, own))))
	running(t, s)
	for _, name := range []string{"b-strange", "c-strange", "d-own"} {
		require.Eventually(t, func() bool {
			for line := range strings.Lines(log.String()) {
				if strings.Contains(line, "no run of this schedule can be frozen") && strings.Contains(line, "schedule="+name) {
					return true
				}
			}
			return false
		}, time.Minute, 20*time.Millisecond, name)
	}
}
