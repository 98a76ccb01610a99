package ledger_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/ledger/ledgertest"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

const (
	afterEnd   = 30 * 24 * time.Hour
	removeRows = `DELETE FROM generated WHERE operation_key = $1`
)

// gated gives the kind a cleanup gate.
func gated(change ...func(*machine.CleanupRule)) func(*machine.Kind) {
	return func(k *machine.Kind) {
		rule := machine.DefaultCleanup()
		for _, c := range change {
			c(&rule)
		}
		k.Cleanup = &rule
		k.Policy.Jitter = 0
	}
}

// generate makes two rows for each key, and some of nobody.
func (c *crew) generate(keys ...string) {
	c.t.Helper()
	c.exec(`CREATE TABLE IF NOT EXISTS generated (operation_key text NOT NULL, n int NOT NULL)`)
	c.exec(`CREATE TABLE IF NOT EXISTS removed (operation_key text NOT NULL, n int NOT NULL)`)
	c.exec(`CREATE OR REPLACE FUNCTION note_removed() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN INSERT INTO removed VALUES (OLD.operation_key, OLD.n); RETURN OLD; END $$`)
	c.exec(`CREATE OR REPLACE TRIGGER removed AFTER DELETE ON generated FOR EACH ROW EXECUTE FUNCTION note_removed()`)
	c.exec(`INSERT INTO generated SELECT k, n FROM unnest($1::text[]) k, generate_series(1, 2) n`, append(keys, "nobody's"))
}

func (c *crew) generated(key string) int {
	c.t.Helper()
	return c.count(`SELECT count(*)::int FROM generated WHERE operation_key = $1`, key)
}

func (c *crew) cleaner(statement string) *ledger.Cleaner {
	c.t.Helper()
	opened, err := c.OpenCleaner(c.t.Context(), ledger.CleanerOptions{Kind: kind, Statement: statement, Timeout: 2 * time.Second})
	require.NoError(c.t, err)
	c.t.Cleanup(opened.Close)
	return opened
}

func (c *crew) clean(by *ledger.Cleaner) map[machine.CleanupOutcome]int {
	c.t.Helper()
	outcomes, err := by.Clean(c.t.Context(), 100, hold)
	require.NoError(c.t, err)
	counted := make(map[machine.CleanupOutcome]int)
	for _, o := range outcomes {
		counted[o]++
	}
	return counted
}

func (c *crew) cleanup(key string) machine.Cleanup {
	c.t.Helper()
	story, err := c.Show(c.t.Context(), kind, key)
	require.NoError(c.t, err)
	return story.Cleanup
}

var oneDone = map[machine.CleanupOutcome]int{machine.CleanupDone: 1}

func TestG11RowsAreRemovedOnceAndOnlyThoseOfTheKeyAfterItsDelivery(t *testing.T) {
	t.Parallel()
	c := newCrew(t, gated())
	c.generate("mine-0", "mine-1")
	by := c.cleaner(removeRows)
	refs := c.enqueue("mine", 2)
	require.Empty(t, c.clean(by), "it is ready")
	grants := c.ask(c.worker, refs...).Grants
	c.later(2 * afterEnd)
	require.Empty(t, c.clean(by), "it is leased, for however long")

	c.settle(grants[0], job.Done(nil))
	due := c.cleanup(grants[0].Key)
	require.True(t, due.Accepted)
	require.Equal(t, oneDone, c.clean(by))
	require.Zero(t, c.generated(grants[0].Key))
	require.Equal(t, 2, c.generated(grants[1].Key), "the other is not delivered")
	require.Equal(t, 2, c.generated("nobody's"))
	done := c.cleanup(grants[0].Key)
	require.False(t, done.DoneAt.IsZero())
	require.EqualValues(t, 2, done.Rows)

	// Whatever is said again of it, and whatever is generated again under its key.
	c.generate(grants[0].Key)
	c.settle(grants[0], job.Done(nil))
	c.later(2 * afterEnd)
	require.Empty(t, c.clean(by))
	require.Equal(t, 2, c.generated(grants[0].Key))
	ledgertest.Agrees(t, c.pool)
}

func TestG11WhereOnlyAReceiptCountsADeliveryWithoutOneIsCleanedUpLikeAnyOtherEnd(t *testing.T) {
	t.Parallel()
	c := newCrew(t, gated(func(r *machine.CleanupRule) { r.When, r.From = machine.CleanupReceipt, time.Hour }))
	c.generate("r-0", "r-1", "r-2")
	by := c.cleaner(removeRows)
	grants := c.ask(c.worker, c.enqueue("r", 3)...).Grants
	c.settle(grants[0], job.Done(&job.Receipt{ID: "m-1", Status: "200"}))
	c.settle(grants[1], job.Done(nil))
	// A person's word has no receipt.
	c.settle(grants[2], job.MayBeDone(job.CodeTimeout, "x"))
	_, err := c.Resolve(t.Context(), machine.Answer{Kind: kind, Key: grants[2].Key, Fence: 1, Verdict: machine.VerdictDelivered, Evidence: "seen", Actor: "ann"})
	require.NoError(t, err)
	require.Equal(t, []bool{true, false, false}, []bool{c.cleanup(grants[0].Key).Accepted, c.cleanup(grants[1].Key).Accepted, c.cleanup(grants[2].Key).Accepted})
	require.Empty(t, c.clean(by), "not before cleanup_from")
	c.later(time.Hour)
	require.Equal(t, oneDone, c.clean(by))
	require.Zero(t, c.generated(grants[0].Key))
	c.later(afterEnd - 2*time.Hour)
	require.Empty(t, c.clean(by))
	c.later(2 * time.Hour)
	require.Equal(t, map[machine.CleanupOutcome]int{machine.CleanupDone: 2}, c.clean(by))
}

