package ledger_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/ledger/ledgertest"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

const (
	lane = "main"
	kind = "reminder"
	// claim is longer than any test.
	claim = time.Minute
)

// bench is a ledger with one kind, and a dispatcher's view of it.
type bench struct {
	*ledger.Ledger
	t      testing.TB
	pool   *pgxpool.Pool
	holder string
}

func newBench(t testing.TB) *bench {
	t.Helper()
	return benchOn(t, ledgertest.New(t))
}

func benchOn(t testing.TB, pool *pgxpool.Pool) *bench {
	t.Helper()
	b := &bench{Ledger: ledger.New(pool), t: t, pool: pool, holder: uuid.NewString()}
	k := machine.Kind{Name: kind, Lane: lane, Channel: "go", Policy: machine.DefaultPolicy(), Promises: machine.DefaultPromises(10 * time.Second)}
	require.NoError(t, b.SyncKinds(t.Context(), []machine.Kind{k}))
	return b
}

// another is a second dispatcher on the same ledger.
func (b *bench) another() *bench {
	return &bench{Ledger: ledger.New(b.pool), t: b.t, pool: b.pool, holder: uuid.NewString()}
}

func (b *bench) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), sql, args...)
	require.NoError(b.t, err)
}

func (b *bench) claim(topic string) {
	b.t.Helper()
	ok, err := b.ClaimTopic(b.t.Context(), topic, b.holder, claim)
	require.NoError(b.t, err)
	require.True(b.t, ok, "the topic is free")
}

// enqueue makes n jobs that are due, in one transaction with one outbox row.
func (b *bench) enqueue(name string, n int) []job.Ref {
	b.t.Helper()
	specs := make([]job.Spec, n)
	for i := range specs {
		specs[i] = job.Spec{Kind: kind, Key: fmt.Sprintf("%s-%d", name, i), Payload: []byte(`{}`)}
	}
	made, err := b.Enqueue(b.t.Context(), b.pool, specs)
	require.NoError(b.t, err)
	refs := make([]job.Ref, n)
	for i, m := range made {
		refs[i] = job.Ref{Job: m.Job, Generation: 1, Emission: 1}
	}
	slices.SortFunc(refs, func(a, b job.Ref) int { return cmp.Compare(a.Job, b.Job) })
	return refs
}

// write writes one outbox row for job n, on any topic.
func write(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, topic string, n int64,
) (id int64, err error) {
	err = db.QueryRow(ctx, `INSERT INTO duly.outbox (topic, kind, jobs, generations, emissions)
		SELECT $1, id, ARRAY[$2::bigint], ARRAY[1], ARRAY[1] FROM duly.kind RETURNING id`, topic, n).Scan(&id)
	return id, err
}

func (b *bench) write(topic string, n int64) int64 {
	b.t.Helper()
	id, err := write(b.t.Context(), b.pool, topic, n)
	require.NoError(b.t, err)
	return id
}

// relayPage reads a page and advances behind it.
func (b *bench) relayPage(topic string, limit int) []int64 {
	b.t.Helper()
	page, err := b.ReadOutbox(b.t.Context(), topic, b.holder, limit)
	require.NoError(b.t, err)
	require.LessOrEqual(b.t, len(page.Rows), limit)
	if len(page.Rows) > 0 {
		require.NoError(b.t, b.Advance(b.t.Context(), topic, b.holder, page))
	}
	return jobsOf(page)
}

// relay relays until nothing is left and returns the jobs that were announced.
func (b *bench) relay(topic string, limit int) []int64 {
	b.t.Helper()
	var all []int64
	for {
		jobs := b.relayPage(topic, limit)
		if len(jobs) == 0 {
			return all
		}
		all = append(all, jobs...)
	}
}

func jobsOf(page machine.Page) []int64 {
	var jobs []int64
	for _, r := range page.Rows {
		for _, ref := range r.Refs {
			jobs = append(jobs, ref.Job)
		}
	}
	return jobs
}

