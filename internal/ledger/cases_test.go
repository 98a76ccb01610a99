package ledger_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/ledger/ledgertest"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// C36: what is due in six hours is nowhere but in the ledger: no outbox row, no emission,
// nothing that a broker could deliver before its time, however often anybody looks.
func TestC36WhatWaitsIsOnNoBus(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	c.claim(lane)
	id := c.schedule("later", 1, time.Now().Add(6*time.Hour))[0]
	for range 100 { // as often as its wait has times to wait for an acknowledgement
		require.Empty(t, c.promoteAll(10).Promoted)
	}
	require.Empty(t, c.announced())
	require.Zero(t, c.count(`SELECT count(*)::int FROM duly.outbox`))
	require.Len(t, c.ask(c.worker, job.Ref{Job: id, Generation: 1, Emission: 1}).Stale, 1)
	state, attempt, fence := c.state(id)
	require.Equal(t, job.Scheduled, state)
	require.Zero(t, attempt)
	require.Zero(t, fence)
}

// C39: the clock of a process is a quarter of a century behind, or ahead. Who may lease,
// what has expired, which lease is over, and what is written down, go by the ledger's clock
// alone.
func TestC39TheLedgersClockAloneJudges(t *testing.T) {
	t.Parallel()
	for name, off := range map[string]time.Duration{"behind": 0, "ahead": 50 * 365 * 24 * time.Hour} { // a bubble begins in 2000
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := machine.Kind{Name: kind, Lane: lane, Channel: "go", Policy: machine.DefaultPolicy(), Promises: machine.DefaultPromises(10 * time.Second)}
			url := ledgertest.URL(t)
			sound := benchOn(t, ledgertest.Pool(t, url))
			refs := append(sound.enqueue("due", 2), sound.enqueue("late", 1)...)
			sound.exec(`UPDATE duly.job SET deadline = clock_timestamp(), expires_at = clock_timestamp() WHERE id = $1`, refs[2].Job)
			synctest.Test(t, func(t *testing.T) {
				<-time.After(off)
				pool, err := pgxpool.New(t.Context(), url)
				require.NoError(t, err)
				defer pool.Close()
				judgedByTheLedgersClock(t, &crew{bench: &bench{Ledger: ledger.New(pool), t: t, pool: pool}, kind: k}, refs)
			})
		})
	}
}

// judgedByTheLedgersClock works with two references that are due and one whose deadline
// has passed, in a process whose clock is years off.
func judgedByTheLedgersClock(t *testing.T, c *crew, refs []job.Ref) {
	t.Helper()
	now, err := c.Now(t.Context())
	require.NoError(t, err)
	require.Greater(t, time.Until(now).Abs(), 10*365*24*time.Hour)

	c.worker = c.register()
	leases := c.ask(c.worker, refs...)
	require.Len(t, leases.Grants, 2)
	require.Equal(t, refs[2:], leases.Stale, "its deadline has passed")
	for _, g := range leases.Grants {
		require.WithinDuration(t, now, g.Row.LeasedAt, time.Minute)
	}
	retried := c.settle(leases.Grants[0], job.NotDone(job.ClassTransient, job.CodeReceiverBusy, ""))
	require.WithinDuration(t, now, retried.WakeAt, time.Hour)
	require.Len(t, c.ask(c.worker, job.Ref{Job: refs[0].Job, Generation: 1, Emission: 2}).Early, 1, "a retry waits")

	over, err := c.EndOverrun(t.Context(), 10)
	require.NoError(t, err)
	require.Empty(t, over.Ended, "a lease that lives is not ended")
	made, err := c.Enqueue(t.Context(), c.pool, []job.Spec{
		{Kind: kind, Key: "soon", Payload: []byte(`{}`), Due: now.Add(10 * time.Minute), Deadline: now.Add(time.Hour)},
		{Kind: kind, Key: "past", Payload: []byte(`{}`), Deadline: now.Add(-time.Second)},
	})
	require.NoError(t, err)
	require.NoError(t, made[0].Refused)
	require.ErrorIs(t, made[1].Refused, job.ErrRefused)
	require.Empty(t, c.promoteAll(10).Promoted)
	require.Empty(t, c.expireAll(10))
	for _, written := range []string{"event WHERE at", "lease WHERE at", "worker WHERE seen_at"} {
		require.Zero(t, c.count(`SELECT count(*)::int FROM duly.`+written+` NOT BETWEEN now() - interval '1 h' AND now() + interval '1 h'`), written)
	}
}