// ends are the ways to an end, each with what is due behind it: zero where nothing is.
var ends = map[string]struct {
	does  func(c *crew, name string)
	after time.Duration
	open  bool // it has not ended
}{
	"delivered":        {does: func(c *crew, name string) { c.ended(name, job.Done(nil)) }},
	"quarantined":      {does: func(c *crew, name string) { c.poison(name) }, after: afterEnd},
	"unknown":          {does: func(c *crew, name string) { c.unknown(name, 1) }, open: true},
	"retried":          {does: func(c *crew, name string) { c.ended(name, job.NotDone(job.ClassTransient, job.CodeUnreachable, "x")) }, open: true},
	"cancelled before": {does: func(c *crew, name string) { c.enqueue(name, 1); c.cancelled(name) }, after: afterEnd},
	"cancelled in its end": {does: func(c *crew, name string) {
		g := c.ask(c.worker, c.enqueue(name, 1)...).Grants[0]
		c.cancelled(name)
		c.settle(g, job.NotBegun(""))
	}, after: afterEnd},
	"cancelled afterwards":   {does: func(c *crew, name string) { c.poison(name); c.cancelled(name) }, after: afterEnd},
	"cancellation requested": {does: func(c *crew, name string) { c.unknown(name, 1); c.cancelled(name) }, open: true},
	"closed by a person":     {does: func(c *crew, name string) { c.unknown(name, 1); c.resolved(name, machine.VerdictGiveUp) }, after: afterEnd},
	"a person's yes":         {does: func(c *crew, name string) { c.unknown(name, 1); c.resolved(name, machine.VerdictDelivered) }},
	"a yes behind its close": {does: func(c *crew, name string) {
		c.unknown(name, 1)
		c.resolved(name, machine.VerdictGiveUp)
		c.resolved(name, machine.VerdictDelivered)
	}},
	"late success of quarantined": {does: func(c *crew, name string) {
		g := c.ask(c.worker, c.enqueue(name, 1)...).Grants[0]
		c.settle(g, job.NotDone(job.ClassPermanent, job.CodeRejected, "x"))
		c.settle(g, job.Done(nil))
	}},
	"late success of unknown": {does: func(c *crew, name string) {
		g := c.ask(c.worker, c.enqueue(name, 1)...).Grants[0]
		c.settle(g, job.MayBeDone(job.CodeTimeout, "x"))
		c.settle(g, job.Done(nil))
	}},
	"late success of ready": {does: func(c *crew, name string) {
		g := c.ask(c.worker, c.enqueue(name, 1)...).Grants[0]
		c.settle(g, job.NotBegun("x"))
		c.settle(g, job.Done(nil))
	}},
	"late success of cancelled": {does: func(c *crew, name string) {
		g := c.ask(c.worker, c.enqueue(name, 1)...).Grants[0]
		c.settle(g, job.NotBegun("x"))
		c.cancelled(name)
		c.settle(g, job.Done(nil))
	}, after: afterEnd},
	"redriven": {does: func(c *crew, name string) { c.poison(name); c.redrive(redriveOf(name, "k", 1)) }, open: true},
	"late success of what was redriven": {does: func(c *crew, name string) {
		g := c.ask(c.worker, c.enqueue(name, 1)...).Grants[0]
		c.settle(g, job.NotDone(job.ClassPermanent, job.CodeRejected, "x"))
		c.redrive(redriveOf(name, "k", 1))
		c.settle(g, job.Done(nil))
	}, open: true},
	"redriven and delivered": {does: func(c *crew, name string) {
		ref := c.poison(name)
		made := c.redrive(redriveOf(name, "k", 1))
		c.settle(c.ask(c.worker, job.Ref{Job: ref.Job, Generation: made.Generation, Emission: 2}).Grants[0], job.Done(nil))
	}},
}

func (c *crew) cancelled(name string) {
	c.t.Helper()
	_, err := c.Cancel(c.t.Context(), machine.Cancellation{Kind: kind, Key: name + "-0", Actor: "ann", Reason: "no longer wanted"})
	require.NoError(c.t, err)
}

func (c *crew) resolved(name string, v machine.Verdict) {
	c.t.Helper()
	_, err := c.Resolve(c.t.Context(), machine.Answer{Kind: kind, Key: name + "-0", Fence: 1, Verdict: v, Evidence: "seen", Actor: "ann"})
	require.NoError(c.t, err)
}

// However a job ends, its cleanup is due behind that end, and only behind an end.
func TestG11EveryEndHasItsCleanupAndNothingElseHas(t *testing.T) {
	t.Parallel()
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCrew(t, gated())
			c.generate("j-0")
			by := c.cleaner(removeRows)
			end.does(c, "j")
			now, err := c.Now(t.Context())
			require.NoError(t, err)
			due := c.cleanup("j-0")
			if end.open {
				require.Zero(t, due)
				c.later(2 * afterEnd)
				require.Empty(t, c.clean(by))
				require.Equal(t, 2, c.generated("j-0"))
				return
			}
			require.WithinDuration(t, now.Add(end.after), due.DueAt, 10*time.Second)
			require.Equal(t, end.after == 0, due.Accepted)
			if end.after > 0 {
				c.later(end.after - time.Minute)
				require.Empty(t, c.clean(by))
				c.later(2 * time.Minute)
			}
			require.Equal(t, oneDone, c.clean(by))
			require.Zero(t, c.generated("j-0"))
		})
	}
}

