package ledger_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/ledger/ledgertest"
	"duly.dev/duly/internal/machine"
)

// age moves everything that is in the outbox to the leaf that is written in an hour,
// which is as far from now as a leaf can be.
func (b *bench) age() {
	b.t.Helper()
	b.exec(`WITH old AS (DELETE FROM duly.outbox WHERE slot >= 0 RETURNING *)
		INSERT INTO duly.outbox (slot, kind, id, xid, at, topic, jobs, generations, emissions, trace_parent)
		SELECT (extract(epoch FROM clock_timestamp())::bigint / 600 + 6) % 12, kind, id, xid, at, topic, jobs, generations, emissions, trace_parent FROM old`)
}

func (b *bench) keep() int {
	b.t.Helper()
	n, err := b.KeepOutbox(b.t.Context())
	require.NoError(b.t, err)
	return n
}

func (b *bench) count(sql string, args ...any) (n int) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), sql, args...).Scan(&n))
	return n
}

// judged relays everything, and has it judged.
func (b *bench) judged() {
	b.t.Helper()
	b.announced()
	b.pass(0, b.mark(0).Number)
	b.ripen()
	b.judge(1000)
}

func TestLeafThatHasDoneItsWorkIsEmptied(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	b.claim(machine.DeadTopic)
	b.lease(b.enqueue("a", 3)...)
	b.write(machine.DeadTopic, 1)
	b.judged()
	b.relay(machine.DeadTopic, 10)
	require.Zero(t, b.keep(), "the leaf of now is never emptied")
	b.age()
	require.Equal(t, 1, b.keep())
	require.Zero(t, b.count(`SELECT count(*) FROM duly.outbox`))
	require.Zero(t, b.keep())

	b.enqueue("b", 1)
	require.Len(t, b.announced(), 1, "the relay goes on")
}

func TestWhatIsStillNeededOutlivesItsLeaf(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	waiting := b.enqueue("announced, not judged, and nobody took it", 1)
	taken := b.enqueue("announced, not judged, but taken", 1)
	b.announced()
	b.lease(taken...)
	b.enqueue("not announced", 1)
	b.write("a-lane-that-nobody-knows", 77)
	b.write(machine.DeadTopic, 78) // not announced
	b.age()
	require.Equal(t, 1, b.keep())
	require.Equal(t, 4, b.count(`SELECT count(*) FROM duly.outbox_left`))
	require.Equal(t, 4, b.count(`SELECT count(*) FROM duly.outbox`))

	require.Len(t, b.announced(), 1, "the relay finds what was moved")
	b.claim(machine.DeadTopic)
	require.Equal(t, []int64{78}, b.relay(machine.DeadTopic, 10))
	b.pass(0, b.mark(0).Number)
	b.ripen()
	require.Equal(t, 2, b.judge(10), "and so does the judge")
	require.Len(t, b.announced(), 2)
	b.keep()
	require.Equal(t, 1, b.count(`SELECT count(*) FROM duly.outbox_left`), "what nobody knows stays")
	require.Empty(t, b.lease(waiting...), "it was announced anew")
}

func TestLeafWithManyLeftoversStays(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.exec(`INSERT INTO duly.outbox (topic, kind, jobs, generations, emissions)
		SELECT 'main', k.id, ARRAY[n], ARRAY[1], ARRAY[1] FROM duly.kind k, generate_series(1, 10001) n`)
	b.age()
	require.Zero(t, b.keep())
	b.claim(lane)
	require.Len(t, b.relay(lane, 1000), 10001)
	require.Equal(t, 1, b.keep())
}

func TestLeafInUseIsLeftForLater(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	b.enqueue("a", 1)
	b.judged()
	b.lease(b.announced()...)
	b.judged()
	b.age()
	reader, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = reader.Rollback(context.Background()) }()
	_, err = reader.Exec(t.Context(), `SELECT FROM duly.outbox`)
	require.NoError(t, err)
	require.Zero(t, b.keep())
	require.NoError(t, reader.Rollback(t.Context()))
	require.Equal(t, 1, b.keep())
}

// A page that was read before its rows were moved does not move the cursor: the
// reader's statement may have seen them in neither place.
func TestMovedRowsMakeTheRelayReadAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	b.enqueue("a", 1)
	b.age()
	page, err := b.ReadOutbox(t.Context(), lane, b.holder, 10)
	require.NoError(t, err)
	require.Len(t, page.Rows, 1)
	require.Equal(t, 1, b.keep())
	require.ErrorIs(t, b.Advance(t.Context(), lane, b.holder, page), machine.ErrLostTopic)
	require.Len(t, b.announced(), 1)
}

