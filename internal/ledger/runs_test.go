package ledger_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/ledger/ledgertest"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

const digest = "weekly-digest"

// occurrence is the one that the runs of these tests are of.
var occurrence = time.Date(2026, 10, 12, 7, 0, 0, 0, time.UTC)

func weekly(period string) machine.Opening {
	return machine.Opening{Period: period, At: occurrence, Local: "2026-10-12T09:00:00", Zone: "Europe/Paris", Cause: machine.RunFired, Actor: "scheduler"}
}

// fire opens the run of a period and returns it; zero where there is one.
func (b *bench) fire(l *ledger.Ledger, period string) machine.Run {
	b.t.Helper()
	fired, decided, err := l.Fire(b.t.Context(), digest, kind, time.Hour, func(m machine.Moment) machine.Firing {
		return machine.Firing{Open: []machine.Opening{weekly(period)}, Through: m.Now}
	})
	require.NoError(b.t, err)
	if !decided || len(fired.Opened) == 0 {
		return machine.Run{}
	}
	return fired.Opened[0]
}

// customers makes the table that is selected from.
func (b *bench) customers(n int) {
	b.t.Helper()
	b.exec(`CREATE TABLE customer (id int PRIMARY KEY, mail text, greeting text NOT NULL DEFAULT 'hello')`)
	b.exec(`INSERT INTO customer SELECT n, 'c' || n || '@example.com' FROM generate_series(1, $1) n`, n)
}

const allCustomers = `SELECT id::text AS customer, mail AS destination, 'customer ' || id AS subject, json_build_object('text', greeting) AS payload FROM customer ORDER BY id`

// selecting is a plan that makes a job of each row.
func selecting(query string) func(machine.Run) (machine.Selection, error) {
	return func(r machine.Run) (machine.Selection, error) {
		return machine.Selection{Query: query, Recipient: func(row machine.Columns) machine.Recipient {
			text := func(name string) string { v, _ := row(name); return v }
			s := job.Spec{
				Kind: kind, Key: "digest:" + r.Period + ":" + text("customer"), Subject: text("subject"), Period: r.Period,
				Destination: text("destination"), Payload: []byte(text("payload")), Due: r.At,
			}
			if s.Destination == "" {
				return machine.Recipient{Spec: s, Refused: job.Refuse("destination", "", job.RuleRequired, "")}
			}
			return machine.Recipient{Spec: s}
		}}, nil
	}
}

func again(int) time.Duration { return 0 }

func (b *bench) freeze(l *ledger.Ledger, plan func(machine.Run) (machine.Selection, error)) (*machine.Run, error) {
	b.t.Helper()
	return l.FreezeNext(b.t.Context(), []string{digest}, plan, again)
}

func (b *bench) counts(run int64) machine.RunCounts {
	b.t.Helper()
	counts, err := b.RunCounts(b.t.Context(), run)
	require.NoError(b.t, err)
	return counts
}

// enqueueSpecs makes jobs of requests.
func (b *bench) enqueueSpecs(specs ...job.Spec) []machine.Enqueued {
	b.t.Helper()
	made, err := b.Enqueue(b.t.Context(), b.pool, specs)
	require.NoError(b.t, err)
	return made
}

// deliver reports the attempts as delivered.
func (b *bench) deliver(grants ...machine.Grant) {
	b.t.Helper()
	for _, g := range grants {
		_, err := b.Settle(b.t.Context(), machine.Worker{ID: g.Row.Worker, Version: "v1"}, []machine.Report{report(g, job.Done(nil))})
		require.NoError(b.t, err)
	}
}