// An unknown outcome that nobody answered is cleaned up behind its close, as any other end.
func TestG11UnknownOutcomesAreCleanedUpAfterTheyAreClosed(t *testing.T) {
	t.Parallel()
	c := newCrew(t, gated())
	c.generate("u-0")
	by := c.cleaner(removeRows)
	c.unknown("u", 1)
	c.later(afterEnd + time.Hour)
	require.Empty(t, c.clean(by), "it is not closed")
	closed, _, err := c.CloseUnknown(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, closed)
	require.Empty(t, c.clean(by), "it was closed just now")
	c.later(afterEnd)
	require.Equal(t, oneDone, c.clean(by))
}

// What ends jobs is known: a statement that did so and that nobody thought of here would
// forget their cleanups.
func TestG11OnlyTwoStatementsEndJobs(t *testing.T) {
	t.Parallel()
	sets := regexp.MustCompile(`(?s)UPDATE duly\.job\b[^;]*?SET[^;]*?\bstate = ('\w+'|t\.state)`)
	var all []string
	for name, text := range newCrew(t).Statements() {
		if m := sets.FindStringSubmatch(text); m != nil {
			all = append(all, name+" "+m[1])
		}
	}
	slices.Sort(all)
	require.Equal(t, []string{
		"decide_store t.state", "hold_ready 'scheduled'", "lease_refs 'leased'", "promote_page 'ready'", "settle_done 'delivered'",
	}, all, "settle_done has its gates beside it, decide_store those of writer")
}

// A kind without a gate pays nothing: neither a statement nor a row.
func TestG11KindsWithoutAGateSendWhatTheySentBefore(t *testing.T) {
	t.Parallel()
	url := ledgertest.URL(t)
	config, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	var sent statementLog
	config.ConnConfig.Tracer = &sent
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	for _, gate := range []bool{false, true} {
		var change []func(*machine.Kind)
		if gate {
			change = append(change, gated())
		}
		c := crewOn(benchOn(t, pool), change...)
		name := fmt.Sprintf("gate-%t", gate)
		grants := c.ask(c.worker, c.enqueue(name, 3)...).Grants
		sent.clear()
		c.settle(grants[0], job.Done(nil))
		c.settle(grants[1], job.NotDone(job.ClassPermanent, job.CodeRejected, "x"))
		hot, cold := sent.count("INSERT INTO duly.done"), sent.count("UPDATE duly.job j")
		require.Equal(t, 1, hot)
		require.Equal(t, 2, cold)
		puts := 0
		if gate {
			puts = 2
		}
		require.Equal(t, puts, sent.count("duly.cleanup"), name)
	}
}

func TestG11AStatementThatFailsIsUndoneAloneAndComesAgainLater(t *testing.T) {
	t.Parallel()
	c := newCrew(t, gated(func(r *machine.CleanupRule) { r.MaxTries = 3 }))
	c.generate("s-0", "s-1", "s-2", "s-3")
	// One fails at once, one only with the commit, and one takes too long.
	c.exec(`CREATE TABLE kept (operation_key text, n int)`)
	c.exec(`ALTER TABLE generated ADD UNIQUE (operation_key, n)`)
	c.exec(`ALTER TABLE kept ADD FOREIGN KEY (operation_key, n) REFERENCES generated (operation_key, n) DEFERRABLE INITIALLY DEFERRED`)
	c.exec(`INSERT INTO kept VALUES ('s-2', 1)`)
	c.exec(`CREATE FUNCTION odd(key text) RETURNS boolean LANGUAGE plpgsql AS $$
		BEGIN
			IF key = 's-1' THEN RAISE EXCEPTION 'no'; END IF;
			IF key = 's-3' THEN PERFORM pg_sleep(30); END IF;
			RETURN true;
		END $$`)
	by := c.cleaner(`DELETE FROM generated WHERE operation_key = $1 AND odd($1)`)
	for _, g := range c.ask(c.worker, c.enqueue("s", 4)...).Grants {
		c.settle(g, job.Done(nil))
	}
	require.Equal(t, map[machine.CleanupOutcome]int{machine.CleanupDone: 1, machine.CleanupFailed: 3}, c.clean(by))
	require.Equal(t, []int{0, 2, 2, 2}, []int{c.generated("s-0"), c.generated("s-1"), c.generated("s-2"), c.generated("s-3")})
	require.Equal(t, "the statement failed (SQLSTATE P0001)", c.cleanup("s-1").Error)
	require.Equal(t, "the statement failed (SQLSTATE 23503, constraint kept_operation_key_n_fkey, table kept)", c.cleanup("s-2").Error)
	require.Equal(t, "the statement took longer than 2s", c.cleanup("s-3").Error)
	failed := c.cleanup("s-1")
	require.EqualValues(t, 1, failed.Tries)
	require.WithinDuration(t, failed.FailedAt.Add(c.kind.Policy.Base), failed.NextAt, time.Second, "the kind's own delays")
	require.Empty(t, c.clean(by), "not before that")
	figures, err := c.Figures(t.Context(), 100)
	require.NoError(t, err)
	require.Equal(t, []int{3, 3, 0}, []int{figures.CleanupsDue, figures.CleanupsFailing, figures.CleanupsParked})

	c.exec(`DELETE FROM kept`)
	c.exec(`CREATE OR REPLACE FUNCTION odd(key text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN IF key = 's-1' THEN RAISE EXCEPTION 'no'; END IF; RETURN true; END $$`)
	c.later(time.Minute)
	require.Equal(t, map[machine.CleanupOutcome]int{machine.CleanupDone: 2, machine.CleanupFailed: 1}, c.clean(by))

	// After max_tries it waits for a person.
	c.later(time.Hour)
	require.Equal(t, map[machine.CleanupOutcome]int{machine.CleanupParked: 1}, c.clean(by))
	c.later(24 * time.Hour)
	require.Empty(t, c.clean(by))
	parked := c.cleanup("s-1")
	require.False(t, parked.ParkedAt.IsZero())
	listed, err := c.Cleanups(t.Context(), machine.CleanupList{Parked: true})
	require.NoError(t, err)
	require.Len(t, listed, 1)
	require.Equal(t, "s-1", listed[0].Key)
	require.EqualValues(t, 3, listed[0].Tries)

	retry := machine.CleanupRetry{Kind: kind, Key: "s-1", Actor: "ann", Reason: "repaired"}
	again, err := c.RetryCleanup(t.Context(), retry)
	require.NoError(t, err)
	require.Zero(t, again.Tries)
	require.Equal(t, 1, c.count(`SELECT count(*)::int FROM duly.audit WHERE action = 'cleanup_retry' AND actor = 'ann'`))
	require.Equal(t, map[machine.CleanupOutcome]int{machine.CleanupFailed: 1}, c.clean(by))
	c.exec(`CREATE OR REPLACE FUNCTION odd(key text) RETURNS boolean LANGUAGE sql AS 'SELECT true'`)
	_, err = c.RetryCleanup(t.Context(), retry)
	require.NoError(t, err)
	require.Equal(t, oneDone, c.clean(by))
	_, err = c.RetryCleanup(t.Context(), retry)
	require.ErrorIs(t, err, job.ErrRefused, "what is done stays done")
	_, err = c.RetryCleanup(t.Context(), machine.CleanupRetry{Kind: kind, Key: "nobody", Actor: "ann"})
	require.ErrorIs(t, err, job.ErrNotFound)
}

