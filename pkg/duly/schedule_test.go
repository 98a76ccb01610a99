package duly_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/duly"
	"duly.dev/duly/pkg/job"
)

func specOf(key string) job.Spec { return job.Spec{Kind: kind, Key: key, Payload: []byte(`{}`)} }

// commit schedules in a transaction of its own.
func commit(tb testing.TB, pool *pgxpool.Pool, c *duly.Client, specs []job.Spec, options ...duly.ScheduleOption) []duly.Scheduled {
	tb.Helper()
	var all []duly.Scheduled
	err := pgx.BeginFunc(tb.Context(), pool, func(tx pgx.Tx) (err error) {
		all, err = c.ScheduleMany(tb.Context(), tx, specs, options...)
		return err
	})
	require.NoError(tb, err)
	return all
}

func count(tb testing.TB, pool *pgxpool.Pool, sql string, args ...any) (n int) {
	tb.Helper()
	require.NoError(tb, pool.QueryRow(tb.Context(), sql, args...).Scan(&n))
	return n
}

func TestEveryRuleRefusesWithoutHarmToTheTransaction(t *testing.T) {
	t.Parallel()
	pool := newLedger(t)
	client := duly.NewClient(pool, duly.MaxPayload(100), duly.Check(func(s job.Spec) *job.Refusal {
		if s.Destination == "nowhere" {
			return job.Refuse("destination", s.Destination, job.RuleDestination, "")
		}
		return nil
	}))
	now := time.Now()
	cases := map[string]struct {
		change func(*job.Spec)
		field  string
		rule   job.Rule
	}{
		"unknown kind":         {func(s *job.Spec) { s.Kind = "nothing" }, "kind", job.RuleUnknownKind},
		"bad name":             {func(s *job.Spec) { s.Kind = "No Name" }, "kind", job.RuleName},
		"no kind":              {func(s *job.Spec) { s.Kind = "" }, "kind", job.RuleRequired},
		"no key":               {func(s *job.Spec) { s.Key = "" }, "key", job.RuleRequired},
		"key not UTF-8":        {func(s *job.Spec) { s.Key = "a\xff" }, "key", job.RuleUTF8},
		"key with a NUL":       {func(s *job.Spec) { s.Key = "a\x00" }, "key", job.RulePrintable},
		"key not NFC":          {func(s *job.Spec) { s.Key = "e\u0301" }, "key", job.RuleNFC},
		"outer space":          {func(s *job.Spec) { s.Key = "a " }, "key", job.RuleSpace},
		"long key":             {func(s *job.Spec) { s.Key = strings.Repeat("k", 513) }, "key", job.RuleTooLong},
		"subject not UTF-8":    {func(s *job.Spec) { s.Subject = "\xc3" }, "subject", job.RuleUTF8},
		"local with a NUL":     {func(s *job.Spec) { s.DeadlineLocal = "\x00" }, "deadline_local", job.RulePrintable},
		"no payload":           {func(s *job.Spec) { s.Payload = nil }, "payload", job.RuleRequired},
		"payload not JSON":     {func(s *job.Spec) { s.Payload = []byte(`{} {}`) }, "payload", job.RuleJSON},
		"payload not UTF-8":    {func(s *job.Spec) { s.Payload = []byte("\"\xff\"") }, "payload", job.RuleUTF8},
		"large payload":        {func(s *job.Spec) { s.Payload = bytes.Repeat([]byte("1"), 101) }, "payload", job.RuleTooLarge},
		"due behind deadline":  {func(s *job.Spec) { s.Due, s.Deadline = now.Add(time.Hour), now.Add(time.Hour) }, "due", job.RuleDueBeforeDeadline},
		"deadline passed":      {func(s *job.Spec) { s.Deadline = now.Add(-time.Second) }, "deadline", job.RuleDeadlinePast},
		"impossible year":      {func(s *job.Spec) { s.Deadline = time.Date(2201, 1, 1, 0, 0, 0, 0, time.UTC) }, "deadline", job.RuleYears},
		"unknown zone":         {func(s *job.Spec) { s.DeadlineZone = "Mars/X" }, "deadline_zone", job.RuleUnknownZone},
		"the producer's check": {func(s *job.Spec) { s.Destination = "nowhere" }, "destination", job.RuleDestination},
	}
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for name, c := range cases {
			s := specOf("key")
			c.change(&s)
			answer, err := client.Schedule(t.Context(), tx, s)
			require.ErrorIs(t, err, job.ErrRefused, name)
			require.Equal(t, duly.Refused, answer.Status, name)
			refusals := job.Refusals(err)
			require.Len(t, refusals, 1, name)
			require.Equal(t, []any{c.field, c.rule}, []any{refusals[0].Field, refusals[0].Rule}, name)
		}
		_, err := client.Schedule(t.Context(), tx, specOf("key"))
		return err
	})
	require.NoError(t, err)
	require.Equal(t, 1, count(t, pool, `SELECT count(*)::int FROM duly.job`))
}