func TestWhatWasEnqueuedIsRelayedOnceInOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	first, second := b.enqueue("a", 3), b.enqueue("b", 2)

	page, err := b.ReadOutbox(t.Context(), lane, b.holder, 10)
	require.NoError(t, err)
	require.True(t, page.Last)
	require.Len(t, page.Rows, 2, "a batch is one row")
	require.Equal(t, kind, page.Rows[0].Kind)
	require.Equal(t, first, page.Rows[0].Refs)
	require.Equal(t, second, page.Rows[1].Refs)
	require.Less(t, page.Rows[0].ID, page.Rows[1].ID)
	require.True(t, page.Rows[0].At.IsZero())

	require.NoError(t, b.Advance(t.Context(), lane, b.holder, page))
	require.Empty(t, b.relay(lane, 10), "what was dispatched is not dispatched again")
}

// C44: once dispatched, a copy of the page is a no-op, for a second dispatcher too.
func TestC44ASecondDispatcherRepeatsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	b.enqueue("a", 3)
	page, err := b.ReadOutbox(t.Context(), lane, b.holder, 10)
	require.NoError(t, err)
	require.NoError(t, b.Advance(t.Context(), lane, b.holder, page))
	require.ErrorIs(t, b.Advance(t.Context(), lane, b.holder, page), machine.ErrLostTopic, "a page moves the cursor once")

	other := b.another()
	require.NoError(t, b.ReleaseTopic(t.Context(), lane, b.holder))
	other.claim(lane)
	require.Empty(t, other.relay(lane, 10))
}

func TestPageThatWasNotAcknowledgedComesAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	b.enqueue("a", 3)
	first, err := b.ReadOutbox(t.Context(), lane, b.holder, 10)
	require.NoError(t, err)
	again, err := b.ReadOutbox(t.Context(), lane, b.holder, 10)
	require.NoError(t, err)
	require.Equal(t, first.Rows, again.Rows)
}

func TestTopicsAreRelayedApart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	b.claim(machine.DeadTopic)
	b.write(machine.DeadTopic, 1)
	b.write(lane, 2)
	require.Equal(t, []int64{2}, b.relay(lane, 10))
	require.Equal(t, []int64{1}, b.relay(machine.DeadTopic, 10))
	topics, err := b.Topics(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{machine.DeadTopic, lane}, topics)
}

func TestClaimExcludesOthersUntilItIsReleased(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	other := b.another()
	b.claim(lane)
	b.claim(lane) // renewed
	ok, err := other.ClaimTopic(t.Context(), lane, other.holder, claim)
	require.NoError(t, err)
	require.False(t, ok)
	_, err = other.ReadOutbox(t.Context(), lane, other.holder, 10)
	require.ErrorIs(t, err, machine.ErrLostTopic)

	require.NoError(t, other.ReleaseTopic(t.Context(), lane, other.holder), "releasing what another holds does nothing")
	ok, err = other.ClaimTopic(t.Context(), lane, other.holder, claim)
	require.NoError(t, err)
	require.False(t, ok)

	require.NoError(t, b.ReleaseTopic(t.Context(), lane, b.holder))
	other.claim(lane)
	_, err = b.ReadOutbox(t.Context(), lane, b.holder, 10)
	require.ErrorIs(t, err, machine.ErrLostTopic)
}

// C48: a dispatcher dies after it announced 3 of 4 pages and advanced behind 2. Its
// claim ends by itself, and the next goes on behind what was advanced.
func TestC48RowsOfACrashedDispatcherAreTakenOverInSeconds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ok, err := b.ClaimTopic(t.Context(), lane, b.holder, 200*time.Millisecond)
	require.NoError(t, err)
	require.True(t, ok)
	for n := range 100 {
		b.write(lane, int64(n))
	}
	done := append(b.relayPage(lane, 25), b.relayPage(lane, 25)...)
	lost, err := b.ReadOutbox(t.Context(), lane, b.holder, 25)
	require.NoError(t, err)

	next := b.another()
	require.Eventually(t, func() bool {
		ok, err := next.ClaimTopic(t.Context(), lane, next.holder, claim)
		return err == nil && ok
	}, 20*time.Second, 20*time.Millisecond, "the claim ends without its holder")
	rest := next.relay(lane, 25)
	require.Equal(t, jobsOf(lost), rest[:25], "what was announced but not advanced behind comes again")
	require.Equal(t, 100, len(done)+len(rest))
	require.ErrorIs(t, b.Advance(t.Context(), lane, b.holder, lost), machine.ErrLostTopic, "the dead one's cursor moves nothing")
}