func TestG11ACleanupThatFailsForMaxAgeWaitsForAPerson(t *testing.T) {
	t.Parallel()
	c := newCrew(t, gated(func(r *machine.CleanupRule) { r.MaxAge = time.Hour }))
	c.generate("a-0")
	c.exec(`CREATE FUNCTION never(key text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$`)
	by := c.cleaner(`DELETE FROM generated WHERE operation_key = $1 AND never($1)`)
	c.ended("a", job.Done(nil))
	require.Equal(t, map[machine.CleanupOutcome]int{machine.CleanupFailed: 1}, c.clean(by))
	c.later(2 * time.Hour)
	require.Equal(t, map[machine.CleanupOutcome]int{machine.CleanupParked: 1}, c.clean(by))
	_, err := c.RetryCleanup(t.Context(), machine.CleanupRetry{Kind: kind, Key: "a-0", Actor: "ann"})
	require.NoError(t, err)
	require.Equal(t, map[machine.CleanupOutcome]int{machine.CleanupFailed: 1}, c.clean(by), "its age begins anew")
}

// The backend that runs a cleanup is killed between the statement and the commit, over
// and over; and a commit's reply is lost. What was removed was removed once.
func TestG11ACrashAnywhereLeavesAtMostOneCompletedCleanup(t *testing.T) {
	t.Parallel()
	t.Run("killed before the commit", func(t *testing.T) {
		t.Parallel()
		c := newCrew(t, gated(func(r *machine.CleanupRule) { r.MaxTries = 3 }))
		c.generate("k-0", "k-1")
		c.exec(`CREATE FUNCTION dies() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN OLD; END $$`)
		c.exec(`CREATE TRIGGER dies AFTER DELETE ON generated FOR EACH ROW WHEN (OLD.operation_key = 'k-0') EXECUTE FUNCTION dies()`)
		by := c.cleaner(removeRows)
		for _, g := range c.ask(c.worker, c.enqueue("k", 2)...).Grants {
			c.settle(g, job.Done(nil))
		}
		failed := 0
		for c.cleanup("k-0").ParkedAt.IsZero() {
			_, err := by.Clean(t.Context(), 100, hold)
			if err != nil {
				failed++
			}
			require.Equal(t, 2, c.generated("k-0"), "nothing of it stands")
			c.later(2 * hold)
		}
		require.Equal(t, 3, failed)
		require.Equal(t, "whoever tried it last never said what came of it", c.cleanup("k-0").Error)
		require.False(t, c.cleanup("k-1").DoneAt.IsZero(), "what kills whoever runs it stands in nobody's way")
		require.Zero(t, c.generated("k-1"))
		c.exec(`DROP TRIGGER dies ON generated`)
		_, err := c.RetryCleanup(t.Context(), machine.CleanupRetry{Kind: kind, Key: "k-0", Actor: "ann"})
		require.NoError(t, err)
		require.Equal(t, oneDone, c.clean(by))
		require.Equal(t, 4, c.count(`SELECT count(*)::int FROM removed`))
	})
	for name, lost := range map[string]bool{"request of the commit lost": true, "reply of the commit lost": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := ledgertest.URL(t)
			c := crewOn(benchOn(t, ledgertest.Pool(t, url)), gated())
			c.generate("l-0")
			cut := &cut{loseRequest: lost, on: "commit\x00"}
			l := ledger.New(cut.pool(t, url))
			// Its own connections have the same dialer.
			by, err := l.OpenCleaner(t.Context(), ledger.CleanerOptions{Kind: kind, Statement: removeRows, Timeout: time.Second})
			require.NoError(t, err)
			t.Cleanup(by.Close)
			c.ended("l", job.Done(nil))
			tasks, _, err := c.TakeCleanups(t.Context(), kind, machine.MeansSQL, 10, hold)
			require.NoError(t, err)
			cut.armed.Store(true)
			_, err = by.Run(t.Context(), tasks)
			require.ErrorIs(t, err, machine.ErrUnclear)
			require.True(t, cut.happened.Load())
			c.later(2 * hold)
			_, err = by.Clean(t.Context(), 10, hold)
			require.NoError(t, err)
			require.Zero(t, c.generated("l-0"))
			require.False(t, c.cleanup("l-0").DoneAt.IsZero())
			require.Equal(t, 2, c.count(`SELECT count(*)::int FROM removed`), "once, whatever was heard of it")
		})
	}
}