func TestC21PayloadsThatOtherTypesRefuseAreKeptByteForByte(t *testing.T) {
	t.Parallel()
	pool := newLedger(t)
	for i, payload := range []string{`{"a":"\u0000"}`, `"\ud800"`, ` [ 1.0e400 , 1 ]`, `{"a":1,"a":2}`} {
		s := specOf(fmt.Sprintf("odd-%d", i))
		s.Payload = []byte(payload)
		require.Equal(t, duly.Created, commit(t, pool, duly.NewClient(pool), []job.Spec{s, specOf(s.Key + "-neighbour")})[1].Status)
		var kept []byte
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT payload FROM duly.job WHERE key = $1`, s.Key).Scan(&kept))
		require.Equal(t, payload, string(kept))
	}
}

func TestC23KeysUpToTheLimitAreTakenWhateverTheyAre(t *testing.T) {
	t.Parallel()
	pool := newLedger(t)
	client := duly.NewClient(pool)
	var key strings.Builder
	for i := 0; key.Len() <= job.MaxKey-3; i++ {
		key.WriteRune(rune(0x4e00 + i*7%0x5000)) // three bytes each, and incompressible
	}
	key.WriteString(strings.Repeat("x", job.MaxKey-key.Len()))
	require.Equal(t, duly.Created, commit(t, pool, client, []job.Spec{specOf(key.String())})[0].Status)
	require.Equal(t, duly.Existing, commit(t, pool, client, []job.Spec{specOf(key.String())})[0].Status)
	long := commit(t, pool, client, []job.Spec{specOf(strings.Repeat("x", 10_000))})[0]
	require.ErrorContains(t, long.Reason, "at most 512 bytes, it has 10000")
}

func TestC24C25PayloadsOfTheLimitAreTakenAndOneByteMoreIsRefused(t *testing.T) {
	t.Parallel()
	pool := newLedger(t)
	client := duly.NewClient(pool)
	payload := func(n int) []byte { return []byte(`"` + strings.Repeat("x", n-2) + `"`) }
	for name, n := range map[string]int{"9 kB": 9_000, "limit": job.DefaultMaxPayload} {
		s := specOf(name)
		s.Payload = payload(n)
		require.Equal(t, duly.Created, commit(t, pool, client, []job.Spec{s})[0].Status, name)
	}
	s := specOf("over")
	s.Payload = payload(job.DefaultMaxPayload + 1)
	require.Equal(t, job.RuleTooLarge, job.Refusals(commit(t, pool, client, []job.Spec{s})[0].Reason)[0].Rule)
	require.Less(t, count(t, pool, `SELECT max(length(o::text))::int FROM duly.outbox o`), 500, "the bus carries references only")
}

func TestC29OneBadRowCostsItsNeighboursNothing(t *testing.T) {
	t.Parallel()
	pool := newLedger(t)
	specs := make([]job.Spec, 10_000)
	for i := range specs {
		specs[i] = specOf(fmt.Sprintf("customer-%d", i+1))
	}
	specs[4_999] = specOf("customer-1")
	specs[4_999].Payload = []byte(`{"another":"body"}`)
	specs[6_999].Subject = "M\xfcller"
	all := commit(t, pool, duly.NewClient(pool), specs)
	var reported []int
	for i, s := range all {
		if s.Status != duly.Created {
			reported = append(reported, i+1)
		}
	}
	require.Equal(t, []int{5_000, 7_000}, reported)
	require.ErrorIs(t, all[4_999].Reason, job.ErrConflict)
	require.Equal(t, all[0].ID, all[4_999].ID)
	require.Equal(t, job.RuleUTF8, job.Refusals(all[6_999].Reason)[0].Rule)
	require.Equal(t, 9_998, count(t, pool, `SELECT count(*)::int FROM duly.job`))
}

func TestSameKeyWithSameBodyIsTheSameJobAndAnotherBodyAConflict(t *testing.T) {
	t.Parallel()
	pool := newLedger(t)
	client := duly.NewClient(pool)
	due := time.Now().Add(time.Hour)
	s := specOf("same")
	s.Due = due
	first := commit(t, pool, client, []job.Spec{s, s})
	require.Equal(t, duly.Created, first[0].Status)
	require.Equal(t, duly.Scheduled{Status: duly.Existing, ID: first[0].ID}, first[1], "a copy in one call")
	again := s
	again.Subject, again.Due = "not part of the body", due.Truncate(time.Microsecond)
	require.Equal(t, duly.Existing, commit(t, pool, client, []job.Spec{again})[0].Status)
	for name, change := range map[string]func(*job.Spec){
		"payload":     func(s *job.Spec) { s.Payload = []byte(`{ }`) },
		"destination": func(s *job.Spec) { s.Destination = "x" },
		"due":         func(s *job.Spec) { s.Due = due.Add(time.Second) },
		"due not given": func(s *job.Spec) {
			s.Due = time.Time{}
		},
		"deadline": func(s *job.Spec) { s.Deadline = due.Add(time.Hour) },
	} {
		other := s
		change(&other)
		require.ErrorIs(t, commit(t, pool, client, []job.Spec{other})[0].Reason, job.ErrConflict, name)
	}
}

func TestTwoTransactionsWithOneKeyMakeOneJob(t *testing.T) {
	t.Parallel()
	pool := newLedger(t)
	client := duly.NewClient(pool)
	for _, rollback := range []bool{false, true} {
		key := fmt.Sprintf("contested-%t", rollback)
		first, err := pool.Begin(t.Context())
		require.NoError(t, err)
		made, err := client.Schedule(t.Context(), first, specOf(key))
		require.NoError(t, err)

		answers, errs := make(chan duly.Scheduled, 1), make(chan error, 1)
		go func() {
			errs <- pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				s, err := client.Schedule(t.Context(), tx, specOf(key))
				answers <- s
				return err
			})
		}()
		waitForLock(t, pool)
		if rollback {
			require.NoError(t, first.Rollback(t.Context()))
			require.Equal(t, duly.Created, (<-answers).Status, "what was rolled back was never there")
			require.NoError(t, <-errs)
			continue
		}
		require.NoError(t, first.Commit(t.Context()))
		require.Equal(t, duly.Scheduled{Status: duly.Existing, ID: made.ID}, <-answers, "the other is answered after the commit")
		require.NoError(t, <-errs)
	}
}

// waitForLock returns once some backend of the database waits for a lock.
func waitForLock(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	require.Eventually(t, func() bool {
		return count(t, pool, `SELECT count(*)::int FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0
	}, time.Minute, time.Millisecond)
}