// What is committed while the leaf is being locked is seen once it is, whatever
// isolation the server gives to transactions that ask for none.
func TestRowsThatComeWhileTheirLeafIsLockedAreKept(t *testing.T) {
	t.Parallel()
	pool := ledgertest.New(t)
	var name string
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT quote_ident(current_database())`).Scan(&name))
	_, err := pool.Exec(t.Context(), `ALTER DATABASE `+name+` SET default_transaction_isolation = 'repeatable read'`)
	require.NoError(t, err)
	pool.Reset() // to connections that know
	b := benchOn(t, pool)
	b.claim(lane)
	rows := 1
	b.write(lane, 1)
	for emptied := 0; emptied == 0; { // a machine that is busy may be too slow for its patience
		b.age()
		blocker, err := b.pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = blocker.Exec(t.Context(), `SELECT FROM duly.topic FOR UPDATE`)
		require.NoError(t, err)
		type result struct {
			emptied int
			err     error
		}
		kept := make(chan result, 1)
		go func() {
			n, err := b.KeepOutbox(context.WithoutCancel(t.Context()))
			kept <- result{n, err}
		}()
		require.Eventually(t, func() bool {
			return b.count(`SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
				WHERE NOT l.granted AND a.datname = current_database()`) > 0 || len(kept) > 0
		}, 30*time.Second, time.Millisecond)
		b.exec(`INSERT INTO duly.outbox (slot, topic, kind, jobs, generations, emissions)
			SELECT (extract(epoch FROM clock_timestamp())::bigint / 600 + 6) % 12, $1, id, '{2}', '{1}', '{1}' FROM duly.kind`, lane)
		rows++
		require.NoError(t, blocker.Rollback(t.Context()))
		r := <-kept
		require.NoError(t, r.err)
		emptied = r.emptied
	}
	require.Equal(t, rows, b.count(`SELECT count(*) FROM duly.outbox`))
}

func TestKeepingTheOutboxUnderWayLosesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	seen := make(map[int64]bool)
	for n := range int64(60) {
		b.write(lane, n)
		if n%3 == 0 {
			b.age()
		}
		if n%5 == 0 {
			b.keep()
		}
		for _, j := range b.relayPage(lane, 2) {
			seen[j] = true
		}
	}
	for _, j := range b.relay(lane, 2) {
		seen[j] = true
	}
	require.Len(t, seen, 60)
}

// Statements walk the index whatever the planner believes: when all is empty, since
// such a plan may be kept while the tables grow, and when they are large.
func TestPlansOfTheOutboxWalkItsIndex(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.checkPlans("empty")
	b.exec(`INSERT INTO duly.job (id, due_at, kind, state, emission, key, payload)
		SELECT 1000000 + n, now(), k.id, 'delivered', 1, n::text, '{}' FROM duly.kind k, generate_series(1, 50000) n`)
	b.exec(`INSERT INTO duly.outbox (topic, kind, jobs, generations, emissions)
		SELECT 'main', k.id, ARRAY[1000000 + n], ARRAY[1], ARRAY[1] FROM duly.kind k, generate_series(1, 50000) n`)
	b.exec(`ANALYZE duly.job, duly.outbox`)
	b.checkPlans("large")
}

func (b *bench) checkPlans(when string) {
	b.t.Helper()
	ctx := b.t.Context()
	tx, err := b.pool.Begin(ctx)
	require.NoError(b.t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(ctx, b.Statement("seek"))
	require.NoError(b.t, err)
	_, err = tx.Exec(ctx, `SET LOCAL plan_cache_mode = force_generic_plan`)
	require.NoError(b.t, err)
	for name, args := range map[string]string{
		"outbox_between":   `'main', '100:200:150', '150:300:250', '0', 0, 100`,
		"outbox_depth":     `'main', 100`,
		"outbox_leftovers": `100`,
		"outbox_newer":     `'100:200:150', 100`,
		"judge_lost":       `'{1}', '{1}', '{1}', '{1}'`,
	} {
		sql := strings.ReplaceAll(b.Statement(name), "duly.outbox_leaf", "duly.outbox_0")
		_, err = tx.Exec(ctx, "PREPARE "+when+"_"+name+" AS "+sql)
		require.NoError(b.t, err)
		rows, err := tx.Query(ctx, "EXPLAIN EXECUTE "+when+"_"+name+"("+args+")", pgx.QueryExecModeSimpleProtocol)
		require.NoError(b.t, err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(b.t, err)
		plan := name + ", " + when + ":\n" + strings.Join(lines, "\n")
		require.NotContains(b.t, plan, "Seq Scan on outbox", plan)
		require.NotContains(b.t, plan, "Seq Scan on job", plan)
		require.Contains(b.t, plan, "Index", plan)
	}
}
