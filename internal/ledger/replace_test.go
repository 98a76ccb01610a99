package ledger_test

import (
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

func specOf(key, payload string, due time.Time) job.Spec {
	return job.Spec{Kind: kind, Key: key, Payload: []byte(payload), Due: due}
}

func (c *crew) replace(specs ...job.Spec) []machine.Enqueued {
	c.t.Helper()
	var all []machine.Enqueued
	err := pgx.BeginFunc(c.t.Context(), c.pool, func(tx pgx.Tx) (err error) {
		all, err = c.Replace(c.t.Context(), tx, specs)
		return err
	})
	require.NoError(c.t, err)
	return all
}

func TestReplaceChangesTheBodyBeforeAnyAttempt(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	later := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	made := c.replace(specOf("a", `1`, time.Time{}))[0]
	require.True(t, made.Created)
	again := c.replace(specOf("a", `1`, time.Time{}))[0]
	require.Equal(t, machine.Enqueued{Job: made.Job}, again, "the same request is the same job")

	moved := specOf("a", `2`, later)
	moved.Destination, moved.Deadline = "x@example.com", later.Add(time.Hour)
	require.Equal(t, machine.Enqueued{Job: made.Job, Replaced: true}, c.replace(moved)[0])
	g := c.current("a")
	require.Equal(t, job.Scheduled, g.State)
	require.Equal(t, job.WaitingDue, g.Waiting)
	require.True(t, later.Equal(g.WakeAt))
	require.True(t, moved.Deadline.Equal(g.Deadline))
	require.Equal(t, `2`, string(g.Payload))
	require.Equal(t, "x@example.com", g.Destination)
	require.Len(t, c.ask(c.worker, job.Ref{Job: made.Job, Generation: 1, Emission: 1}).Stale, 1, "its old emission does nothing")
	require.Equal(t, machine.Enqueued{Job: made.Job}, c.replace(moved)[0])

	require.True(t, c.replace(specOf("a", `3`, time.Time{}))[0].Replaced)
	g = c.current("a")
	require.Equal(t, job.Ready, g.State)
	require.EqualValues(t, 2, g.Emission, "emission numbers continue")
	require.True(t, g.Deadline.IsZero())
	require.Empty(t, g.Destination)
	require.True(t, c.replace(specOf("a", `4`, time.Time{}))[0].Replaced)
	require.EqualValues(t, 2, c.current("a").Emission, "what is ready keeps its emission")
	require.Equal(t, 3, c.count(`SELECT count(*)::int FROM duly.event WHERE job = $1 AND name = 'replaced'`, made.Job))

	grant := c.ask(c.worker, job.Ref{Job: made.Job, Generation: 1, Emission: 2}).Grants[0]
	require.Equal(t, `4`, string(grant.Payload))
	refused := c.replace(specOf("a", `5`, time.Time{}))[0]
	require.ErrorIs(t, refused.Refused, job.ErrConflict)
	require.ErrorContains(t, refused.Refused, "an attempt has begun")
	require.Equal(t, `4`, string(c.current("a").Payload))
}

// current is the current generation of a job as it is kept.
func (c *crew) current(key string) machine.Generation {
	c.t.Helper()
	story, err := c.Find(c.t.Context(), kind, key)
	require.NoError(c.t, err)
	g, ok := story.Current()
	require.True(c.t, ok)
	return g
}

func TestReplaceOfOneRowCostsItsNeighboursNothing(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	c.replace(specOf("begun", `1`, time.Time{}), specOf("waits", `1`, time.Time{}))
	c.ask(c.worker, job.Ref{Job: c.current("begun").Job, Generation: 1, Emission: 1})
	late := specOf("waits", `3`, time.Time{})
	late.Deadline = time.Now().Add(-time.Hour)
	all := c.replace(specOf("begun", `2`, time.Time{}), specOf("new", `1`, time.Time{}), late, specOf("waits", `2`, time.Time{}), specOf("waits", `4`, time.Time{}))
	require.ErrorIs(t, all[0].Refused, job.ErrConflict)
	require.True(t, all[1].Created)
	require.Equal(t, job.RuleDeadlinePast, job.Refusals(all[2].Refused)[0].Rule)
	require.True(t, all[3].Replaced)
	require.True(t, all[4].Replaced, "the last of one call counts")
	require.Equal(t, `4`, string(c.current("waits").Payload))
}

func TestReplacesAtOnceLeaveOneWholeBody(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	id := c.replace(specOf("contested", `0`, time.Time{}))[0].Job
	var all sync.WaitGroup
	for _, p := range []string{`1`, `2`, `3`, `4`, `5`, `6`} {
		all.Go(func() { c.replace(specOf("contested", p, time.Time{})) })
	}
	all.Wait()
	g := c.current("contested")
	require.Equal(t, machine.Enqueued{Job: id}, c.replace(specOf("contested", string(g.Payload), time.Time{}))[0],
		"the key's body is the one that is kept")
	require.Equal(t, 1, c.emissions(id, 1))
}

func TestSameRequestIsAnsweredHoweverLateItIsRepeated(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	s := specOf("late", `1`, time.Time{})
	s.Deadline = time.Now().Add(time.Hour)
	made, err := c.Enqueue(t.Context(), c.pool, []job.Spec{s})
	require.NoError(t, err)
	s.Deadline = time.Now().Add(-time.Hour)
	c.exec(`UPDATE duly.job_key SET body = $2 WHERE hash = $1`, [16]byte(job.KeyHash(kind, "late")), [16]byte(s.BodyHash())) // as if an hour had passed
	other := s
	other.Key = "other"
	all, err := c.Enqueue(t.Context(), c.pool, []job.Spec{s, other})
	require.NoError(t, err)
	require.Equal(t, machine.Enqueued{Job: made[0].Job}, all[0])
	require.Equal(t, job.RuleDeadlinePast, job.Refusals(all[1].Refused)[0].Rule, "what is late and new is refused")
}