// G10: one run per period, from one snapshot: selected = refused + expected, and the
// members are counted once each, whatever becomes of them.
func TestG10RunCountsEveryMemberOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.customers(10)
	b.exec(`UPDATE customer SET mail = NULL WHERE id = 4`)
	require.NotZero(t, b.fire(b.Ledger, "2026-W42").ID)
	run, err := b.freeze(b.Ledger, func(r machine.Run) (machine.Selection, error) {
		s, err := selecting(allCustomers)(r)
		s.ZoneData = "2026f"
		return s, err
	})
	require.NoError(t, err)
	require.Equal(t, machine.RunFrozen, run.State)
	require.Equal(t, "2026f", run.ZoneData, "by which its deadlines were resolved")
	require.Equal(t, []int64{10, 1, 9, 0}, []int64{run.Selected, run.Refused, run.Expected(), run.Linked})
	require.Len(t, run.Digest, 64)
	require.Equal(t, machine.RunCounts{job.Ready: 9}, b.counts(run.ID))

	refused, err := b.RunRefusals(t.Context(), run.ID, 0, 10)
	require.NoError(t, err)
	require.Equal(t, []machine.RefusedRow{{Row: 4, Key: "digest:2026-W42:4", Subject: "customer 4", Field: "destination", Rule: job.RuleRequired}}, refused)

	b.claim(lane)
	grants := b.lease(b.announced()...)
	require.Len(t, grants, 9)
	b.deliver(grants[:3]...)
	require.Equal(t, machine.RunCounts{job.Delivered: 3, job.Leased: 6}, b.counts(run.ID))
	require.Equal(t, run.Expected(), b.counts(run.ID).All())
	require.Equal(t, int64(6), b.counts(run.ID).Pending())
}

// between does something once, right before a pool sends a statement with the text.
type between struct {
	text string
	once sync.Once
	do   func()
}

func (b *between) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, b.text) {
		b.once.Do(b.do)
	}
	return ctx
}

func (*between) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// G10: a run that is frozen while it is looked at is shown whole, before or after.
func TestG10RunIsShownAsItIsAtOneInstant(t *testing.T) {
	t.Parallel()
	url := ledgertest.URL(t)
	b := benchOn(t, ledgertest.Pool(t, url))
	b.customers(3)
	b.fire(b.Ledger, "2026-W42")
	config, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	froze := false
	config.ConnConfig.Tracer = &between{text: "SELECT counts FROM duly.run", do: func() {
		run, err := b.freeze(b.Ledger, selecting(allCustomers))
		froze = err == nil && run != nil
	}}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	run, counts, err := ledger.New(pool).ShowRun(t.Context(), digest, "2026-W42")
	require.NoError(t, err)
	require.True(t, froze)
	require.Equal(t, run.Expected(), counts.All(), "the equation holds at all times")
	run, counts, err = ledger.New(pool).ShowRun(t.Context(), digest, "2026-W42")
	require.NoError(t, err)
	require.Equal(t, int64(3), run.Expected())
	require.Equal(t, run.Expected(), counts.All())
	_, _, err = b.ShowRun(t.Context(), digest, "2026-W43")
	require.ErrorIs(t, err, job.ErrNotFound)
}

// C53: a run is over when no member is pending, and not because a page was empty.
func TestC53RunIsOverWhenNoMemberIsPending(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.customers(5)
	finished := func() int {
		n, err := b.FinishRuns(t.Context())
		require.NoError(t, err)
		return n
	}
	b.fire(b.Ledger, "2026-W42")
	require.Zero(t, finished(), "an open run is not over")
	run, err := b.freeze(b.Ledger, selecting(allCustomers))
	require.NoError(t, err)
	b.claim(lane)
	grants := b.lease(b.announced()...)
	for i, g := range grants {
		require.Zero(t, finished(), "%d members are pending", len(grants)-i)
		b.deliver(g)
	}
	require.Equal(t, 1, finished())
	require.Zero(t, finished())
	got, err := b.Run(t.Context(), digest, "2026-W42")
	require.NoError(t, err)
	require.False(t, got.Finished.IsZero())
	require.Equal(t, run.ID, got.ID)

	b.fire(b.Ledger, "2026-W43")
	_, err = b.freeze(b.Ledger, selecting(allCustomers+" LIMIT 0"))
	require.NoError(t, err)
	require.Equal(t, 1, finished(), "a run without members is over at once")
}