func TestRepeatableReadGetsASerializationFailureAndSucceedsWhenRepeated(t *testing.T) {
	t.Parallel()
	pool := newLedger(t)
	client := duly.NewClient(pool)
	attempt := func(before func()) (duly.Scheduled, error) {
		var s duly.Scheduled
		err := pgx.BeginTxFunc(t.Context(), pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) (err error) {
			if _, err := tx.Exec(t.Context(), `SELECT count(*) FROM duly.job`); err != nil {
				return err
			}
			before()
			s, err = client.Schedule(t.Context(), tx, specOf("snapshot"))
			return err
		})
		return s, err
	}
	_, err := attempt(func() { commit(t, pool, client, []job.Spec{specOf("snapshot")}) })
	var pg *pgconn.PgError
	require.ErrorAs(t, err, &pg)
	require.Equal(t, "40001", pg.Code)
	s, err := attempt(func() {})
	require.NoError(t, err)
	require.Equal(t, duly.Existing, s.Status)
}

func TestRollbackLeavesNothing(t *testing.T) {
	t.Parallel()
	pool := newLedger(t)
	undone := errors.New("the producer changed its mind")
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := duly.NewClient(pool).Schedule(t.Context(), tx, specOf("undone"))
		require.NoError(t, err)
		return undone
	})
	require.ErrorIs(t, err, undone)
	for _, table := range []string{"job", "job_key", "outbox"} {
		require.Zero(t, count(t, pool, `SELECT count(*)::int FROM duly.`+table), table)
	}
	_, err = duly.NewClient(pool).Job(t.Context(), kind, "undone")
	require.ErrorIs(t, err, job.ErrNotFound)
}

