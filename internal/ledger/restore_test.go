package ledger_test

import (
	"bytes"
	"context"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/ledger/ledgertest"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// restored copies the ledger to a fresh cluster, as a dump and its restore do: values
// stay, transaction ids begin anew.
func (b *bench) restored() *bench {
	b.t.Helper()
	pool := ledgertest.Pool(b.t, ledgertest.OwnServer(b.t).URL())
	for _, table := range []string{
		"ledger", "kind", "terms", "job_key", "job", "quarantine", "unknown", "worker", "lease", "event",
		"outbox", "topic", "judge", "mark", "mark_passed", "unsendable", "progress", "redrive", "audit",
	} {
		b.copyTable(pool, "duly."+table)
	}
	for _, sequence := range []string{"duly.job_id", "duly.outbox_id"} {
		var last int64
		require.NoError(b.t, b.pool.QueryRow(b.t.Context(), "SELECT last_value FROM "+sequence).Scan(&last))
		_, err := pool.Exec(b.t.Context(), "SELECT setval($1, $2)", sequence, last)
		require.NoError(b.t, err)
	}
	return benchOn(b.t, pool)
}

func (b *bench) copyTable(to *pgxpool.Pool, table string) {
	b.t.Helper()
	ctx := b.t.Context()
	_, err := to.Exec(ctx, "DELETE FROM "+table)
	require.NoError(b.t, err)
	from, err := b.pool.Acquire(ctx)
	require.NoError(b.t, err)
	defer from.Release()
	into, err := to.Acquire(ctx)
	require.NoError(b.t, err)
	defer into.Release()
	var data bytes.Buffer
	_, err = from.Conn().PgConn().CopyTo(ctx, &data, "COPY (TABLE "+table+") TO STDOUT")
	require.NoError(b.t, err)
	_, err = into.Conn().PgConn().CopyFrom(ctx, &data, "COPY "+table+" FROM STDIN")
	require.NoError(b.t, err)
}

func (b *bench) checkRestored() bool {
	b.t.Helper()
	restored, err := b.CheckRestored(b.t.Context())
	require.NoError(b.t, err)
	return restored
}

func byJob(a, b job.Ref) int { return int(a.Job - b.Job) }

// C46: the cursors speak of transaction ids of the old cluster. After a dump and
// restore they begin anew, and nothing stays unrelayed or unjudged.
func TestC46NothingStaysUnrelayedAfterDumpAndRestore(t *testing.T) {
	t.Parallel()
	old := newBench(t)
	old.claim(lane)
	old.exec(`SELECT pg_current_xact_id() FROM generate_series(1, 3)`)
	taken, lost := old.enqueue("taken", 2), old.enqueue("lost", 2)
	old.announced()
	old.lease(taken...)
	mark := old.mark(0)
	unrelayed := old.enqueue("unrelayed", 2)
	old.write(machine.DeadTopic, unrelayed[0].Job)
	require.False(t, old.checkRestored())

	b := old.restored()
	fresh := b.enqueue("made in the new cluster before anybody looked", 2)
	require.True(t, b.checkRestored())
	require.False(t, b.checkRestored(), "once")
	require.False(t, b.stands(), "marks are dropped")
	b.pass(0, mark.Number) // the old one comes out of the bus

	b.holder = old.holder // its claim was restored too
	want := slices.Concat(lost, unrelayed, fresh)
	got := b.announced()
	slices.SortFunc(got, byJob)
	require.Equal(t, want, got, "what is waited for, and nothing else")
	b.claim(machine.DeadTopic)
	require.Len(t, b.relay(machine.DeadTopic, 10), 1)

	more := b.enqueue("later", 1)
	require.Equal(t, more, b.announced(), "the relay goes on")
	require.Len(t, b.lease(fresh...), 2)
	b.pass(0, b.mark(0).Number)
	b.ripen()
	require.Equal(t, 5, b.judge(2), "and so does the judge")
}

// The same by the identifier alone, as after pg_upgrade, with transactions under way.
func TestC46TransactionsUnderWayDuringTheNewBeginningAreRelayed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	var want []int64
	for n := range int64(6) {
		b.write("unknown", n)
	}
	early, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = early.Rollback(context.Background()) }()
	_, err = write(t.Context(), early, lane, 100)
	require.NoError(t, err)
	refs := b.enqueue("a", 3)
	b.announced()

	b.exec(`UPDATE duly.ledger SET system_identifier = system_identifier - 1`)
	page, err := b.ReadOutbox(t.Context(), lane, b.holder, 10)
	require.NoError(t, err)
	require.True(t, b.checkRestored())
	b.write(lane, 101)
	require.NoError(t, early.Commit(t.Context()))
	if len(page.Rows) > 0 {
		require.ErrorIs(t, b.Advance(t.Context(), lane, b.holder, page), machine.ErrLostTopic)
	}
	for _, r := range refs {
		want = append(want, r.Job)
	}
	want = append(want, 100, 101)
	got := b.relay(lane, 2)
	slices.Sort(got)
	require.Equal(t, want, got)
	require.Equal(t, 6, b.count(`SELECT count(*) FROM duly.outbox WHERE topic = 'unknown'`))
}

func TestSeveralProcessesBeginAnewOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.exec(`UPDATE duly.ledger SET system_identifier = system_identifier - 1`)
	results := make(chan bool, 4)
	for range cap(results) {
		go func() {
			restored, err := b.CheckRestored(context.Background())
			if err != nil {
				t.Errorf("checking: %v", err)
			}
			results <- restored
		}()
	}
	n := 0
	for range cap(results) {
		if <-results {
			n++
		}
	}
	require.Equal(t, 1, n)
}

func TestNoticesAreReturnedOneAReference(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	refs := b.enqueue("a", 2)
	grants := b.lease(refs[0])
	require.Len(t, grants, 1)
	notices, err := b.Notices(t.Context(), []job.Ref{refs[1], {Job: 1 << 40, Generation: 1}, refs[0]})
	require.NoError(t, err)
	require.Len(t, notices, 3)
	require.Equal(t, job.Ready, notices[0].State)
	require.True(t, notices[0].FirstAttempt.IsZero())
	require.Empty(t, notices[1].Key)
	require.Equal(t, kind, notices[2].Kind)
	require.Equal(t, int32(1), notices[2].Attempts)
	require.False(t, notices[2].FirstAttempt.IsZero())
	require.Equal(t, notices[2].FirstAttempt, notices[2].LastAttempt)
}

func TestNoticeKnowsItsFirstAttempt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ref := b.enqueue("a", 1)[0]
	b.claim(lane)
	var first machine.Grant
	for n := range 2 {
		grants := b.lease(ref)
		require.Len(t, grants, 1)
		row := grants[0].Row
		if n == 0 {
			first = grants[0]
		}
		_, err := b.Settle(t.Context(), machine.Worker{ID: row.Worker, Version: "v1"}, []machine.Report{{
			Attempt: machine.Attempt{Job: row.Job, Generation: 1, Fence: row.Fence}, Kind: &row.Kind,
			Result: job.NotDone(job.ClassTransient, job.CodeUnreachable, "refused"),
		}})
		require.NoError(t, err)
		b.exec(`UPDATE duly.job SET wake_at = clock_timestamp()`)
		ref.Emission++
	}
	notices, err := b.Notices(t.Context(), []job.Ref{ref})
	require.NoError(t, err)
	require.Equal(t, int32(2), notices[0].Attempts)
	require.WithinDuration(t, first.Row.LeasedAt, notices[0].FirstAttempt, 0)
	require.True(t, notices[0].LastAttempt.After(notices[0].FirstAttempt))
}
