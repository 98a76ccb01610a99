package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// How long ago a mark was issued says nothing: a stopped relay, a backlog or a dead fleet
// keeps it standing for hours, and nothing is lost.
func TestMarkThatStandsIsNeverJudgedHoweverOldItIs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	b.enqueue("a", 3)
	b.announced()
	m := b.mark(0)
	b.exec(`UPDATE duly.mark SET issued_at = issued_at - interval '3 h'`)
	require.True(t, b.stands())
	require.Zero(t, b.judge(10))
	b.pass(0, m.Number)
	b.ripen()
	require.Equal(t, 3, b.judge(10))
}