func TestJobsOfALongTransactionAreAnnouncedWhenItCommitsAndOthersDoNotWait(t *testing.T) {
	t.Parallel()
	pool := newLedger(t)
	client, l, holder := duly.NewClient(pool), ledger.New(pool), uuid.NewString()
	mine, err := l.ClaimTopic(t.Context(), "mail", holder, time.Hour)
	require.NoError(t, err)
	require.True(t, mine)
	relay := func() (jobs []int64) {
		page, err := l.ReadOutbox(t.Context(), "mail", holder, 10)
		require.NoError(t, err)
		for _, r := range page.Rows {
			jobs = append(jobs, r.Refs[0].Job)
		}
		if len(page.Rows) > 0 {
			require.NoError(t, l.Advance(t.Context(), "mail", holder, page))
		}
		return jobs
	}
	long, err := pool.Begin(t.Context())
	require.NoError(t, err)
	slow, err := client.Schedule(t.Context(), long, specOf("slow"))
	require.NoError(t, err)
	quick := commit(t, pool, client, []job.Spec{specOf("quick")})[0]
	require.Equal(t, []int64{quick.ID}, relay())
	require.NoError(t, long.Commit(t.Context()))
	require.Equal(t, []int64{slow.ID}, relay())
}

func TestAProducerWithOneConnectionNeedsNoSecond(t *testing.T) {
	t.Parallel()
	pool := newLedger(t)
	config := pool.Config()
	config.MaxConns = 1
	narrow, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	defer narrow.Close()
	client := duly.NewClient(narrow)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	err = pgx.BeginFunc(ctx, narrow, func(tx pgx.Tx) error {
		if _, err := client.Schedule(ctx, tx, specOf("narrow")); err != nil {
			return err
		}
		_, err := client.Cancel(ctx, tx, kind, "narrow", "me", "test")
		return err
	})
	require.NoError(t, err)
}

