package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// lateBound asks for the destinations of the kind right before an attempt; its receiver
// dedupes for a day.
func lateBound(k *machine.Kind) {
	k.Promises.Resolve = machine.MeansSQL
	k.Promises.Window = 24 * time.Hour
	k.Policy.Jitter = 0
}

// bind stores where attempts go, and says which were taken.
func (c *crew) bind(w machine.Worker, address string, grants ...machine.Grant) []bool {
	c.t.Helper()
	bindings := make([]machine.Binding, len(grants))
	for i, g := range grants {
		bindings[i] = machine.Binding{Attempt: report(g, job.Result{}).Attempt, Address: address, By: machine.MeansSQL}
	}
	taken, err := c.Bind(c.t.Context(), w, bindings)
	require.NoError(c.t, err)
	return taken
}

// retry leases the next attempt of a job that waits for one.
func (c *crew) retry(w machine.Worker, id int64) machine.Grant {
	c.t.Helper()
	c.redate(id, -time.Minute)
	row := c.row(id)
	grants := c.ask(w, job.Ref{Job: id, Generation: row.Generation, Emission: row.Emission}).Grants
	require.Len(c.t, grants, 1)
	return grants[0]
}

// G1: where an attempt went that may have happened is leased with the next one, whoever
// leases it, and no other address is taken for that.
func TestG1WhatMayHaveHappenedIsRepeatedWhereItWent(t *testing.T) {
	t.Parallel()
	c := newCrew(t, lateBound)
	ref := c.enqueue("moved", 1)[0]
	first := c.ask(c.worker, ref).Grants[0]
	require.True(t, first.Resolves())
	require.Equal(t, []bool{true}, c.bind(c.worker, "old@example.com", first))
	require.Equal(t, []bool{true}, c.bind(c.worker, "old@example.com", first), "asked again it answers the same")
	require.Equal(t, job.Scheduled, c.settle(first, job.MayBeDone(job.CodeTimeout, "no answer")).State)

	other := c.register()
	second := c.retry(other, ref.Job)
	require.False(t, second.Resolves())
	require.True(t, second.Repeats())
	require.Equal(t, "old@example.com", second.Bound.Address)
	require.Equal(t, first.Row.Fence, second.Bound.Fence)
	require.Equal(t, []bool{false}, c.bind(other, "new@example.com", second), "the same effect key never goes to two places")
	require.Equal(t, []bool{false}, c.bind(c.worker, "new@example.com", first), "nor does a stale fence take it there")
	require.Equal(t, 1, c.count(`SELECT count(*) FROM duly.resolved WHERE address = 'old@example.com' AND fence = $1`, first.Row.Fence))

	held, err := c.LeasedBy(t.Context(), other.ID, []job.Ref{{Job: ref.Job, Generation: 1, Emission: second.Row.Emission}})
	require.NoError(t, err)
	require.Equal(t, "old@example.com", held[0].Bound.Address, "a lease that is read back has it too")
}

// What surely failed binds nobody: the next attempt asks anew.
func TestWhatSurelyFailedIsResolvedAgain(t *testing.T) {
	t.Parallel()
	c := newCrew(t, lateBound)
	ref := c.enqueue("failed", 1)[0]
	first := c.ask(c.worker, ref).Grants[0]
	c.bind(c.worker, "old@example.com", first)
	c.settle(first, job.NotDone(job.ClassTransient, job.CodeUnreachable, "refused"))
	second := c.retry(c.worker, ref.Job)
	require.True(t, second.Resolves())
	require.Equal(t, []bool{true}, c.bind(c.worker, "new@example.com", second))
	c.settle(second, job.Done(&job.Receipt{ID: "m-1"}))
	story, err := c.Show(t.Context(), kind, "failed-0")
	require.NoError(t, err)
	g, _ := story.Current()
	require.Equal(t, []any{"new@example.com", machine.MeansSQL, second.Row.Fence}, []any{g.Bound.Address, g.Bound.By, g.Bound.Fence})
	require.WithinDuration(t, time.Now(), g.Bound.At, time.Minute)
}

