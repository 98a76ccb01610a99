package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// ctx shortens an interface of the model.
type ctx = context.Context

// clock is the time of the model. Nobody can set PostgreSQL's clock, so time passes
// by moving every instant that the ledger keeps into the past. The memory ledger's
// clock is PostgreSQL's plus all that has passed so.
type clock struct {
	ctx    context.Context
	pool   *pgxpool.Pool
	t      *rapid.T
	passed time.Duration
	at     time.Time // of the operation, in the model's time
	began  time.Time
	steps  int
	// stalled: an operation took so long that the ledgers may rightly differ.
	stalled bool
}

// errStalled ends the walk of a model without a verdict.
var errStalled = errors.New("the machine is too busy to compare instants")

const (
	// tolerance is how much two instants may differ that the two ledgers wrote for one
	// operation.
	tolerance = 2 * time.Second
	// odd is what a step of the clock has beyond whole minutes, so that after any number
	// of steps no bound of the model, which are whole minutes and a few seconds, is met
	// within the tolerance.
	odd      = 13 * time.Second
	maxSteps = 4
)

// newClock empties the ledger and starts the model's time.
func newClock(t *testing.T, rt *rapid.T, pool *pgxpool.Pool) *clock {
	c := &clock{ctx: t.Context(), pool: pool, t: rt}
	_, err := pool.Exec(c.ctx, `
		TRUNCATE duly.job, duly.job_key, duly.event, duly.done, duly.lease, duly.outbox, duly.quarantine, duly.unknown, duly.cleanup, duly.redrive, duly.audit,
		         duly.mark, duly.mark_passed, duly.judge, duly.unsendable, duly.progress, duly.worker`)
	require.NoError(rt, err)
	_, err = pool.Exec(c.ctx, `UPDATE duly.topic SET holder = NULL, held_until = NULL, relayed = pg_current_snapshot(), pass = NULL, pass_xid = NULL, pass_id = NULL`)
	require.NoError(rt, err)
	c.begin()
	return c
}

// now is the instant of the operation.
func (c *clock) now() time.Time { return c.at }

// begin takes the instant of an operation.
func (c *clock) begin() {
	var now time.Time
	require.NoError(c.t, c.pool.QueryRow(c.ctx, `SELECT clock_timestamp()`).Scan(&now))
	c.at, c.began = now.Add(c.passed).UTC(), time.Now()
}

// end gives up where the operation took so long that the ledgers may rightly differ.
func (c *clock) end() {
	if c.stalled = time.Since(c.began) > tolerance/2; c.stalled {
		panic(errStalled)
	}
}

// pass lets time pass.
func (c *clock) pass(d time.Duration) {
	if c.steps++; c.steps > maxSteps {
		c.t.Skip("time has passed often enough")
	}
	d += odd
	for _, statement := range shifts {
		_, err := c.pool.Exec(c.ctx, statement, d)
		require.NoError(c.t, err)
	}
	c.passed += d
	c.begin()
}

// shifts move every instant that a decision looks at.
var shifts = []string{
	`UPDATE duly.job SET created_at = created_at - $1::interval, due_at = due_at - $1::interval, deadline = deadline - $1::interval,
	        first_ready_at = first_ready_at - $1::interval, origin_at = origin_at - $1::interval, wake_at = wake_at - $1::interval,
	        promote_at = promote_at - $1::interval, expires_at = expires_at - $1::interval, leased_at = leased_at - $1::interval,
	        ended_at = ended_at - $1::interval, doubt_since = doubt_since - $1::interval, doubt_until = doubt_until - $1::interval`,
	`UPDATE duly.unknown SET at = at - $1::interval, closes_at = closes_at - $1::interval, ask_at = ask_at - $1::interval, asked_at = asked_at - $1::interval`,
	`UPDATE duly.cleanup SET due_at = due_at - $1::interval, next_at = next_at - $1::interval, parked_at = parked_at - $1::interval,
	        failing_since = failing_since - $1::interval, failed_at = failed_at - $1::interval, done_at = done_at - $1::interval, given_up_at = given_up_at - $1::interval`,
	`UPDATE duly.quarantine SET at = at - $1::interval`,
	`UPDATE duly.worker SET seen_at = seen_at - $1::interval, ended_at = ended_at - $1::interval`,
	`UPDATE duly.lease SET at = at - $1::interval, ends_at = ends_at - $1::interval`,
	`UPDATE duly.done SET at = at - $1::interval`,
	`UPDATE duly.event SET at = at - $1::interval, wake_at = wake_at - $1::interval`,
	`UPDATE duly.outbox SET at = at - $1::interval`,
	`UPDATE duly.redrive SET at = at - $1::interval`,
	`UPDATE duly.mark SET issued_at = issued_at - $1::interval, passed_at = passed_at - $1::interval`,
	`UPDATE duly.progress SET instant = instant - $1::interval, at = at - $1::interval`,
}