func TestG11ManySchedulersRemoveEachOnce(t *testing.T) {
	t.Parallel()
	const n = 60
	c := newCrew(t, gated())
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("m-%d", i)
	}
	c.generate(keys...)
	var reports []machine.Report
	for _, g := range c.ask(c.worker, c.enqueue("m", n)...).Grants {
		reports = append(reports, report(g, job.Done(nil)))
	}
	_, err := c.Settle(t.Context(), c.worker, reports)
	require.NoError(t, err)
	var running sync.WaitGroup
	var mu sync.Mutex
	done := 0
	for range 4 {
		by := c.cleaner(removeRows)
		running.Go(func() {
			for range n {
				outcomes, err := by.Clean(context.WithoutCancel(t.Context()), 7, hold)
				mu.Lock()
				if err == nil && !slices.Contains(outcomes, machine.CleanupStale) {
					done += len(outcomes)
				}
				mu.Unlock()
			}
		})
	}
	running.Wait()
	require.Equal(t, n, done)
	require.Equal(t, 2*n, c.count(`SELECT count(*)::int FROM removed`))
	require.Equal(t, n, c.count(`SELECT count(*)::int FROM duly.cleanup WHERE done_at IS NOT NULL AND rows_changed = 2 AND tries = 1`))
}

// A scheduler that was away for long comes back with what another has done since.
func TestG11ATaskThatAnotherHasDoneIsNotRunAgain(t *testing.T) {
	t.Parallel()
	c := newCrew(t, gated())
	c.generate("t-0")
	slow, quick := c.cleaner(removeRows), c.cleaner(removeRows)
	c.ended("t", job.Done(nil))
	tasks, _, err := c.TakeCleanups(t.Context(), kind, machine.MeansSQL, 10, hold)
	require.NoError(t, err)
	for _, done := range []bool{false, true} {
		if done {
			c.later(2 * hold)
			require.Equal(t, oneDone, c.clean(quick))
			c.generate("t-0")
		} else {
			c.later(2 * hold)
			again, _, err := c.TakeCleanups(t.Context(), kind, machine.MeansSQL, 10, hold)
			require.NoError(t, err)
			require.Len(t, again, 1)
		}
		outcomes, err := slow.Run(t.Context(), tasks)
		require.NoError(t, err)
		require.Equal(t, []machine.CleanupOutcome{machine.CleanupStale}, outcomes)
		require.Equal(t, 2, c.generated("t-0"), "done=%t", done)
	}
}

func TestWhatIsTakenToBeCleanedUpIsNobodyElsesAndTakingWaitsForNobody(t *testing.T) {
	t.Parallel()
	c := newCrew(t, gated())
	for _, g := range c.ask(c.worker, c.enqueue("q", 3)...).Grants {
		c.settle(g, job.Done(nil))
	}
	take := func(limit int) []string {
		tasks, _, err := c.TakeCleanups(t.Context(), kind, machine.MeansSQL, limit, hold)
		require.NoError(t, err)
		var keys []string
		for _, task := range tasks {
			keys = append(keys, task.Key)
		}
		return keys
	}
	locked, err := c.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = locked.Exec(t.Context(), `SELECT FROM duly.cleanup WHERE job = (SELECT id FROM duly.job WHERE key = 'q-0') FOR UPDATE`)
	require.NoError(t, err)
	require.Equal(t, []string{"q-1"}, take(1))
	require.Equal(t, []string{"q-2"}, take(10))
	require.NoError(t, locked.Rollback(t.Context()))
	require.Equal(t, []string{"q-0"}, take(10))
	require.Empty(t, take(10))
	c.later(hold + time.Second)
	require.Len(t, take(10), 3, "a taker that is lost costs no more")
}