// A worker that died before it stored where it goes has sent nothing, so that its doubt
// binds nobody either. One that was only paused there is not taken when it wakes.
func TestG1NothingStoredMeansThatNothingWasSent(t *testing.T) {
	t.Parallel()
	c := newCrew(t, lateBound)
	ref := c.enqueue("died", 1)[0]
	first := c.ask(c.worker, ref).Grants[0]
	require.NoError(t, c.EndWorker(t.Context(), c.worker.ID))
	require.Equal(t, 1, c.endLeases(c.worker, 10)[machine.Ending{State: job.Scheduled}])
	require.Equal(t, []bool{false}, c.bind(c.worker, "paused@example.com", first), "its lease has ended, and nobody has leased it since")

	other := c.register()
	second := c.retry(other, ref.Job)
	require.True(t, second.Row.InDoubt())
	require.True(t, second.Resolves(), "nothing is stored: nothing was sent")
	require.Equal(t, []bool{false}, c.bind(c.worker, "paused@example.com", first))
	require.Equal(t, []bool{true}, c.bind(other, "new@example.com", second))
	require.Equal(t, []bool{false}, c.bind(c.worker, "paused@example.com", first))
}

// Once a doubt is settled by a "no", the next attempt asks anew.
func TestAfterANoItIsResolvedAgain(t *testing.T) {
	t.Parallel()
	c := newCrew(t, lateBound, func(k *machine.Kind) { k.Promises.Window = 0 }, askable)
	ref := c.unknown("no", 1)[0]
	c.later(time.Minute)
	row := c.row(ref.Job)
	require.Equal(t, job.Unknown, row.State)
	_, err := c.Resolve(t.Context(), machine.Answer{Kind: kind, Key: "no-0", Fence: row.Fence, Verdict: machine.VerdictNotDelivered, Actor: "ann", Evidence: "nothing there"})
	require.NoError(t, err)
	again := c.retry(c.worker, ref.Job)
	require.True(t, again.Resolves())
}

// A receiver is asked about where the effect went.
func TestAReceiverIsAskedAboutWhereTheEffectWent(t *testing.T) {
	t.Parallel()
	c := newCrew(t, lateBound, func(k *machine.Kind) { k.Promises.Window = 0 }, askable)
	ref := c.enqueue("asked", 1)[0]
	g := c.ask(c.worker, ref).Grants[0]
	c.bind(c.worker, "https://new.example.com/", g)
	c.settle(g, job.MayBeDone(job.CodeTimeout, "no answer"))
	c.later(time.Minute)
	require.Equal(t, "https://new.example.com/", c.take(1)[0].Destination)
}

// What a person gave with a redrive is not asked for any more; a redrive without one is.
func TestWhatAPersonGaveIsNotResolved(t *testing.T) {
	t.Parallel()
	c := newCrew(t, lateBound)
	ref := c.poison("given")
	next := func(generation int32) machine.Grant {
		row, err := c.Row(t.Context(), ref.Job, generation)
		require.NoError(t, err)
		return c.ask(c.worker, job.Ref{Job: ref.Job, Generation: generation, Emission: row.Emission}).Grants[0]
	}
	c.redrive(redriveOf("given", "r-1", 1))
	second := next(2)
	require.True(t, second.Resolves())
	c.settle(second, job.NotDone(job.ClassPermanent, job.CodeDestinationInvalid, "550"))
	request := redriveOf("given", "r-2", 2)
	request.Destination = "person@example.com"
	c.redrive(request)
	third := next(3)
	require.False(t, third.Resolves())
	require.Equal(t, "person@example.com", third.Destination)
	c.settle(third, job.NotDone(job.ClassPermanent, job.CodeDestinationInvalid, "550"))
	c.redrive(redriveOf("given", "r-3", 3))
	require.False(t, next(4).Resolves(), "a destination that is copied stays a person's")
	broken, _ := c.check(ledger.CheckRequest{})
	require.Empty(t, broken)
}

func TestWhereAJobWentLeavesWithIt(t *testing.T) {
	t.Parallel()
	c := newCrew(t, lateBound)
	ref := c.enqueue("gone", 1)[0]
	g := c.ask(c.worker, ref).Grants[0]
	c.bind(c.worker, "a@example.com", g)
	c.settle(g, job.Done(nil))
	c.later(2 * retention)
	c.patrol(100)
	require.Zero(t, c.count(`SELECT count(*) FROM duly.job`))
	require.Zero(t, c.count(`SELECT count(*) FROM duly.resolved`))
}

// A batch is answered one by one, in its own order.
func TestBindingsAreAnsweredInTheirOrder(t *testing.T) {
	t.Parallel()
	c := newCrew(t, lateBound)
	grants := c.ask(c.worker, c.enqueue("batch", 5)...).Grants
	c.settle(grants[1], job.NotBegun("elsewhere"))
	grants[0], grants[4] = grants[4], grants[0]
	require.Equal(t, []bool{true, false, true, true, true}, c.bind(c.worker, "a@example.com", grants...))
	require.Equal(t, 4, c.count(`SELECT count(*) FROM duly.resolved`))
}
