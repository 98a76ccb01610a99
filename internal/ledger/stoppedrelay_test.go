package ledger_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/machine"
)

// backlogSize says how many rows wait where a test has many of them: so many as are
// quickly made, unless DULY_TEST_BACKLOG asks for another number.
func backlogSize(t *testing.T) int {
	t.Helper()
	text := os.Getenv("DULY_TEST_BACKLOG")
	if text == "" {
		return 20_000
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, "DULY_TEST_BACKLOG")
	return n
}

// waitInOutbox makes n jobs that became ready one after the other in the time until now,
// each with an outbox row of its own in the leaf of its instant.
func (b *bench) waitInOutbox(n int, since time.Duration) {
	b.t.Helper()
	b.exec(`WITH made AS (
			INSERT INTO duly.job (id, created_at, due_at, first_ready_at, origin_at, expires_at, emission, kind, state, key, payload)
			SELECT nextval('duly.job_id'), t.at AS created_at, t.at AS due_at, t.at AS first_ready_at, t.at AS origin_at, t.at + interval '1 day', 1, k.id, 'ready', 'waits-' || n, '{}'
			FROM duly.kind k, generate_series(1, $1::int) n, LATERAL (SELECT clock_timestamp() - $2::interval * (1 - n::float / $1) AS at) t
			RETURNING id, key, kind, created_at
		), keyed AS (
			INSERT INTO duly.job_key (hash, body, job) SELECT md5(key)::uuid AS hash, md5(key)::uuid AS body, id FROM made
		)
		INSERT INTO duly.outbox (slot, topic, kind, jobs, generations, emissions)
		SELECT extract(epoch FROM created_at)::bigint / 600 % 12, $3, kind, ARRAY[id], ARRAY[1], ARRAY[1] FROM made`, n, since, lane)
}

// elapse moves what the ledger knows of marks, claims and places of loops into the past.
func (b *bench) elapse(d time.Duration) {
	b.t.Helper()
	b.exec(`UPDATE duly.mark SET issued_at = issued_at - $1::interval, passed_at = passed_at - $1::interval`, d)
	b.exec(`UPDATE duly.mark_passed SET at = at - $1::interval`, d)
	b.exec(`UPDATE duly.topic SET held_until = held_until - $1::interval`, d)
	b.exec(`UPDATE duly.progress SET at = at - $1::interval`, d)
}

// A relay that was stopped for an hour, in the middle of what it was relaying, has lost
// nothing: a mark speaks of what was relayed to its end, and not of the rows that wait,
// however many these are, and whatever is swept meanwhile. And once they are relayed, what
// the bus loses of them is found.
func TestG2RowsBehindAStoppedRelayAreNotLost(t *testing.T) {
	t.Parallel()
	const page, lost = 1000, 7
	b := newBench(t)
	n := backlogSize(t)
	b.claim(lane)
	require.Len(t, b.lease(b.enqueue("before", 10)...), 10)
	b.announced()
	b.waitInOutbox(n, time.Hour)
	require.Len(t, b.relayPage(lane, page), page, "it dies behind its first page")
	onItsWay := b.mark(0) // and a mark
	b.elapse(time.Hour)

	next := b.another()
	next.claim(lane)
	for range 3 {
		_, err := next.KeepOutbox(t.Context())
		require.NoError(t, err)
		mark := next.mark(0)
		require.Greater(t, mark.Number, onItsWay.Number)
		next.pass(0, mark.Number) // nothing else is on the bus
		next.elapse(2 * machine.JudgeAfter)
		require.Zero(t, next.judge(page), "rows that wait are not lost")
		require.Len(t, next.relayPage(lane, page), page)
	}
	rest := next.relay(lane, page)
	require.Len(t, rest, n-4*page, "each is relayed, once")
	require.Zero(t, b.count(`SELECT count(*)::int FROM duly.job WHERE emission > 1`))

	b.exec(`UPDATE duly.job SET state = 'leased', fence = 1, attempt = 1 WHERE state = 'ready' AND id <> ALL ($1)`, rest[:lost])
	mark := next.mark(0)
	next.pass(0, mark.Number)
	next.elapse(2 * machine.JudgeAfter)
	require.Equal(t, lost, next.judge(page))
	require.ElementsMatch(t, rest[:lost], next.relay(lane, page))
}