func TestTheTransactionCommitsDurablyWhateverTheDefaultIs(t *testing.T) {
	t.Parallel()
	pool := newLedger(t)
	setting := func(tx pgx.Tx) (s string) {
		require.NoError(t, tx.QueryRow(t.Context(), `SHOW synchronous_commit`).Scan(&s))
		return s
	}
	for given, want := range map[string]string{"off": "on", "local": "on", "on": "on", "remote_apply": "remote_apply"} {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), `SELECT set_config('synchronous_commit', $1, true)`, given); err != nil {
				return err
			}
			_, err := duly.NewClient(pool).Schedule(t.Context(), tx, specOf("durable-"+given))
			require.Equal(t, want, setting(tx))
			return err
		})
		require.NoError(t, err)
	}
}

func TestTheTraceOfTheProducerGoesOnInTheJob(t *testing.T) {
	t.Parallel()
	pool := newLedger(t)
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	ctx := trace.ContextWithSpanContext(t.Context(), span)
	own := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	specs := []job.Spec{specOf("ctx"), specOf("own"), specOf("bad")}
	specs[1].TraceParent, specs[2].TraceParent = own, "\xff\x00"
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := duly.NewClient(pool).ScheduleMany(ctx, tx, specs)
		return err
	}))
	of := func(key string) (s string) {
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT trace_parent FROM duly.job WHERE key = $1`, key).Scan(&s))
		return s
	}
	require.Contains(t, of("ctx"), span.TraceID().String())
	require.Equal(t, own, of("own"))
	require.Contains(t, of("bad"), span.TraceID().String(), "nothing fails for the sake of a trace")
}

func TestJobAndCancelTellWhereAJobStands(t *testing.T) {
	t.Parallel()
	pool := newLedger(t)
	client := duly.NewClient(pool)
	commit(t, pool, client, []job.Spec{specOf("a")})
	j, err := client.Job(t.Context(), kind, "a")
	require.NoError(t, err)
	require.Equal(t, job.Ready, j.State)
	require.EqualValues(t, 1, j.Generation)

	l := ledger.New(pool)
	w := machine.Worker{ID: uuid.NewString(), Version: "v1", LeaseTime: 30 * time.Second}
	require.NoError(t, l.RegisterWorker(t.Context(), w))
	kinds, err := l.Kinds(t.Context())
	require.NoError(t, err)
	var id int64
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT id FROM duly.job`).Scan(&id))
	leases, err := l.Lease(t.Context(), machine.LeaseRequest{Worker: w, Kind: kinds[0], Refs: []job.Ref{{Job: id, Generation: 1, Emission: 1}}})
	require.NoError(t, err)
	var cancelled duly.Cancelled
	cancel := func() error {
		return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) (err error) {
			cancelled, err = client.Cancel(t.Context(), tx, kind, "a", "me\x00", "why\xff")
			return err
		})
	}
	require.NoError(t, cancel())
	require.Equal(t, duly.Cancelled{State: job.Leased, Requested: true}, cancelled)
	_, err = l.Settle(t.Context(), w, []machine.Report{{
		Attempt: machine.Attempt{Job: id, Generation: 1, Fence: 1}, Result: job.Done(&job.Receipt{ID: "r"}), Kind: &leases.Grants[0].Row.Kind,
	}})
	require.NoError(t, err)
	j, err = client.Job(t.Context(), kind, "a")
	require.NoError(t, err)
	require.Equal(t, job.Delivered, j.State)
	require.Equal(t, "r", j.Receipt.ID)
	require.ErrorIs(t, cancel(), job.ErrRefused)
}

func TestAtResolvesWallTimes(t *testing.T) {
	t.Parallel()
	at, err := duly.At("2026-09-30T17:00:00", "Europe/Paris")
	require.NoError(t, err)
	require.Equal(t, "2026-09-30T15:00:00Z", at.Format(time.RFC3339))
	at, err = duly.At("2026-03-29T02:30:00", "Europe/Paris")
	require.NoError(t, err)
	require.Equal(t, "2026-03-29T01:00:00Z", at.Format(time.RFC3339), "the first instant after the gap")
	_, err = duly.At("5 PM", "Local")
	require.Len(t, job.Refusals(err), 2)
}
