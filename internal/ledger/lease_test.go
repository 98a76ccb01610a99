package ledger_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/ledger/ledgertest"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// crew is a worker on a bench.
type crew struct {
	*bench
	worker machine.Worker
	kind   machine.Kind
}

func newCrew(t testing.TB, change ...func(*machine.Kind)) *crew {
	t.Helper()
	return crewOn(newBench(t), change...)
}

func crewOn(b *bench, change ...func(*machine.Kind)) *crew {
	b.t.Helper()
	k := machine.Kind{Name: kind, Lane: lane, Channel: "go", Policy: machine.DefaultPolicy(), Promises: machine.DefaultPromises(10 * time.Second)}
	for _, c := range change {
		c(&k)
	}
	require.NoError(b.t, b.SyncKinds(b.t.Context(), []machine.Kind{k}))
	c := &crew{bench: b, kind: k}
	c.worker = c.register()
	return c
}

func (c *crew) register() machine.Worker {
	c.t.Helper()
	w := machine.Worker{ID: uuid.NewString(), Label: "test", Version: "v1", LeaseTime: 30 * time.Second}
	require.NoError(c.t, c.RegisterWorker(c.t.Context(), w))
	return w
}

func (c *crew) ask(w machine.Worker, refs ...job.Ref) machine.Leases {
	c.t.Helper()
	leases, err := c.Lease(c.t.Context(), machine.LeaseRequest{Worker: w, Kind: c.kind, Refs: refs})
	require.NoError(c.t, err)
	return leases
}

func (c *crew) settle(g machine.Grant, r job.Result) machine.Settled {
	c.t.Helper()
	settled, err := c.Settle(c.t.Context(), c.worker, []machine.Report{report(g, r)})
	require.NoError(c.t, err)
	require.Len(c.t, settled, 1)
	return settled[0]
}

func report(g machine.Grant, r job.Result) machine.Report {
	return machine.Report{
		Attempt: machine.Attempt{Job: g.Row.Job, Generation: g.Row.Generation, Fence: g.Row.Fence},
		Result:  r, Kind: &g.Row.Kind, Classifier: "test-1",
	}
}

// state reads one job row's state, attempt and fence.
func (c *crew) state(id int64) (state job.State, attempt int32, fence int64) {
	c.t.Helper()
	err := c.pool.QueryRow(c.t.Context(), `SELECT state, attempt, fence FROM duly.job WHERE id = $1 ORDER BY generation DESC LIMIT 1`, id).Scan(&state, &attempt, &fence)
	require.NoError(c.t, err)
	return state, attempt, fence
}

func (c *crew) count(query string, args ...any) int {
	c.t.Helper()
	var n int
	require.NoError(c.t, c.pool.QueryRow(c.t.Context(), query, args...).Scan(&n))
	return n
}

// redate moves the instants of a job by d, as if time had passed.
func (c *crew) redate(id int64, d time.Duration) {
	c.exec(`UPDATE duly.job SET wake_at = wake_at + $2::interval, promote_at = promote_at + $2::interval, leased_at = leased_at + $2::interval,
	        doubt_since = doubt_since + $2::interval, doubt_until = doubt_until + $2::interval WHERE id = $1`, id, d)
}

func TestLeaseGrantsWhatIsReadyAndTellsTheRestApart(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	refs := c.enqueue("batch", 3)
	stale := job.Ref{Job: refs[2].Job, Generation: 1, Emission: 9}
	missing := job.Ref{Job: 1 << 40, Generation: 1, Emission: 1}
	leases := c.ask(c.worker, refs[1], stale, refs[0], missing)

	require.Len(t, leases.Grants, 2)
	require.ElementsMatch(t, []job.Ref{stale, missing}, leases.Stale)
	require.Empty(t, leases.Early)
	for _, g := range leases.Grants {
		require.Equal(t, job.Leased, g.Row.State)
		require.EqualValues(t, 1, g.Row.Attempt)
		require.EqualValues(t, 1, g.Row.Fence)
		require.Equal(t, "go", g.Row.Channel)
		require.NotEmpty(t, g.Key)
		require.NotEmpty(t, g.Payload)
	}
	require.Equal(t, 1, c.count(`SELECT count(*)::int FROM duly.lease WHERE cardinality(jobs) = 2`), "one lease row a statement")
}

func TestG6StaleReferencesDoNothing(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	ref := c.enqueue("once", 1)[0]
	g := c.ask(c.worker, ref).Grants[0]
	require.Len(t, c.ask(c.register(), ref).Stale, 1, "a leased row is not leased again")
	c.settle(g, job.Done(nil))
	require.Len(t, c.ask(c.worker, ref).Stale, 1, "a delivered row is not leased again")
	state, attempt, fence := c.state(ref.Job)
	require.Equal(t, job.Delivered, state)
	require.EqualValues(t, 1, attempt)
	require.EqualValues(t, 1, fence)
}