// C44: a report that comes twice announces once: neither a retry nor a notice is emitted
// again.
func TestC44AReportThatComesTwiceEmitsOnce(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	grants := c.ask(c.worker, c.enqueue("twice", 3)...).Grants
	results := []job.Result{
		job.NotDone(job.ClassTransient, job.CodeReceiverBusy, ""), job.NotDone(job.ClassPermanent, job.CodeRejected, ""), job.MayBeDone(job.CodeTimeout, ""),
	}
	emitted := func() int { return c.count(`SELECT count(*)::int FROM duly.outbox`) }
	before := emitted()
	for i, g := range grants {
		c.settle(g, results[i])
		require.Equal(t, before+i+1, emitted(), "a retry, or a notice")
	}
	for range 2 {
		for i, g := range grants {
			c.settle(g, results[i])
		}
		require.Equal(t, before+len(grants), emitted())
	}
}

// C67: a deadlock or a serialization failure, after which nothing is committed, is tried
// again a bounded number of times; a COMMIT of which nobody knows the end never is.
func TestC67ConflictsAreTriedAgainAndUnclearCommitsAreNot(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, c := range map[string]struct {
		err   error
		until int // the try from which on there is no error any more
		tries int
		fails bool
	}{
		"a deadlock that passes":              {&pgconn.PgError{Code: "40P01"}, 3, 3, false},
		"a serialization failure that passes": {&pgconn.PgError{Code: "40001"}, 2, 2, false},
		"a deadlock for ever":                 {&pgconn.PgError{Code: "40P01"}, 1000, ledger.MaxConflicts, true},
		"a unique violation":                  {&pgconn.PgError{Code: "23505"}, 1000, 1, true},
		"an unclear commit":                   {machine.ErrUnclear, 1000, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tries := 0
			err := b.InTx(t.Context(), "testing", func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), `SELECT 1`)
				if tries++; tries < c.until {
					err = errors.Join(err, c.err)
				}
				return err
			})
			require.Equal(t, c.tries, tries)
			require.Equal(t, c.fails, err != nil)
			if c.fails {
				require.ErrorIs(t, err, c.err)
			}
		})
	}
}

// C69: whoever holds a snapshot for long is seen, in transactions, before the tables grow.
func TestC69AHeldSnapshotIsSeen(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	idle, err := b.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	defer func() { require.NoError(t, idle.Rollback(t.Context())) }()
	_, err = idle.Exec(t.Context(), `SELECT count(*) FROM duly.job`)
	require.NoError(t, err)
	for n := range int64(60) {
		b.write(lane, n) // a transaction each
	}
	f, err := b.Figures(t.Context(), 10)
	require.NoError(t, err)
	require.GreaterOrEqual(t, f.HeldXIDs, int64(60))
}

// G4: the transaction of a lease commits durably whatever the database's default is, so
// that no effect begins on a lease that a crash could undo.
func TestG4TheLeaseIsDurableWhateverTheDefaultIs(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	c.exec(`CREATE TABLE public.seen (setting text)`)
	c.exec(`CREATE FUNCTION public.see() RETURNS trigger LANGUAGE plpgsql AS
	        $$ BEGIN INSERT INTO public.seen VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$`)
	for _, table := range []string{"lease", "event", "job"} {
		c.exec(`CREATE TRIGGER see AFTER INSERT OR UPDATE ON duly.` + table + ` FOR EACH STATEMENT EXECUTE FUNCTION public.see()`)
	}
	config := c.pool.Config()
	config.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	careless := &crew{bench: &bench{Ledger: ledger.New(pool), t: t, pool: pool}, kind: c.kind}
	careless.worker = careless.register()
	refs := careless.enqueue("durable", 2)
	grants := careless.ask(careless.worker, refs...).Grants
	careless.settle(grants[0], job.Done(nil))
	careless.settle(grants[1], job.NotDone(job.ClassTransient, job.CodeReceiverBusy, ""))
	require.GreaterOrEqual(t, c.count(`SELECT count(*)::int FROM public.seen`), 6)
	require.Zero(t, c.count(`SELECT count(*)::int FROM public.seen WHERE setting <> 'on'`))
}