func TestG11ARedriveRetiresWhatIsDueAndNeedsForceWhereItIsDone(t *testing.T) {
	t.Parallel()
	c := newCrew(t, gated())
	c.generate("d-0", "e-0")
	by := c.cleaner(removeRows)
	c.poison("d")
	require.NotZero(t, c.cleanup("d-0"))
	c.redrive(redriveOf("d", "k1", 1))
	require.Zero(t, c.cleanup("d-0"), "it is retired in the same transaction")
	require.Equal(t, 1, c.count(`SELECT count(*)::int FROM duly.audit WHERE action = 'redrive' AND detail->>'cleanup' = 'retired'`))
	c.later(afterEnd + time.Hour)
	require.Empty(t, c.clean(by))
	require.Equal(t, 2, c.generated("d-0"))

	c.poison("e")
	c.later(afterEnd + time.Hour)
	c.exec(`UPDATE duly.job SET origin_at = now(), first_ready_at = now() WHERE key = 'e-0'`) // its lifetime is not what is asked about here
	require.Equal(t, oneDone, c.clean(by))
	_, err := c.Redrive(t.Context(), redriveOf("e", "k1", 1))
	d := denied(t, err)
	require.Equal(t, machine.CleanedUp, d.Why)
	require.Contains(t, err.Error(), "were removed by its cleanup at ")
	forced := redriveOf("e", "k1", 1)
	forced.Forced, forced.Evidence = true, "it needs none of them"
	again := c.redrive(forced)
	require.EqualValues(t, 2, again.Generation)
	require.Equal(t, again.Generation, c.redrive(forced).Generation)

	// What was done for the key stays done, whatever its next generation comes to.
	c.generate("e-0")
	g := c.ask(c.worker, job.Ref{Job: again.Job, Generation: 2, Emission: 2}).Grants[0]
	c.settle(g, job.Done(nil))
	c.later(afterEnd)
	require.Empty(t, c.clean(by))
	require.Equal(t, 2, c.generated("e-0"))
	require.EqualValues(t, 1, c.cleanup("e-0").Generation)
}