// C53: a member that had ended and is pending again, before the run was over, is waited
// for: a receiver says no, or a person redrives it.
func TestC53MemberThatIsPendingAgainKeepsItsRunOpen(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.customers(3)
	b.fire(b.Ledger, "2026-W42")
	_, err := b.freeze(b.Ledger, selecting(allCustomers))
	require.NoError(t, err)
	finished := func() int {
		n, err := b.FinishRuns(t.Context())
		require.NoError(t, err)
		return n
	}
	b.claim(lane)
	grants := b.lease(b.announced()...)
	slices.SortFunc(grants, func(a, b machine.Grant) int { return cmp.Compare(a.Row.Job, b.Row.Job) })
	first := grants[0]
	_, err = b.Settle(t.Context(), machine.Worker{ID: first.Row.Worker, Version: "v1"}, []machine.Report{report(first, job.NotDone(job.ClassPermanent, job.CodeRejected, "no"))})
	require.NoError(t, err)
	b.deliver(grants[1])
	require.Zero(t, finished(), "it is behind the first two")
	_, err = b.Redrive(t.Context(), machine.RedriveRequest{
		Kind: kind, Key: first.Key, Generation: 1, RecoveryKey: "k", Approver: "ann", Reason: "again", Actor: "ann",
	})
	require.NoError(t, err)
	b.deliver(grants[2])
	require.Zero(t, finished(), "the first is pending again")
	require.Zero(t, finished())
	b.deliver(b.lease(b.announced()...)...)
	require.Equal(t, 1, finished())
}

// A look at a run whose next member is pending costs nothing, however many there are.
func TestARunThatIsNotOverIsLookedAtNoFurtherThanItsFirstPendingMember(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.customers(3000)
	b.fire(b.Ledger, "2026-W42")
	run, err := b.freeze(b.Ledger, selecting(allCustomers))
	require.NoError(t, err)
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
	_, err = tx.Exec(t.Context(), b.Statement("hot"))
	require.NoError(t, err)
	var text []byte
	require.NoError(t, tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, FORMAT JSON) "+b.Statement("run_ended"), run.ID, 10_000).Scan(&text))
	var plans []struct{ Plan node }
	require.NoError(t, json.Unmarshal(text, &plans))
	looked := 0.0
	var walk func(node)
	walk = func(n node) {
		if n.Name == "run_member" || n.Name == "job" {
			looked += n.Rows * n.Loops
		}
		for _, p := range n.Plans {
			walk(p)
		}
	}
	walk(plans[0].Plan)
	require.Positive(t, looked)
	require.Less(t, looked, 10.0, "%s", text)
}

// C15: however many schedulers decide at once, a period has one run.
func TestC15SchedulersThatFireAtOnceMakeOneRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var wait sync.WaitGroup
	opened := make(chan machine.Run, 40)
	for range 8 {
		l := ledger.New(b.pool)
		wait.Go(func() {
			for i := range 5 {
				if run := b.fire(l, fmt.Sprintf("2026-W%d", 40+i)); run.ID != 0 {
					opened <- run
				}
			}
		})
	}
	wait.Wait()
	close(opened)
	periods := map[string]int{}
	for run := range opened {
		periods[run.Period]++
	}
	for period, n := range periods {
		require.Equal(t, 1, n, period)
	}
	require.Equal(t, len(periods), b.count(`SELECT count(*)::int FROM duly.run`))
}

// C13: a clock that went back makes nothing twice, and the schedule goes on.
func TestC13ClockThatWentBackFiresNothingTwice(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NotZero(t, b.fire(b.Ledger, "2026-W42").ID)
	b.exec(`UPDATE duly.schedule SET since = since + interval '2 h'`)
	fired, decided, err := b.Fire(t.Context(), digest, kind, time.Hour, func(m machine.Moment) machine.Firing {
		require.True(t, m.Since.After(m.Now))
		return machine.Firing{Open: []machine.Opening{weekly("2026-W42"), weekly("2026-W43")}, Through: m.Now}
	})
	require.NoError(t, err)
	require.True(t, decided)
	require.Equal(t, 1, fired.Taken)
	require.Len(t, fired.Opened, 1)
	require.Equal(t, 1, b.count(`SELECT count(*)::int FROM duly.schedule WHERE since <= clock_timestamp()`), "it goes on from now")
}