// toReal and toVirtual carry an instant from the model's time into PostgreSQL's, and
// back; none stays none.
func (c *clock) toReal(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(-c.passed)
}

func (c *clock) toVirtual(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(c.passed)
}

// about takes instants for equal that are no further apart than an operation takes.
func (c *clock) about() cmp.Option {
	return cmp.Comparer(func(a, b time.Time) bool {
		return a.IsZero() == b.IsZero() && a.Sub(b).Abs() < tolerance
	})
}

// tale is a story as both ledgers must tell it.
type tale struct {
	Generations []machine.Generation
	Events      []string
	Redrives    []machine.RedriveNote
	Cleanup     machine.Cleanup
}

func (tw *twins) told(s machine.Story, virtual func(time.Time) time.Time) tale {
	var t tale
	for _, g := range s.Generations {
		g.Job, g.Kind = 0, machine.Kind{}
		for _, at := range []*time.Time{
			&g.Created, &g.Origin, &g.FirstReady, &g.Due, &g.Deadline, &g.WakeAt, &g.LeasedAt, &g.DoubtSince, &g.DoubtUntil, &g.Ended,
			&g.Asking.NextAt, &g.Asking.AskedAt,
		} {
			*at = virtual(*at)
		}
		t.Generations = append(t.Generations, g)
	}
	for _, e := range s.Events {
		var receipt job.Receipt
		if e.Receipt != nil {
			receipt = *e.Receipt
		}
		t.Events = append(t.Events, fmt.Sprintf("g%d fence %d attempt %d emission %d: %s %s→%s outcome=%s class=%s code=%s why=%s detail=%q worker=%s actor=%s late=%t waits=%t receipt=%v %s %s %s",
			e.Generation, e.Fence, e.Attempt, e.Emission, e.Name, e.From, e.To, e.Outcome, e.Class, e.Code, e.Why, e.Detail,
			e.Worker, e.Actor, e.Late, !e.WakeAt.IsZero(), receipt, e.Version, e.Classifier, e.Policy))
	}
	slices.Sort(t.Events)
	t.Cleanup = virtualCleanup(s.Cleanup, virtual)
	for _, r := range s.Redrives {
		r.At = virtual(r.At)
		t.Redrives = append(t.Redrives, r)
	}
	return t
}

func virtualCleanup(c machine.Cleanup, virtual func(time.Time) time.Time) machine.Cleanup {
	for _, at := range []*time.Time{&c.DueAt, &c.NextAt, &c.FailingSince, &c.FailedAt, &c.ParkedAt, &c.DoneAt, &c.GivenUpAt} {
		*at = virtual(*at)
	}
	return c
}

// budget bounds how long the model is walked: what it costs depends on the machine.
// A failure is still shrunk beyond it.
type budget struct {
	mu     sync.Mutex
	until  time.Time
	failed bool
	walks  int
}

func newBudget(d time.Duration) *budget { return &budget{until: time.Now().Add(d)} }

func (b *budget) spent() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.failed && time.Now().After(b.until) {
		return true
	}
	b.walks++
	return false
}

// watch notes that a walk failed.
func (b *budget) watch(t *rapid.T) {
	if t.Failed() {
		b.mu.Lock()
		b.failed = true
		b.mu.Unlock()
	}
}