// A redrive and a cleanup that run at once exclude each other: one of them finds what the
// other has done.
func TestG11ARedriveWaitsForACleanupThatRuns(t *testing.T) {
	t.Parallel()
	c := newCrew(t, gated(func(r *machine.CleanupRule) { r.After = 0 }))
	c.generate("w-0")
	by := c.cleaner(`DELETE FROM generated WHERE operation_key = $1`)
	// The cleanup stands still in its middle for as long as this lock is held.
	held, err := c.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = held.Exec(t.Context(), `LOCK TABLE generated IN EXCLUSIVE MODE`)
	require.NoError(t, err)
	c.poison("w")
	cleaned := make(chan error, 1)
	go func() {
		_, err := by.Clean(context.WithoutCancel(t.Context()), 1, hold)
		cleaned <- err
	}()
	waiting := func(n int) func() bool {
		return func() bool {
			var found int
			err := c.pool.QueryRow(t.Context(), `SELECT count(*)::int FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&found)
			return err == nil && found >= n
		}
	}
	require.Eventually(t, waiting(1), 10*time.Second, 5*time.Millisecond)
	redriven := make(chan error, 1)
	go func() {
		_, err := c.Redrive(context.WithoutCancel(t.Context()), redriveOf("w", "k", 1))
		redriven <- err
	}()
	require.Eventually(t, waiting(2), 10*time.Second, 5*time.Millisecond)
	require.NoError(t, held.Rollback(t.Context()))
	require.NoError(t, <-cleaned)
	var d *machine.Denied
	require.ErrorAs(t, <-redriven, &d)
	require.Equal(t, machine.CleanedUp, d.Why)
	require.Zero(t, c.generated("w-0"))
}

// A function may have removed a part of the rows before it failed, or was lost.
func TestG11ACleanupByAFunctionThatWasBegunNeedsForce(t *testing.T) {
	t.Parallel()
	c := newCrew(t, gated(func(r *machine.CleanupRule) { r.By, r.After = machine.MeansGo, 0 }))
	c.poison("g")
	tasks, _, err := c.TakeCleanups(t.Context(), kind, machine.MeansGo, 10, hold)
	require.NoError(t, err)
	require.Len(t, tasks, 1)
	require.Equal(t, job.Quarantined, tasks[0].State)
	_, err = c.Redrive(t.Context(), redriveOf("g", "k", 1))
	require.Equal(t, machine.CleanedUp, denied(t, err).Why)
	forced := redriveOf("g", "k", 1)
	forced.Forced, forced.Evidence = true, "looked"
	c.redrive(forced)
	outcomes, err := c.NoteCleanups(t.Context(), []machine.CleanupResult{{CleanupTask: tasks[0]}})
	require.NoError(t, err)
	require.Equal(t, []machine.CleanupOutcome{machine.CleanupStale}, outcomes, "it was retired meanwhile")
}

// A kind that is cleaned up behind by other means than when its jobs ended loses none of
// what is due, and what a function may have begun is known for good.
func TestG11WhatIsDueIsTakenByTheMeansThatTheKindHasNow(t *testing.T) {
	t.Parallel()
	c := newCrew(t, gated(func(r *machine.CleanupRule) { r.By, r.After = machine.MeansGo, 0 }))
	c.generate("a-0", "b-0")
	c.ended("a", job.Done(nil))
	by := c.cleaner(removeRows)
	require.Equal(t, oneDone, c.clean(by), "the function's is done by the statement")
	require.Equal(t, machine.MeansSQL, c.cleanup("a-0").By)

	c.poison("b")
	tasks, _, err := c.TakeCleanups(t.Context(), kind, machine.MeansGo, 10, hold)
	require.NoError(t, err)
	require.Len(t, tasks, 1)
	_, err = c.NoteCleanups(t.Context(), []machine.CleanupResult{{CleanupTask: tasks[0], Error: "no"}})
	require.NoError(t, err)
	c.later(time.Hour)
	tasks, _, err = c.TakeCleanups(t.Context(), kind, machine.MeansSQL, 10, hold)
	require.NoError(t, err)
	require.Len(t, tasks, 1)
	_, err = c.Redrive(t.Context(), redriveOf("b", "k", 1))
	require.Equal(t, machine.CleanedUp, denied(t, err).Why, "the function may have removed a part")
}

// A cleanup that nobody is going to do can be given up, for a recorded reason: it is tried
// no more, and its job need not be kept for it.
func TestG11ACleanupThatIsGivenUpIsTriedNoMoreAndKeepsNothing(t *testing.T) {
	t.Parallel()
	c := newCrew(t, gated())
	c.generate("a-0")
	by := c.cleaner(removeRows)
	c.ended("a", job.Done(nil))
	give := machine.CleanupGiveUp{Kind: kind, Key: "a-0", Actor: "ann"}
	_, err := c.GiveUpCleanup(t.Context(), give)
	require.ErrorIs(t, err, job.ErrRefused, "not without a reason")
	tasks, _, err := c.TakeCleanups(t.Context(), kind, machine.MeansSQL, 10, hold)
	require.NoError(t, err)
	require.Len(t, tasks, 1)
	give.Reason = "the table is gone"
	given, err := c.GiveUpCleanup(t.Context(), give)
	require.NoError(t, err)
	require.False(t, given.GivenUpAt.IsZero())
	require.Equal(t, 1, c.count(`SELECT count(*)::int FROM duly.audit WHERE action = 'cleanup_give_up' AND actor = 'ann' AND detail->>'reason' = 'the table is gone'`))
	outcomes, err := c.NoteCleanups(t.Context(), []machine.CleanupResult{{CleanupTask: tasks[0]}})
	require.NoError(t, err)
	require.Equal(t, []machine.CleanupOutcome{machine.CleanupStale}, outcomes, "whoever had it")
	_, err = c.GiveUpCleanup(t.Context(), give)
	require.ErrorIs(t, err, job.ErrRefused, "once")
	c.later(2 * time.Hour)
	require.Empty(t, c.clean(by))
	require.Equal(t, 2, c.generated("a-0"))

	_, err = c.RetryCleanup(t.Context(), machine.CleanupRetry{Kind: kind, Key: "a-0", Actor: "ann"})
	require.NoError(t, err)
	_, err = c.GiveUpCleanup(t.Context(), give)
	require.NoError(t, err)
	c.later(40 * 24 * time.Hour)
	require.Equal(t, map[machine.Finding]int{machine.FoundOld: 1}, c.patrol(100), "its job leaves")
	require.Zero(t, c.count(`SELECT count(*)::int FROM duly.cleanup`))
}

func TestG11AJobStaysUntilItsCleanupIsDone(t *testing.T) {
	t.Parallel()
	c := newCrew(t, gated(func(r *machine.CleanupRule) { r.From = 60 * 24 * time.Hour }))
	c.generate("old-0")
	by := c.cleaner(removeRows)
	c.ended("old", job.Done(nil))
	c.later(40 * 24 * time.Hour)
	require.Empty(t, c.patrol(100), "its retention is over, and its cleanup is not due yet")
	c.later(21 * 24 * time.Hour)
	require.Empty(t, c.patrol(100))
	require.Equal(t, oneDone, c.clean(by))
	listed, err := c.List(t.Context(), machine.ListRequest{State: job.Delivered})
	require.NoError(t, err)
	require.True(t, listed.Entries[0].Cleaned)
	require.Equal(t, map[machine.Finding]int{machine.FoundOld: 1}, c.patrol(100))
	require.Zero(t, c.count(`SELECT count(*)::int FROM duly.cleanup`), "it leaves with its job")
	require.Equal(t, 1, c.count(`SELECT count(*)::int FROM duly.job_key WHERE state = 'delivered'`), "and its key is taken for good")
}

// What was taken and not come to is handed back uncounted: neither a stop nor slow
// statements burn tries.
func TestACleanupThatIsNotBegunIsHandedBack(t *testing.T) {
	t.Parallel()
	c := newCrew(t, gated())
	c.generate("b-0", "b-1")
	by := c.cleaner(removeRows)
	for _, g := range c.ask(c.worker, c.enqueue("b", 2)...).Grants {
		c.settle(g, job.Done(nil))
	}
	tasks, _, err := c.TakeCleanups(t.Context(), kind, machine.MeansSQL, 10, hold)
	require.NoError(t, err)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	outcomes, err := by.Run(stopped, tasks)
	require.NoError(t, err)
	require.Empty(t, outcomes)
	require.Zero(t, c.cleanup("b-0").Tries)
	require.Equal(t, map[machine.CleanupOutcome]int{machine.CleanupDone: 2}, c.clean(by))
}

func TestStatementsOfCleanupsAreRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	for statement, why := range map[string]string{
		``:                                "it must be given",
		`  -- DELETE FROM t WHERE k = $1`: "it must be given",
		`SELECT remove($1)`:               "it begins with SELECT",
		`DROP TABLE t`:                    "it begins with DROP",
		`TRUNCATE t`:                      "it begins with TRUNCATE",
		`CALL remove($1)`:                 "it begins with CALL",
		`EXPLAIN ANALYZE DELETE FROM t WHERE k = $1`: "it begins with EXPLAIN",
		`DELETE FROM t`:                            "it must name its parameter",
		`DELETE FROM t WHERE k = '$1'`:             "it must name its parameter",
		`DELETE FROM t WHERE k = 1 -- $1`:          "it must name its parameter",
		`DELETE FROM t WHERE k = /* /* */ $1 */ 1`: "it must name its parameter",
		`DELETE FROM t WHERE k = $q$ $1 $q$`:       "it must name its parameter",
		`DELETE FROM t WHERE k = E'\'$1'`:          "it must name its parameter",
		`DELETE FROM t WHERE "$1" = 1`:             "it must name its parameter",
		`DELETE FROM t WHERE k = $10`:              "it must name its parameter",
		`DELETE FROM t WHERE k = $1 AND n = $2`:    "it has one parameter",
		`DELETE FROM t WHERE k = $1; DROP TABLE t`: "it must be one statement",
		`WITH d AS (SELECT $1) SELECT * FROM d`:    "it changes nothing",
	} {
		require.ErrorContains(t, ledger.CheckCleanup(statement), why, statement)
	}
	for _, statement := range []string{
		`DELETE FROM t WHERE k = $1`, "  delete from t where k=$1 ;\n", `UPDATE t SET gone = now() WHERE k = $1`,
		`WITH gone AS (DELETE FROM t WHERE k = $1 RETURNING *) INSERT INTO archive SELECT * FROM gone`,
		`/* the rows */ DELETE FROM t WHERE k = $1 AND note <> 'it''s; -- $2'`, `DELETE FROM t WHERE k = $1 AND f($tag$ $2; $tag$)`,
		`DELETE FROM a$2 WHERE k = $1`,
	} {
		require.NoError(t, ledger.CheckCleanup(statement), statement)
	}
}

func TestStatementsOfCleanupsAreCheckedOnTheServer(t *testing.T) {
	t.Parallel()
	c := newCrew(t, gated())
	c.generate()
	c.exec(`CREATE TABLE numbers (n int)`)
	for statement, why := range map[string]string{
		`DELETE FROM nowhere WHERE k = $1`:                             "nowhere",
		`DELETE FROM generated WHERE operation_kee = $1`:               "operation_kee",
		`DELETE FROM numbers WHERE n = $1`:                             "its parameter is no text",
		`WITH x AS (SELECT $1::text AS "delete") SELECT delete FROM x`: "changes no",
		`DELETE FROM generated WHERE operation_key = $1 RETURNING`:     "syntax error",
	} {
		_, err := c.OpenCleaner(t.Context(), ledger.CleanerOptions{Kind: kind, Statement: statement, Timeout: time.Second})
		require.ErrorIs(t, err, ledger.ErrCleanup, statement)
		require.ErrorContains(t, err, why)
	}
	for _, statement := range []string{
		removeRows + ";", `DELETE FROM numbers WHERE n::text = $1`,
		`WITH gone AS (DELETE FROM generated WHERE operation_key = $1 RETURNING *) INSERT INTO removed SELECT * FROM gone`,
	} {
		c.cleaner(statement)
	}
	require.Equal(t, 2, c.generated("nobody's"), "nothing was run")
}

// The settings of the ledger's own statements are not those of the user's.
// A grant that is missing may come: it says nothing about the statement.
func TestAMissingGrantIsNoWrongStatement(t *testing.T) {
	t.Parallel()
	url := ledgertest.URL(t)
	c := crewOn(benchOn(t, ledgertest.Pool(t, url)), gated())
	role := fmt.Sprintf("stranger_%d", time.Now().UnixNano())
	c.exec(`CREATE ROLE ` + role)
	t.Cleanup(func() {
		_, err := c.pool.Exec(context.Background(), `DROP ROLE `+role)
		require.NoError(t, err)
	})
	c.exec(`CREATE SCHEMA private CREATE TABLE sent (effect_key text)`)
	config, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	config.ConnConfig.RuntimeParams["role"] = role
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	stranger := ledger.New(pool)
	_, err = stranger.OpenCleaner(t.Context(), ledger.CleanerOptions{Kind: kind, Statement: `DELETE FROM private.sent WHERE effect_key = $1`, Timeout: time.Second})
	require.ErrorContains(t, err, "42501")
	require.NotErrorIs(t, err, ledger.ErrCleanup)
	_, err = stranger.OpenLookup(t.Context(), ledger.LookupOptions{Statement: `SELECT true AS happened, '' AS receipt FROM private.sent WHERE effect_key = $1`, Timeout: time.Second, Conns: 1})
	require.ErrorContains(t, err, "42501")
	require.NotErrorIs(t, err, ledger.ErrLookup)
}

func TestStatementsOfCleanupsArePlannedAsTheServerWould(t *testing.T) {
	t.Parallel()
	c := newCrew(t, gated())
	c.generate("p-0")
	c.exec(`CREATE TABLE seen (name text, value text)`)
	by := c.cleaner(`WITH gone AS (DELETE FROM generated WHERE operation_key = $1)
		INSERT INTO seen SELECT name, current_setting(name) FROM unnest(ARRAY['enable_seqscan', 'enable_hashjoin', 'plan_cache_mode', 'statement_timeout', 'lock_timeout', 'synchronous_commit']) name`)
	c.ended("p", job.Done(nil))
	require.Equal(t, oneDone, c.clean(by))
	var all string
	require.NoError(t, c.pool.QueryRow(t.Context(), `SELECT string_agg(value, ' ') FROM seen`).Scan(&all))
	require.Equal(t, []string{"on", "on", "auto", "2s", "2s", "on"}, strings.Fields(all))
}