// While one decides about a schedule no other does.
func TestScheduleIsDecidedAboutByOneAtATime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, decided, err := b.Fire(t.Context(), digest, kind, time.Hour, func(m machine.Moment) machine.Firing {
		require.False(t, m.Running)
		require.Zero(t, b.fire(ledger.New(b.pool), "2026-W42").ID)
		return machine.Firing{Open: []machine.Opening{weekly("2026-W42")}, Through: m.Now}
	})
	require.NoError(t, err)
	require.True(t, decided)
	_, _, err = b.Fire(t.Context(), digest, kind, time.Hour, func(m machine.Moment) machine.Firing {
		require.True(t, m.Running)
		return machine.Firing{Through: m.Now}
	})
	require.NoError(t, err)
	require.Equal(t, 1, b.count(`SELECT count(*)::int FROM duly.occurrence WHERE outcome = 'fired' AND run IS NOT NULL`))
}

// A run that a person started weeks ahead is not before the occurrences that come first.
func TestARunThatWasStartedAheadHoldsUpNothingBeforeIt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ahead := weekly("2099-W40")
	ahead.At, ahead.Cause, ahead.Actor = time.Now().Add(8*7*24*time.Hour), machine.RunManual, "alice"
	_, created, err := b.StartRun(t.Context(), digest, kind, ahead)
	require.NoError(t, err)
	require.True(t, created)
	running := func() (is bool) {
		_, decided, err := b.Fire(t.Context(), digest, kind, time.Hour, func(m machine.Moment) machine.Firing {
			is = m.Running
			return machine.Firing{Through: m.Since}
		})
		require.NoError(t, err)
		require.True(t, decided)
		return is
	}
	require.False(t, running())
	b.exec(`UPDATE duly.run SET at = clock_timestamp()`)
	require.True(t, running(), "once its occurrence has come")
}

func TestOccurrencesWithoutARunAreRecordedWithTheirReason(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	missed := machine.Occurrence{At: occurrence, Last: occurrence.Add(100 * time.Minute), Count: 101, Outcome: machine.OccurrenceMissed, Why: "nobody was there", Period: "first", LastPeriod: "last"}
	_, _, err := b.Fire(t.Context(), digest, kind, time.Hour, func(m machine.Moment) machine.Firing {
		return machine.Firing{Without: []machine.Occurrence{missed, {At: occurrence.Add(-time.Hour), Outcome: machine.OccurrenceSkipped, Why: "the clocks leave it out"}}, Through: m.Now}
	})
	require.NoError(t, err)
	all, err := b.Occurrences(t.Context(), digest, 10)
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, []any{int64(101), machine.OccurrenceMissed, "nobody was there"}, []any{all[0].Count, all[0].Outcome, all[0].Why})
	require.True(t, missed.Last.Equal(all[0].Last))
	require.Equal(t, []string{"first", "last"}, []string{all[0].Period, all[0].LastPeriod})
	require.Equal(t, machine.OccurrenceSkipped, all[1].Outcome)
}

// Duplicates, conflicts and rows that nobody can be reached by make the run no smaller
// without a word.
func TestRowsThatBecomeNoMemberAreKeptWithTheirReason(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	other := b.enqueueSpecs(job.Spec{Kind: kind, Key: "digest:2026-W42:5", Destination: "elsewhere@example.com", Payload: []byte(`{}`)})
	require.Len(t, other, 1)
	same := job.Spec{Kind: kind, Key: "digest:2026-W42:6", Destination: "six@example.com", Payload: []byte(`{}`), Due: occurrence}
	existing := b.enqueueSpecs(same)
	b.fire(b.Ledger, "2026-W42")
	run, err := b.freeze(b.Ledger, selecting(`
		SELECT v.customer, v.destination, v.payload FROM (VALUES
			('1', 'one@example.com', '{}'), ('1', 'one@example.com', '{}'),   -- the same twice
			('2', 'two@example.com', '{}'), ('2', 'zwei@example.com', '{}'),  -- one key, two bodies
			('3', NULL, '{}'),
			('5', 'five@example.com', '{}'),
			('6', 'six@example.com', '{}'), ('6', 'six@example.com', '{}')) AS v (customer, destination, payload)`))
	require.NoError(t, err)
	require.Equal(t, []int64{8, 5, 3, 1}, []int64{run.Selected, run.Refused, run.Expected(), run.Linked})
	refused, err := b.RunRefusals(t.Context(), run.ID, 0, 10)
	require.NoError(t, err)
	rules := map[int64]job.Rule{}
	for _, r := range refused {
		rules[r.Row] = r.Rule
	}
	require.Equal(t, map[int64]job.Rule{2: job.RuleTwice, 4: job.RuleTwice, 5: job.RuleRequired, 6: job.RuleConflict, 8: job.RuleTwice}, rules)
	require.Equal(t, 1, b.count(`SELECT count(*)::int FROM duly.run_member WHERE run = $1 AND job = $2 AND linked`, run.ID, existing[0].Job))
	require.Equal(t, run.Expected(), b.counts(run.ID).All())
}