func TestClaimFromBeforeAClockStepIsVoid(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	b.exec(`UPDATE duly.topic SET held_until = clock_timestamp() + interval '1 hour' WHERE name = $1`, lane)
	b.another().claim(lane)
}

func TestLongPassRemembersHowFarItCame(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	for n := range 10 {
		b.write(lane, int64(n))
	}
	require.Equal(t, []int64{0, 1, 2}, b.relayPage(lane, 3))
	b.write(lane, 10) // behind the pass that is open
	next := b.another()
	require.NoError(t, b.ReleaseTopic(t.Context(), lane, b.holder))
	next.claim(lane)
	require.Equal(t, []int64{3, 4, 5, 6, 7, 8, 9, 10}, next.relay(lane, 3))
}

// C69: a transaction that wrote to the outbox and stays open, and one that only holds
// a snapshot, delay nobody but themselves.
func TestC69LongTransactionsDelayNobodyElse(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	idle, err := b.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	defer func() { _ = idle.Rollback(context.Background()) }()
	var rows int
	require.NoError(t, idle.QueryRow(t.Context(), `SELECT count(*) FROM duly.topic`).Scan(&rows))

	b.write(lane, 1)
	long, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = long.Rollback(context.Background()) }()
	_, err = write(t.Context(), long, lane, 2)
	require.NoError(t, err)
	b.write(lane, 3)
	require.Equal(t, []int64{1, 3}, b.relay(lane, 10))

	for n := int64(4); n < 20; n++ {
		b.write(lane, n)
		require.Equal(t, []int64{n}, b.relay(lane, 10))
	}
	_, err = write(t.Context(), long, lane, 100)
	require.NoError(t, err)
	require.Empty(t, b.relay(lane, 10))

	require.NoError(t, long.Commit(t.Context()))
	b.write(lane, 101)
	require.Equal(t, []int64{2, 100, 101}, b.relay(lane, 10))
}

func TestLateTransactionOfManyRowsIsPaged(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	long, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = long.Rollback(context.Background()) }()
	var want []int64
	for n := range int64(20) {
		_, err = write(t.Context(), long, lane, n)
		require.NoError(t, err)
		want = append(want, n)
	}
	b.write(lane, 100)
	require.Equal(t, []int64{100}, b.relay(lane, 3))
	require.NoError(t, long.Commit(t.Context()))
	b.write(lane, 101)
	require.Equal(t, append(want, 101), b.relay(lane, 3))
}

func TestPassThatEndsWithAFullPageIsClosed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	b.write(lane, 1)
	b.write(lane, 2)
	require.Equal(t, []int64{1, 2}, b.relayPage(lane, 2))
	b.write(lane, 3)
	require.Equal(t, []int64{3}, b.relayPage(lane, 2))
}

func TestRowsOfRolledBackTransactionsNeverCome(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = write(t.Context(), tx, lane, 1)
	require.NoError(t, err)
	require.Empty(t, b.relay(lane, 10))
	require.NoError(t, tx.Rollback(t.Context()))
	b.write(lane, 2)
	require.Equal(t, []int64{2}, b.relay(lane, 10))
}

// A row that is committed between the moment at which the pass began and the reading
// of its page belongs to the next pass: the cursor must not move over it.
func TestPassReadsNothingThatItsSnapshotDidNotSee(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	late, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = late.Rollback(context.Background()) }()
	_, err = write(t.Context(), late, lane, 1)
	require.NoError(t, err)
	for n := int64(2); n < 8; n++ {
		b.write(lane, n)
	}
	require.Equal(t, []int64{2, 3}, b.relayPage(lane, 2), "the pass is open")
	require.NoError(t, late.Commit(t.Context()))
	require.Equal(t, []int64{4, 5, 6, 7}, append(b.relayPage(lane, 2), b.relayPage(lane, 2)...))
	require.Equal(t, []int64{1}, b.relay(lane, 2))
}