func TestOneReferenceIsLeasedByOneOfManyWorkers(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	refs := c.enqueue("contended", 200)
	var mu sync.Mutex
	granted := make(map[int64]int)
	var group sync.WaitGroup
	for range 6 {
		w := c.register()
		group.Go(func() {
			leases, err := c.Lease(t.Context(), machine.LeaseRequest{Worker: w, Kind: c.kind, Refs: refs})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for _, g := range leases.Grants {
				granted[g.Row.Job]++
			}
		})
	}
	group.Wait()
	require.Len(t, granted, 200)
	for id, n := range granted {
		require.Equal(t, 1, n, "job %d", id)
	}
	require.Equal(t, 200, c.count(`SELECT count(*)::int FROM duly.job WHERE state = 'leased' AND fence = 1 AND attempt = 1`))
}

func TestG5EndedWorkerLeasesAndRenewsNothing(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	refs := c.enqueue("ended", 2)
	require.NoError(t, c.EndWorker(t.Context(), c.worker.ID))
	_, err := c.Lease(t.Context(), machine.LeaseRequest{Worker: c.worker, Kind: c.kind, Refs: refs})
	require.ErrorIs(t, err, machine.ErrWorkerEnded)
	_, err = c.Heartbeat(t.Context(), c.worker.ID)
	require.ErrorIs(t, err, machine.ErrWorkerEnded)
	_, err = c.Lease(t.Context(), machine.LeaseRequest{Worker: machine.Worker{ID: uuid.NewString()}, Kind: c.kind, Refs: refs})
	require.ErrorIs(t, err, machine.ErrWorkerEnded, "a worker that never registered")
	state, _, fence := c.state(refs[0].Job)
	require.Equal(t, job.Ready, state)
	require.Zero(t, fence)
}

func TestRetryIsLeasedByItsDelayedEmissionOnceItsTimeHasCome(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	ref := c.enqueue("retry", 1)[0]
	settled := c.settle(c.ask(c.worker, ref).Grants[0], job.NotDone(job.ClassTransient, job.CodeUnreachable, "no route"))
	require.Equal(t, job.Scheduled, settled.State)
	require.False(t, settled.WakeAt.IsZero())

	delayed := job.Ref{Job: ref.Job, Generation: 1, Emission: 2}
	early := c.ask(c.worker, delayed)
	require.Len(t, early.Early, 1)
	require.Positive(t, early.Early[0].In)

	c.redate(ref.Job, -time.Hour)
	leases := c.ask(c.worker, delayed)
	require.Len(t, leases.Grants, 1)
	require.EqualValues(t, 2, leases.Grants[0].Row.Attempt)
	require.EqualValues(t, 2, leases.Grants[0].Row.Fence)
}

func TestG7NothingIsLeasedAfterItsDeadline(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	ref := c.enqueue("late", 1)[0]
	c.exec(`UPDATE duly.job SET deadline = clock_timestamp() - interval '1 s', expires_at = clock_timestamp() - interval '1 s' WHERE id = $1`, ref.Job)
	leases := c.ask(c.worker, ref)
	require.Empty(t, leases.Grants)
	require.Len(t, leases.Stale, 1)
	state, attempt, _ := c.state(ref.Job)
	require.Equal(t, job.Quarantined, state)
	require.Zero(t, attempt)
	require.Equal(t, 1, c.count(`SELECT count(*)::int FROM duly.quarantine WHERE job = $1 AND reason = 'deadline_passed'`, ref.Job))
	require.Equal(t, 1, c.count(`SELECT count(*)::int FROM duly.outbox WHERE topic = '.dead' AND jobs = ARRAY[$1::bigint]`, ref.Job))
}

func TestG8DoubtfulRepeatIsDecidedByItsWindow(t *testing.T) {
	t.Parallel()
	c := newCrew(t, func(k *machine.Kind) { k.Promises.Window = time.Hour })
	ref := c.enqueue("window", 1)[0]
	settled := c.settle(c.ask(c.worker, ref).Grants[0], job.MayBeDone(job.CodeTimeout, "no answer"))
	require.Equal(t, job.Scheduled, settled.State, "the receiver dedupes: the same key again")
	delayed := job.Ref{Job: ref.Job, Generation: 1, Emission: 2}

	c.redate(ref.Job, -30*time.Minute)
	g := c.ask(c.worker, delayed).Grants
	require.Len(t, g, 1)
	require.True(t, g[0].Row.InDoubt())
	require.Equal(t, job.Scheduled, c.settle(g[0], job.NotDone(job.ClassTransient, job.CodeThrottled, "")).State)

	c.redate(ref.Job, -45*time.Minute)
	last := c.ask(c.worker, job.Ref{Job: ref.Job, Generation: 1, Emission: 3})
	require.Empty(t, last.Grants, "the window is over")
	state, _, _ := c.state(ref.Job)
	require.Equal(t, job.Unknown, state)
	require.Equal(t, 1, c.count(`SELECT count(*)::int FROM duly.unknown WHERE job = $1 AND NOT closed`, ref.Job))
}