// A selection that fails in its middle leaves no half run, and says why.
func TestSelectionThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.customers(5000)
	b.fire(b.Ledger, "2026-W42")
	run, err := b.freeze(b.Ledger, selecting(`SELECT id::text AS customer, mail AS destination, (1 / (4500 - id))::text AS payload FROM customer ORDER BY id`))
	require.ErrorIs(t, err, machine.ErrSelection)
	require.ErrorContains(t, err, "SQLSTATE 22012")
	require.Equal(t, "2026-W42", run.Period)
	require.Zero(t, b.count(`SELECT (SELECT count(*) FROM duly.job) + (SELECT count(*) FROM duly.run_member) + (SELECT count(*) FROM duly.job_key)`))
	open, err := b.Run(t.Context(), digest, "2026-W42")
	require.NoError(t, err)
	require.Equal(t, machine.RunOpen, open.State)
	require.Equal(t, 1, open.Tries)
	require.Contains(t, open.Error, "SQLSTATE 22012")
	run, err = b.freeze(b.Ledger, selecting(allCustomers))
	require.NoError(t, err)
	require.Equal(t, int64(5000), run.Expected())
}

// G10: a scheduler that dies at any row takes the whole snapshot with it, and another's
// becomes the run.
func TestG10SchedulerThatDiesWhileItFreezesLeavesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.customers(7000)
	b.fire(b.Ledger, "2026-W42")
	for _, after := range []int64{2000, 4000, 7000} {
		_, err := b.freeze(b.Ledger, func(r machine.Run) (machine.Selection, error) {
			s, err := selecting(allCustomers)(r)
			s.Progress = func(rows int64) {
				if rows == after {
					b.exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND xact_start < now() AND pid <> pg_backend_pid()`)
				}
			}
			return s, err
		})
		require.Error(t, err, "died after %d rows", after)
		require.Zero(t, b.count(`SELECT (SELECT count(*) FROM duly.job) + (SELECT count(*) FROM duly.run_member)`))
	}
	b.exec(`DELETE FROM customer WHERE id > 6000`)
	run, err := b.freeze(b.Ledger, selecting(allCustomers))
	require.NoError(t, err)
	require.Equal(t, int64(6000), run.Expected(), "the snapshot is the new one's, whole")
	require.Equal(t, 6000, b.count(`SELECT count(*)::int FROM duly.job`))
}

// G10: a scheduler that is stopped in the middle holds the run until its backend ends; then
// another freezes it, and the first can insert nothing when it wakes.
func TestG10PausedFreezerInsertsNothingAfterwards(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.customers(3000)
	b.fire(b.Ledger, "2026-W42")
	paused, wake := make(chan struct{}), make(chan struct{})
	slept := make(chan error, 1)
	go func() {
		_, err := b.FreezeNext(context.WithoutCancel(t.Context()), []string{digest}, func(r machine.Run) (machine.Selection, error) {
			s, err := selecting(allCustomers)(r)
			s.Progress = func(rows int64) {
				if rows == 2000 {
					close(paused)
					<-wake
				}
			}
			return s, err
		}, again)
		slept <- err
	}()
	<-paused
	second := ledger.New(b.pool)
	run, err := b.freeze(second, selecting(allCustomers))
	require.NoError(t, err)
	require.Nil(t, run, "the run is locked")
	require.Equal(t, 2, b.count(`SELECT count(*)::int FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'`), "the freeze, and its selection")
	b.exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'`)
	require.Eventually(t, func() bool {
		run, err = b.freeze(second, selecting(allCustomers))
		return err == nil && run != nil
	}, time.Minute, 10*time.Millisecond)
	close(wake)
	require.Error(t, <-slept)
	require.Equal(t, int64(3000), run.Expected())
	require.Equal(t, 3000, b.count(`SELECT count(*)::int FROM duly.job`))
	got, err := b.Run(t.Context(), digest, "2026-W42")
	require.NoError(t, err)
	require.Equal(t, machine.RunFrozen, got.State)
	require.Equal(t, run.Digest, got.Digest)
}

// The selection sees one snapshot, whatever is committed while it is read.
func TestSelectionSeesOneSnapshot(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.customers(5000)
	b.fire(b.Ledger, "2026-W42")
	run, err := b.freeze(b.Ledger, func(r machine.Run) (machine.Selection, error) {
		s, err := selecting(allCustomers)(r)
		s.Progress = func(rows int64) {
			b.exec(`DELETE FROM customer WHERE id > 4000`)
			b.exec(`INSERT INTO customer SELECT n FROM generate_series(6000 + $1::int, 6000 + $1::int + 9) n ON CONFLICT DO NOTHING`, rows)
		}
		return s, err
	})
	require.NoError(t, err)
	require.Equal(t, int64(5000), run.Selected)
}

// A selection may be asked of another database.
func TestSelectionFromAnotherDatabase(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	source, err := pgxpool.New(t.Context(), ledgertest.URL(t))
	require.NoError(t, err)
	t.Cleanup(source.Close)
	_, err = source.Exec(t.Context(), `CREATE TABLE customer AS SELECT n AS id, 'c' || n || '@example.com' AS mail, 'hello' AS greeting FROM generate_series(1, 4100) n`)
	require.NoError(t, err)
	b.UseSources(map[string]*pgxpool.Pool{"crm": source})
	plan := func(name string) func(machine.Run) (machine.Selection, error) {
		return func(r machine.Run) (machine.Selection, error) {
			s, err := selecting(allCustomers)(r)
			s.Source = name
			return s, err
		}
	}
	b.fire(b.Ledger, "2026-W42")
	_, err = b.freeze(b.Ledger, plan("erp"))
	require.ErrorIs(t, err, machine.ErrSelection)
	run, err := b.freeze(b.Ledger, plan("crm"))
	require.NoError(t, err)
	require.Equal(t, int64(4100), run.Expected())

	columns, err := b.TrySelection(t.Context(), machine.Selection{Query: allCustomers, Source: "crm"})
	require.NoError(t, err)
	require.Equal(t, []string{"customer", "destination", "subject", "payload"}, columns)
	for _, bad := range []string{`SELECT nothing FROM customer`, `SELECT 1 AS a, 2 AS a`, `SELECT '\x00'::bytea AS payload`, `SELEC`} {
		_, err = b.TrySelection(t.Context(), machine.Selection{Query: bad, Source: "crm"})
		require.ErrorIs(t, err, machine.ErrSelection, bad)
	}
}

// A selection whose table is locked is waited for a while, during which the ledger's
// transaction is kept alive; then the run says what it waited for, and others have their turn.
func TestSelectionThatWaitsForALockIsGivenUpForNow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	source, err := pgxpool.New(t.Context(), ledgertest.URL(t))
	require.NoError(t, err)
	t.Cleanup(source.Close)
	_, err = source.Exec(t.Context(), `CREATE TABLE customer (customer text, destination text, payload text)`)
	require.NoError(t, err)
	tx, err := source.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
	_, err = tx.Exec(t.Context(), `LOCK TABLE customer IN ACCESS EXCLUSIVE MODE`)
	require.NoError(t, err)
	b.UseSources(map[string]*pgxpool.Pool{"crm": source})
	b.fire(b.Ledger, "2026-W42")
	ended := make(chan error, 1)
	go func() {
		_, err := b.FreezeNext(context.WithoutCancel(t.Context()), []string{digest}, func(r machine.Run) (machine.Selection, error) {
			s, err := selecting("TABLE customer")(r)
			s.Source = "crm"
			return s, err
		}, again)
		ended <- err
	}()
	require.Eventually(t, func() bool {
		return b.count(`SELECT count(*)::int FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction' AND query = $1`, b.Statement("clock")) == 1
	}, time.Minute, 10*time.Millisecond, "it is kept alive")
	select {
	case err = <-ended:
	case <-time.After(time.Minute):
		require.Fail(t, "it waits for ever")
	}
	require.ErrorIs(t, err, machine.ErrSelection)
	open, err := b.Run(t.Context(), digest, "2026-W42")
	require.NoError(t, err)
	require.Contains(t, open.Error, "lock timeout")
}

// Dates are read as ISO has them, whatever a database or a role says how they are shown.
func TestDatesOfASelectionAreISOWhateverItsDatabaseSays(t *testing.T) {
	t.Parallel()
	german := func() *pgxpool.Pool {
		url := ledgertest.URL(t)
		_, err := ledgertest.Pool(t, url).Exec(t.Context(), `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET datestyle = German', current_database()); END $$`)
		require.NoError(t, err)
		return ledgertest.Pool(t, url)
	}
	b := benchOn(t, german())
	b.UseSources(map[string]*pgxpool.Pool{"crm": german()})
	for period, source := range map[string]string{"2026-W42": "", "2026-W43": "crm"} {
		b.fire(b.Ledger, period)
		shown := ""
		_, err := b.freeze(b.Ledger, func(machine.Run) (machine.Selection, error) {
			return machine.Selection{
				Source: source, Query: `SELECT date '2026-10-30' AS renewal`, Recipient: func(row machine.Columns) machine.Recipient {
					shown, _ = row("renewal")
					return machine.Recipient{Refused: job.Refuse("destination", "", job.RuleRequired, "")}
				},
			}, nil
		})
		require.NoError(t, err)
		require.Equal(t, "2026-10-30", shown, "source %q", source)
	}
}

func TestPersonStartsARunOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	o := weekly("2026-W42")
	o.Cause, o.Actor = machine.RunManual, "alice"
	run, created, err := b.StartRun(t.Context(), digest, kind, o)
	require.NoError(t, err)
	require.True(t, created)
	again, created, err := b.StartRun(t.Context(), digest, kind, o)
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, run.ID, again.ID)
	require.Zero(t, b.fire(b.Ledger, "2026-W42").ID, "the occurrence fires no second one")
	require.Equal(t, 1, b.count(`SELECT count(*)::int FROM duly.audit WHERE action = 'start run' AND actor = 'alice'`))
	_, err = b.Run(t.Context(), digest, "2026-W43")
	require.ErrorIs(t, err, job.ErrNotFound)
}

func TestSelectionsThatAreNoQueryAreRefused(t *testing.T) {
	t.Parallel()
	for _, query := range []string{"", "  ", "DELETE FROM customer", "SELECT 1;"} {
		require.Error(t, ledger.CheckSelection(query), query)
	}
	for _, query := range []string{"SELECT 1", " with a as (select 1) select * from a", "TABLE customer", "values (1)"} {
		require.NoError(t, ledger.CheckSelection(query), query)
	}
	require.NotErrorIs(t, ledger.CheckSelection(""), machine.ErrSelection)
}

// The members of a run leave with their jobs; how they ended stays.
func TestMembersLeaveAfterTheirRetentionAndTheirCountsStay(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.customers(3)
	b.exec(`UPDATE customer SET mail = NULL WHERE id = 2`)
	b.fire(b.Ledger, "2026-W42")
	run, err := b.freeze(b.Ledger, selecting(allCustomers))
	require.NoError(t, err)
	retire := func() bool {
		found, err := b.RetireRun(t.Context(), 30*24*time.Hour)
		require.NoError(t, err)
		return found
	}
	b.claim(lane)
	b.deliver(b.lease(b.announced()...)...)
	_, err = b.FinishRuns(t.Context())
	require.NoError(t, err)
	require.False(t, retire())
	b.exec(`UPDATE duly.run SET finished_at = finished_at - interval '31 d'`)
	require.True(t, retire())
	require.False(t, retire(), "once")
	require.Zero(t, b.count(`SELECT (SELECT count(*) FROM duly.run_member) + (SELECT count(*) FROM duly.run_refused)`))
	require.Equal(t, machine.RunCounts{job.Delivered: 2}, b.counts(run.ID))
	got, err := b.Run(t.Context(), digest, "2026-W42")
	require.NoError(t, err)
	require.Equal(t, got.Expected(), b.counts(run.ID).All(), "the equation holds for good")
}

// What became of occurrences leaves too; a period stays taken.
func TestOccurrencesLeaveAfterTheirRetention(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fire(b.Ledger, "2026-W42")
	_, _, err := b.Fire(t.Context(), digest, kind, time.Hour, func(m machine.Moment) machine.Firing {
		return machine.Firing{Without: []machine.Occurrence{
			{At: m.Now.Add(-24 * time.Hour), Outcome: machine.OccurrenceSkipped, Why: "of yesterday"},
			{At: m.Now.Add(-90 * 24 * time.Hour), Last: m.Now.Add(-24 * time.Hour), Count: 89, Outcome: machine.OccurrenceMissed, Why: "until yesterday"},
			{At: m.Now.Add(-80 * 24 * time.Hour), Outcome: machine.OccurrenceSkipped, Why: "old"},
		}, Through: m.Now}
	})
	require.NoError(t, err)
	retire := func() int {
		n, err := b.RetireOccurrences(t.Context(), 30*24*time.Hour)
		require.NoError(t, err)
		return n
	}
	require.Zero(t, retire(), "all are recorded just now")
	b.exec(`UPDATE duly.occurrence SET recorded_at = recorded_at - interval '31 d'`)
	b.exec(`UPDATE duly.occurrence SET at = clock_timestamp() - interval '80 d', last = clock_timestamp() - interval '80 d' WHERE outcome = 'fired'`)
	require.Equal(t, 2, retire())
	require.Zero(t, retire())
	all, err := b.Occurrences(t.Context(), digest, 10)
	require.NoError(t, err)
	require.Len(t, all, 2)
	for _, o := range all {
		require.Contains(t, o.Why, "yesterday")
	}
	require.Zero(t, b.fire(b.Ledger, "2026-W42").ID)
}

// What a database says about a value may be a recipient's: it is kept nowhere.
func TestG13ValuesOfASelectionAreNotRepeatedInItsErrors(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fire(b.Ledger, "2026-W42")
	_, err := b.freeze(b.Ledger, selecting(`SELECT 'x' AS customer, '+33 6 12 34 56 78'::bigint::text AS destination`))
	require.ErrorIs(t, err, machine.ErrSelection)
	require.ErrorContains(t, err, "SQLSTATE 22P02")
	require.NotContains(t, err.Error(), "+33 6")
	open, err := b.Run(t.Context(), digest, "2026-W42")
	require.NoError(t, err)
	require.NotContains(t, open.Error, "+33 6")
	require.NotEmpty(t, open.Error)
}

// A mark that is being issued while the lanes move is seen by the move.
func TestMarkThatIsIssuedDuringAMoveIsVoid(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	b.enqueue("a", 1)
	b.announced()
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	var number int64
	require.NoError(t, tx.QueryRow(t.Context(), `INSERT INTO duly.mark (number, topic, snapshot, partitions)
		SELECT nextval('duly.outbox_id'), t.name, t.relayed, '{0}' FROM duly.topic t WHERE t.name = $1 AND t.holder = $2 FOR SHARE OF t RETURNING number`, lane, b.holder).Scan(&number))
	moved := make(chan error, 1)
	go func() { moved <- b.MoveBus(t.Context(), machine.BusMove{From: oldBus, To: newBus, Actor: "alice"}) }()
	require.Eventually(t, func() bool {
		return b.count(`SELECT count(*)::int FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 1
	}, time.Minute, 10*time.Millisecond, "the move waits for it")
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-moved)
	require.Zero(t, b.count(`SELECT count(*)::int FROM duly.mark`))
	_, err = b.IssueMark(t.Context(), lane, b.holder, []int32{0})
	require.ErrorIs(t, err, machine.ErrLostTopic)
}
