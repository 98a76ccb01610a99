package ledger_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// schedule makes n jobs that are due later, and returns their ids.
func (b *bench) schedule(name string, n int, due time.Time) []int64 {
	b.t.Helper()
	specs := make([]job.Spec, n)
	for i := range specs {
		specs[i] = job.Spec{Kind: kind, Key: fmt.Sprintf("%s-%d", name, i), Payload: []byte(`{}`), Due: due}
	}
	made, err := b.Enqueue(b.t.Context(), b.pool, specs)
	require.NoError(b.t, err)
	ids := make([]int64, n)
	for i, m := range made {
		require.NoError(b.t, m.Refused)
		ids[i] = m.Job
	}
	return ids
}

// comeDue moves what is scheduled back in time, so that it is due now.
func (b *bench) comeDue(by time.Duration) {
	b.t.Helper()
	b.exec(`UPDATE duly.job SET due_at = due_at - $1::interval, wake_at = wake_at - $1::interval, promote_at = promote_at - $1::interval WHERE state = 'scheduled'`, by)
}

// promoteAll promotes from the front to the end.
func (b *bench) promoteAll(limit int) machine.Promotion {
	b.t.Helper()
	all := machine.Promotion{Promoted: map[job.Waiting]int{}, Ended: machine.Tally{}}
	var from machine.Position
	for {
		p, err := b.Promote(b.t.Context(), from, limit)
		require.NoError(b.t, err)
		for w, n := range p.Promoted {
			all.Promoted[w] += n
		}
		for e, n := range p.Ended {
			all.Ended[e] += n
		}
		all.Delay = max(all.Delay, p.Delay)
		if from = p.Next; !p.More {
			return all
		}
	}
}