func TestDepthCountsWhatIsCommittedAndNotRelayed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	depth := func(most int) int {
		n, err := b.OutboxDepth(t.Context(), lane, most)
		require.NoError(t, err)
		return n
	}
	require.Equal(t, 0, depth(100))
	for n := range int64(10) {
		b.write(lane, n)
	}
	require.Equal(t, 10, depth(100))
	require.Equal(t, 4, depth(4), "no further than asked")
	b.relayPage(lane, 3)
	require.Equal(t, 7, depth(100))
	b.relay(lane, 3)
	require.Equal(t, 0, depth(100))
}

// Whatever order transactions begin, write, commit and roll back in, and wherever the
// relay stops and goes on: every committed row is relayed, and none that was not.
func TestEveryCommittedRowIsRelayedWhateverTheInterleaving(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	var n int64
	rapid.Check(t, func(r *rapid.T) {
		var open []pgx.Tx
		written := make(map[pgx.Tx][]int64)
		var committed, relayed []int64
		defer func() {
			for _, tx := range open {
				_ = tx.Rollback(context.Background())
			}
		}()
		end := func(i int, commit bool) {
			tx := open[i]
			open = slices.Delete(open, i, i+1)
			if !commit {
				require.NoError(r, tx.Rollback(context.Background()))
				return
			}
			require.NoError(r, tx.Commit(context.Background()))
			committed = append(committed, written[tx]...)
		}
		for range rapid.IntRange(1, 40).Draw(r, "steps") {
			switch rapid.IntRange(0, 4).Draw(r, "step") {
			case 0:
				if len(open) < 3 {
					tx, err := b.pool.Begin(context.Background())
					require.NoError(r, err)
					open = append(open, tx)
				}
			case 1, 2:
				if len(open) > 0 {
					tx := open[rapid.IntRange(0, len(open)-1).Draw(r, "writer")]
					n++
					_, err := write(context.Background(), tx, lane, n)
					require.NoError(r, err)
					written[tx] = append(written[tx], n)
				}
			case 3:
				if len(open) > 0 {
					end(rapid.IntRange(0, len(open)-1).Draw(r, "ended"), rapid.Bool().Draw(r, "commit"))
				}
			case 4:
				relayed = append(relayed, b.relayPage(lane, rapid.IntRange(1, 3).Draw(r, "limit"))...)
			}
		}
		for len(open) > 0 {
			end(0, true)
		}
		relayed = append(relayed, b.relay(lane, 2)...)
		slices.Sort(committed)
		slices.Sort(relayed)
		require.Equal(r, committed, relayed, "each once, since nothing crashed")
	})
}

// The same with real concurrency: producers commit while the relay runs.
func TestEveryCommittedRowIsRelayedUnderConcurrentWriters(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	const writers, transactions = 3, 60
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range transactions {
				tx, err := b.pool.Begin(context.Background())
				if err != nil {
					t.Errorf("beginning: %v", err)
					return
				}
				for k := range 3 {
					if _, err := write(context.Background(), tx, lane, int64(w*transactions*3+i*3+k)); err != nil {
						t.Errorf("writing: %v", err)
					}
				}
				if err := tx.Commit(context.Background()); err != nil {
					t.Errorf("committing: %v", err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	var relayed []int64
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		relayed = append(relayed, b.relayPage(lane, 7)...)
	}
	relayed = append(relayed, b.relay(lane, 7)...)
	slices.Sort(relayed)
	require.Len(t, slices.Compact(relayed), writers*transactions*3, "none is skipped")
}

// C50: nothing here hangs on a replication slot, so one that is dropped and made
// again loses nothing.
func TestC50RecreatedReplicationSlotLosesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	slot := "s" + uuid.NewString()[:8]
	create := func() { b.exec(`SELECT pg_create_physical_replication_slot($1, true)`, slot) }
	drop := func() { b.exec(`SELECT pg_drop_replication_slot($1)`, slot) }
	create()
	b.write(lane, 1)
	drop()
	b.write(lane, 2)
	create()
	b.write(lane, 3)
	drop()
	require.Equal(t, []int64{1, 2, 3}, b.relay(lane, 10))
}