// The jobs fit on one page with all their versions, so that only an index that names
// something which a lease or a delivery changes could end HOT.
func TestFirstLeaseAndDeliveryAreHOT(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	refs := c.enqueue("hot", 10)
	grants := c.ask(c.worker, refs...).Grants
	reports := make([]machine.Report, len(grants))
	for i, g := range grants {
		reports[i] = report(g, job.Done(nil))
	}
	_, err := c.Settle(t.Context(), c.worker, reports)
	require.NoError(t, err)
	var updates, hot int
	require.Eventually(t, func() bool { // a connection tells its counts when it has been idle for a while
		err := c.pool.QueryRow(t.Context(), `SELECT n_tup_upd::int, n_tup_hot_upd::int FROM pg_stat_user_tables WHERE schemaname = 'duly' AND relname = 'job'`).Scan(&updates, &hot)
		return err == nil && updates >= 20
	}, time.Minute, 100*time.Millisecond)
	require.Equal(t, updates, hot)
}

func TestC66LeaseWhoseReplyIsLostIsReadBack(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]bool{"request lost": true, "reply lost": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := ledgertest.URL(t)
			sound := benchOn(t, ledgertest.Pool(t, url))
			c := &crew{bench: sound, kind: machine.Kind{Name: kind, Lane: lane, Channel: "go", Policy: machine.DefaultPolicy(), Promises: machine.DefaultPromises(10 * time.Second)}}
			c.worker = c.register()
			refs := c.enqueue("cut", 3)
			cut := &cut{loseRequest: lost}
			l := ledger.New(cut.pool(t, url))
			request := machine.LeaseRequest{Worker: c.worker, Kind: c.kind}
			_, err := l.Lease(t.Context(), request) // warms caches and connection
			require.NoError(t, err)

			cut.armed.Store(true)
			request.Refs = refs
			_, err = l.Lease(t.Context(), request)
			require.ErrorIs(t, err, machine.ErrUnclear)
			require.True(t, cut.happened.Load())

			grants, err := l.LeasedBy(t.Context(), c.worker.ID, refs)
			require.NoError(t, err)
			held, err := l.Heartbeat(t.Context(), c.worker.ID)
			require.NoError(t, err)
			if lost {
				require.Empty(t, grants)
				require.Empty(t, held)
				return
			}
			require.Len(t, grants, 3, "what was leased is found, with what its effect needs")
			require.Len(t, held, 3, "and the heartbeat tells of it")
			require.NotEmpty(t, grants[0].Payload)
		})
	}
}

// A producer's transaction that has cancelled a job and stays open must not stop the
// lane: its neighbours are leased, and it is asked about again.
func TestRowThatSomebodyHasLockedDoesNotHoldUpItsNeighbours(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(pgx.Tx) error{
		"rolled back": func(tx pgx.Tx) error { return tx.Rollback(t.Context()) },
		"committed":   func(tx pgx.Tx) error { return tx.Commit(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCrew(t)
			refs := c.enqueue("locked", 20)
			missing := job.Ref{Job: 1 << 40, Generation: 1, Emission: 1}
			tx, err := c.pool.Begin(t.Context())
			require.NoError(t, err)
			_, err = c.CancelIn(t.Context(), tx, machine.Cancellation{Kind: kind, Key: "locked-7", Actor: "producer", Reason: "no longer wanted"})
			require.NoError(t, err)
			var locked job.Ref
			require.NoError(t, tx.QueryRow(t.Context(), `SELECT id, generation, emission FROM duly.job WHERE state = 'cancelled'`).Scan(&locked.Job, &locked.Generation, &locked.Emission))

			leases := c.ask(c.worker, append(refs, missing)...)
			require.Len(t, leases.Grants, 19)
			require.Equal(t, []job.Ref{missing}, leases.Stale)
			require.Len(t, leases.Early, 1)
			require.Equal(t, locked, leases.Early[0].Ref)
			require.Positive(t, leases.Early[0].In)

			require.NoError(t, end(tx))
			leases = c.ask(c.worker, locked)
			if name == "committed" {
				require.Equal(t, []job.Ref{locked}, leases.Stale)
				return
			}
			require.Len(t, leases.Grants, 1)
		})
	}
}