// plan is the plan of a statement under the settings that it runs under.
func (b *bench) plan(settings, statement string, args ...any) string {
	b.t.Helper()
	tx, err := b.pool.Begin(b.t.Context())
	require.NoError(b.t, err)
	defer func() { require.NoError(b.t, tx.Rollback(b.t.Context())) }()
	_, err = tx.Exec(b.t.Context(), b.Statement(settings))
	require.NoError(b.t, err)
	rows, err := tx.Query(b.t.Context(), "EXPLAIN "+b.Statement(statement), args...)
	require.NoError(b.t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(b.t, err)
	return strings.Join(lines, "\n")
}

func (b *bench) row(id int64) machine.Row {
	b.t.Helper()
	r, err := b.Row(b.t.Context(), id, 1)
	require.NoError(b.t, err)
	return r
}

func TestPromotionMakesReadyWhatIsDueTogetherWithAnEmission(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	ids := b.schedule("due", 10, time.Now().Add(time.Hour))
	require.Empty(t, b.promoteAll(4).Promoted, "nothing is due yet")
	b.comeDue(2 * time.Hour)
	later := b.schedule("later", 1, time.Now().Add(time.Hour))

	p := b.promoteAll(4)
	require.Equal(t, map[job.Waiting]int{job.WaitingDue: 10}, p.Promoted)
	require.Greater(t, p.Delay, 50*time.Minute)
	refs := b.announced()
	want := make([]job.Ref, len(ids))
	for i, id := range ids {
		want[i] = job.Ref{Job: id, Generation: 1, Emission: 1}
	}
	require.ElementsMatch(t, want, refs)
	require.Equal(t, 10, b.count(`SELECT count(*)::int FROM duly.event WHERE name = 'due' AND from_state = 'scheduled' AND to_state = 'ready' AND why = 'due' AND emission = 1`))
	require.Equal(t, job.Scheduled, b.row(later[0]).State)
	require.Empty(t, b.promoteAll(4).Promoted)
}

// The hot statement must do what the machine says, column by column.
func TestPromotionDoesWhatTheMachineSays(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	ids := map[string]int64{
		"due":   c.schedule("due", 1, time.Now().Add(time.Hour))[0],
		"held":  c.enqueue("held", 1)[0].Job,
		"retry": c.enqueue("retry", 1)[0].Job,
	}
	_, err := c.HoldRefs(t.Context(), []job.Ref{{Job: ids["held"], Generation: 1, Emission: 1}}, job.HoldPaused, time.Hour)
	require.NoError(t, err)
	g := c.ask(c.worker, job.Ref{Job: ids["retry"], Generation: 1, Emission: 1}).Grants[0]
	c.settle(g, job.NotDone(job.ClassTransient, job.CodeUnreachable, "refused"))
	c.comeDue(2 * time.Hour)
	before := map[string]machine.Row{}
	for name, id := range ids {
		before[name] = c.row(id)
	}
	require.Equal(t, map[job.Waiting]int{job.WaitingDue: 1, job.WaitingHeld: 1, job.WaitingRetry: 1}, c.promoteAll(100).Promoted)
	for name, id := range ids {
		got := c.row(id)
		now := got.FirstReady
		if !before[name].FirstReady.IsZero() {
			now = time.Now()
		}
		want, change := machine.Next(before[name], machine.Event{Name: machine.Due}, now)
		require.Equal(t, machine.Applied, change.Refused, name)
		require.Empty(t, cmp.Diff(want, got, cmpopts.EquateEmpty()), name)
		require.Equal(t, 1, c.count(`SELECT count(*)::int FROM duly.job WHERE id = $1 AND expires_at = $2`, id, want.ExpiresAt()), name)
		require.Equal(t, 1, c.count(`SELECT count(*)::int FROM duly.event WHERE job = $1 AND name = 'due' AND why = $2 AND emission = $3 AND fence = $4 AND policy_hash = $5`,
			id, change.Record.Why, change.Record.Emission, change.Record.Fence, c.kind.Hash()), name)
	}
}

// C18: a scheduler that dies between taking a job and firing it leaves it to the next
// look, which goes by time, not by what somebody had begun.
func TestC18WhatADeadSchedulerHadTakenIsPromotedByTheNext(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ids := b.schedule("taken", 4, time.Now().Add(time.Hour))
	b.comeDue(2 * time.Hour)
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT FROM duly.job WHERE id = ANY ($1) FOR UPDATE`, ids[:2])
	require.NoError(t, err)
	require.Equal(t, 2, b.promoteAll(100).Promoted[job.WaitingDue], "it waits for nobody")
	require.NoError(t, tx.Rollback(t.Context()))
	require.Equal(t, 2, b.promoteAll(100).Promoted[job.WaitingDue])
}

func TestSeveralSchedulersNeverPromoteTwice(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	ids := b.schedule("many", 2000, time.Now().Add(time.Hour))
	b.comeDue(2 * time.Hour)
	var (
		all     sync.WaitGroup
		mu      sync.Mutex
		between int
	)
	for range 4 {
		one := b.another()
		all.Go(func() {
			n := one.promoteAll(97).Promoted[job.WaitingDue]
			mu.Lock()
			defer mu.Unlock()
			between += n
		})
	}
	all.Wait()
	between += b.promoteAll(500).Promoted[job.WaitingDue] // what each had left to another
	require.Equal(t, len(ids), between)
	refs := b.announced()
	require.Len(t, refs, len(ids))
	slices.SortFunc(refs, func(a, b job.Ref) int { return int(a.Job - b.Job) })
	require.Len(t, slices.CompactFunc(refs, func(a, b job.Ref) bool { return a.Job == b.Job }), len(ids))
}

func TestWhatHasExpiredIsEndedInsteadOfPromoted(t *testing.T) {
	t.Parallel()
	b := newCrew(t)
	id := b.schedule("late", 1, time.Now().Add(time.Hour))[0]
	b.exec(`UPDATE duly.job SET deadline = now() - interval '1 s', expires_at = now() - interval '1 s' WHERE id = $1`, id)
	b.comeDue(2 * time.Hour)
	p := b.promoteAll(100)
	require.Empty(t, p.Promoted)
	require.Equal(t, machine.Tally{{State: job.Quarantined, Reason: job.ReasonDeadline}: 1}, p.Ended)
	require.Equal(t, 1, b.count(`SELECT count(*)::int FROM duly.quarantine WHERE job = $1`, id))
	require.Equal(t, 1, b.count(`SELECT count(*)::int FROM duly.outbox WHERE topic = '.dead'`))
}

// A retry is left to its delayed emission: for 5 s after its wake_at, and for as long as
// a mark stands in whose queue it may stand too.
func TestRetriesWaitForAMarkThatWasSentAfterThem(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	c.claim(lane)
	retry := func(name string) int64 {
		ref := c.enqueue(name, 1)[0]
		c.settle(c.ask(c.worker, ref).Grants[0], job.NotDone(job.ClassTransient, job.CodeUnreachable, "refused"))
		return ref.Job
	}
	first := retry("first")
	require.Equal(t, machine.RetryGrace, c.row(first).PromoteAt().Sub(c.row(first).WakeAt))
	standing := c.mark(0)
	c.exec(`UPDATE duly.mark SET issued_at = now() - interval '20 s'`)
	c.redate(first, -time.Hour)
	held := c.enqueue("held", 1)[0]
	_, err := c.HoldRefs(t.Context(), []job.Ref{held}, job.HoldPaused, time.Hour)
	require.NoError(t, err)
	c.redate(held.Job, -2*time.Hour)
	p := c.promoteAll(100)
	require.Equal(t, map[job.Waiting]int{job.WaitingHeld: 1}, p.Promoted, "only retries have an emission on its way")

	c.exec(`UPDATE duly.job SET promote_at = now() - interval '10 s', wake_at = now() - interval '15 s' WHERE id = $1`, first)
	c.pass(0, standing.Number)
	next := c.mark(0)
	c.exec(`UPDATE duly.mark SET issued_at = now() - interval '11 s' WHERE number = $1`, next.Number)
	require.Empty(t, c.promoteAll(100).Promoted, "the mark that passed was sent before")
	c.exec(`UPDATE duly.mark SET issued_at = now() - interval '1 s' WHERE number = $1`, next.Number)
	require.Equal(t, 1, c.promoteAll(100).Promoted[job.WaitingRetry], "a young mark is on its way, and nothing else stands")

	second := retry("second")
	c.exec(`UPDATE duly.job SET promote_at = now() - interval '10 s', wake_at = now() - interval '15 s' WHERE id = $1`, second)
	c.pass(0, next.Number)
	c.exec(`UPDATE duly.mark SET issued_at = now() - interval '5 s' WHERE number = $1`, next.Number)
	stuck := c.mark(0)
	c.exec(`UPDATE duly.mark SET issued_at = now() - interval '4 min' WHERE number = $1`, stuck.Number)
	require.Equal(t, 1, c.promoteAll(100).Promoted[job.WaitingRetry], "a mark sent behind it has passed: its emission is lost")
}

func TestPromotionReadsNoMoreThanWhatIsDue(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.schedule("plan", 2000, time.Now().Add(time.Hour))
	b.comeDue(2 * time.Hour)
	b.exec(`ANALYZE duly.job`)
	plan := b.plan("hot", "promote_page", time.Time{}, 0, 500, []int16{1}, []time.Duration{time.Hour}, []time.Duration{time.Hour}, []string{"x"})
	require.NotContains(t, plan, "Seq Scan on job", plan)
	require.Equal(t, 1, strings.Count(plan, "promote_at <= now()"), "the index is walked once, every row is found by its key:\n%s", plan)
}
