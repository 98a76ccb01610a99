package ledger_test

import (
	"context"
	"fmt"
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

// ended makes a job whose only attempt came to the result.
func (c *crew) ended(name string, r job.Result) job.Ref {
	c.t.Helper()
	ref := c.enqueue(name, 1)[0]
	c.settle(c.ask(c.worker, ref).Grants[0], r)
	return ref
}

// poison ends a job in quarantine.
func (c *crew) poison(name string) job.Ref {
	c.t.Helper()
	return c.ended(name, job.NotDone(job.ClassPermanent, job.CodeDestinationInvalid, "550 no such user"))
}

func redriveOf(name, recovery string, generation int32) machine.RedriveRequest {
	return machine.RedriveRequest{
		Kind: kind, Key: name + "-0", Generation: generation, RecoveryKey: recovery,
		Approver: "ann", Actor: "bob", Reason: "address corrected",
	}
}

func (c *crew) redrive(req machine.RedriveRequest) machine.Successor {
	c.t.Helper()
	s, err := c.Redrive(c.t.Context(), req)
	require.NoError(c.t, err)
	return s
}

func denied(t *testing.T, err error) *machine.Denied {
	t.Helper()
	var d *machine.Denied
	require.ErrorAs(t, err, &d)
	require.ErrorIs(t, err, job.ErrRefused)
	return d
}

func TestG9RedriveOpensTheNextGenerationAndKeepsTheEvidence(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	ref := c.poison("one")
	before, err := c.Show(t.Context(), kind, "one-0")
	require.NoError(t, err)

	req := redriveOf("one", "fix-1", 1)
	req.Destination, req.Payload = "new@example.com", []byte(`{"n":2}`)
	req.Deadline = time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	req.DeadlineZone, req.DeadlineLocal = "Europe/Paris", "2026-09-30T17:00:00"
	s := c.redrive(req)
	require.EqualValues(t, 2, s.Generation)
	require.Equal(t, job.Ready, s.State)
	require.False(t, s.Again)

	after, err := c.Show(t.Context(), kind, "one-0")
	require.NoError(t, err)
	require.Len(t, after.Generations, 2)
	old, current := after.Generations[0], after.Generations[1]
	require.EqualValues(t, 2, old.Successor)
	old.Successor, old.Detail, old.Fingerprint = 0, before.Generations[0].Detail, before.Generations[0].Fingerprint
	require.Equal(t, before.Generations[0], old, "the predecessor's evidence is unchanged")
	require.Equal(t, before.Events, after.Events[:len(before.Events)])

	require.Zero(t, current.Attempt, "attempts begin anew")
	require.False(t, current.Fixed, "what the first attempt fixes is open again")
	require.EqualValues(t, 1, current.Fence, "fences continue")
	require.EqualValues(t, 2, current.Emission, "emissions continue")
	require.Equal(t, "new@example.com", current.Destination)
	require.JSONEq(t, `{"n":2}`, string(current.Payload))
	require.True(t, req.Deadline.Equal(current.Deadline))
	require.Equal(t, "Europe/Paris", current.DeadlineZone)
	require.True(t, current.Origin.Equal(before.Generations[0].Origin), "the lifetime goes on")

	require.Len(t, after.Redrives, 1)
	note := after.Redrives[0]
	require.Equal(t, []string{"fix-1", "ann", "bob", "address corrected"}, []string{note.RecoveryKey, note.Approver, note.Actor, note.Reason})
	require.Equal(t, 1, c.count(`SELECT count(*)::int FROM duly.audit WHERE action = 'redrive' AND actor = 'bob' AND job = $1`, ref.Job))
	require.Zero(t, c.count(`SELECT count(*)::int FROM duly.quarantine`), "older generations are in no list")

	require.Len(t, c.ask(c.worker, job.Ref{Job: ref.Job, Generation: 1, Emission: 1}).Stale, 1, "G6: a late copy of the old generation is dropped")
	grant := c.ask(c.worker, job.Ref{Job: ref.Job, Generation: 2, Emission: 2}).Grants[0]
	require.Equal(t, "new@example.com", grant.Destination)
	require.Equal(t, job.Delivered, c.settle(grant, job.Done(nil)).State)
}

func TestG9OneRecoveryKeyGivesOneSuccessorHoweverOftenAndConcurrentlyItIsAsked(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	ref := c.poison("same")
	answers := c.redriveAtOnce(12, func(int) machine.RedriveRequest { return redriveOf("same", "key", 1) })
	var made int
	for _, a := range answers {
		require.NoError(t, a.err)
		require.EqualValues(t, 2, a.Generation)
		if !a.Again {
			made++
		}
	}
	require.Equal(t, 1, made)
	require.Equal(t, 2, c.count(`SELECT count(*)::int FROM duly.job WHERE id = $1`, ref.Job))
	require.Equal(t, 1, c.emissions(ref.Job, 2), "one successor has one emission")
	require.Equal(t, 1, c.count(`SELECT count(*)::int FROM duly.event WHERE job = $1 AND name = 'redriven'`, ref.Job))

	req := redriveOf("same", "key", 1)
	req.Destination = "other@example.com"
	_, err := c.Redrive(t.Context(), req)
	require.ErrorIs(t, err, job.ErrConflict, "the same key with other corrections")
	_, err = c.Redrive(t.Context(), redriveOf("same", "key", 2))
	require.ErrorIs(t, err, job.ErrConflict, "the same key with another generation")
}

func TestG9OfTwoRecoveryKeysOneWinsAndTheOtherIsToldTheSuccessor(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	for round := range 5 {
		name := fmt.Sprintf("two%d", round)
		ref := c.poison(name)
		answers := c.redriveAtOnce(8, func(i int) machine.RedriveRequest { return redriveOf(name, fmt.Sprintf("key-%d", i), 1) })
		var won int
		for _, a := range answers {
			if a.err == nil {
				won++
				continue
			}
			d := denied(t, a.err)
			require.Equal(t, machine.Superseded, d.Why)
			require.EqualValues(t, 2, d.Successor)
			require.ErrorContains(t, a.err, "generation 2 is its successor")
		}
		require.Equal(t, 1, won)
		require.Equal(t, 1, c.emissions(ref.Job, 2))
	}
}

type answer struct {
	machine.Successor
	err error
}

// redriveAtOnce lets n people redrive over connections of their own.
func (c *crew) redriveAtOnce(n int, req func(int) machine.RedriveRequest) []answer {
	c.t.Helper()
	answers := make([]answer, n)
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-begin
			answers[i].Successor, answers[i].err = c.Redrive(c.t.Context(), req(i))
		})
	}
	close(begin)
	all.Wait()
	return answers
}

// emissions counts the references of a generation in the outbox, dead notices apart.
func (c *crew) emissions(id int64, generation int) int {
	c.t.Helper()
	return c.count(`SELECT count(*)::int FROM duly.outbox o, unnest(o.jobs, o.generations) AS u (job, generation)
		WHERE o.topic <> '.dead' AND u.job = $1 AND u.generation = $2`, id, generation)
}

func TestC56RedrivingTwiceCountsGenerationsAndOnlyWhatEndedBadlyIsEligible(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	ref := c.poison("twice")
	require.EqualValues(t, 2, c.redrive(redriveOf("twice", "a", 1)).Generation)

	d := denied(t, second(c.Redrive(t.Context(), redriveOf("twice", "b", 1))))
	require.Equal(t, machine.Superseded, d.Why, "the caller saw an older generation")
	d = denied(t, second(c.Redrive(t.Context(), redriveOf("twice", "b", 2))))
	require.Equal(t, machine.NotEligible, d.Why, "generation 2 is ready")

	g := c.ask(c.worker, job.Ref{Job: ref.Job, Generation: 2, Emission: 2}).Grants[0]
	c.settle(g, job.NotDone(job.ClassPermanent, job.CodeRejected, "no"))
	require.EqualValues(t, 3, c.redrive(redriveOf("twice", "b", 2)).Generation)
	again := c.redrive(redriveOf("twice", "a", 1))
	require.EqualValues(t, 2, again.Generation, "an old recovery key still names what it made")
	require.Equal(t, job.Quarantined, again.State)

	g = c.ask(c.worker, job.Ref{Job: ref.Job, Generation: 3, Emission: 3}).Grants[0]
	c.settle(g, job.Done(nil))
	d = denied(t, second(c.Redrive(t.Context(), redriveOf("twice", "c", 3))))
	require.Equal(t, machine.AlreadyDelivered, d.Why)
	d = denied(t, second(c.Redrive(t.Context(), redriveOf("twice", "c", 7))))
	require.Equal(t, machine.Superseded, d.Why)
	require.EqualValues(t, 3, d.Generation)

	_, err := c.Redrive(t.Context(), redriveOf("nobody", "c", 1))
	require.ErrorIs(t, err, job.ErrNotFound)
}

func second[T any](_ T, err error) error { return err }

func TestUnknownIsRedrivenOnlyWhenForcedWithEvidence(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	ref := c.ended("doubt", job.MayBeDone(job.CodeTimeout, "no answer"))
	req := redriveOf("doubt", "k", 1)
	require.Equal(t, machine.NeedsForce, denied(t, second(c.Redrive(t.Context(), req))).Why)
	req.Forced = true
	require.Equal(t, machine.NeedsForce, denied(t, second(c.Redrive(t.Context(), req))).Why, "force without evidence is none")
	req.Evidence = "the receiver's log has no trace of it"
	require.EqualValues(t, 2, c.redrive(req).Generation)
	require.Zero(t, c.count(`SELECT count(*)::int FROM duly.unknown`))
	require.Equal(t, 1, c.count(`SELECT count(*)::int FROM duly.redrive WHERE forced AND evidence <> '' AND job = $1`, ref.Job))
}

func TestRedriveIsRefusedOnceItCannotMatterAnyMore(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	ref := c.poison("late")
	c.exec(`UPDATE duly.job SET deadline = clock_timestamp() - interval '1 min' WHERE id = $1`, ref.Job)
	d := denied(t, second(c.Redrive(t.Context(), redriveOf("late", "k", 1))))
	require.Equal(t, machine.Irrelevant, d.Why)
	require.Equal(t, job.ReasonDeadline, d.Reason)
	require.ErrorContains(t, d, "correct the deadline")

	req := redriveOf("late", "k", 1)
	req.Deadline = time.Now().Add(time.Hour)
	req.NotBefore = time.Now().Add(2 * time.Hour)
	require.Equal(t, job.ReasonDeadline, denied(t, second(c.Redrive(t.Context(), req))).Reason, "it would start behind the deadline")
	req.NotBefore = time.Now().Add(30 * time.Minute)
	s := c.redrive(req)
	require.Equal(t, job.Scheduled, s.State)
	require.WithinDuration(t, req.NotBefore, s.Starts, time.Millisecond)
	require.Zero(t, c.emissions(ref.Job, 2), "what starts later is promoted then")
	require.True(t, s.Starts.Equal(c.redrive(req).Starts))

	ref = c.poison("old")
	c.exec(`UPDATE duly.job SET origin_at = clock_timestamp() - interval '8 days' WHERE id = $1`, ref.Job)
	d = denied(t, second(c.Redrive(t.Context(), redriveOf("old", "k", 1))))
	require.Equal(t, job.ReasonTooOld, d.Reason)
	require.ErrorContains(t, d, "max_lifetime")
}

func TestKindThatAsksForAnApproverIsRedrivenByHisRoleOnly(t *testing.T) {
	t.Parallel()
	url := ledgertest.URL(t)
	pool := ledgertest.Pool(t, url)
	c := &crew{bench: benchOn(t, pool), kind: machine.Kind{
		Name: kind, Lane: lane, Channel: "go", Policy: machine.DefaultPolicy(), Promises: machine.DefaultPromises(10 * time.Second),
		RedriveBy: machine.RoleApprover,
	}}
	require.NoError(t, c.SyncKinds(t.Context(), []machine.Kind{c.kind}))
	c.worker = c.register()
	c.poison("careful")
	role := fmt.Sprintf("operator_%d", time.Now().UnixNano())
	c.exec(`CREATE ROLE ` + role)
	t.Cleanup(func() {
		for _, sql := range []string{`DROP OWNED BY ` + role, `DROP ROLE ` + role} {
			_, err := pool.Exec(context.Background(), sql)
			require.NoError(t, err)
		}
	})
	c.exec(`GRANT USAGE ON SCHEMA duly TO ` + role)
	c.exec(`GRANT ALL ON ALL TABLES IN SCHEMA duly TO ` + role)
	c.exec(`GRANT ALL ON ALL SEQUENCES IN SCHEMA duly TO ` + role)
	config, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	config.ConnConfig.RuntimeParams["role"] = role
	as, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(as.Close)

	_, err = ledger.New(as).Redrive(t.Context(), redriveOf("careful", "k", 1))
	require.Equal(t, machine.NotPermitted, denied(t, err).Why)
	require.EqualValues(t, 2, c.redrive(redriveOf("careful", "k", 1)).Generation, "the ledger's owner may")
}

func TestC57ADeadNoticeThatTheBrokerRefusesMakesNoNoticeOfItsOwn(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	ref := c.poison("dead")
	c.claim(machine.DeadTopic)
	for range 3 {
		page, err := c.ReadOutbox(t.Context(), machine.DeadTopic, c.holder, 10)
		require.NoError(t, err)
		require.Len(t, page.Rows, 1, "one notice a generation, however often it is sent")
		require.Equal(t, ref.Job, page.Rows[0].Refs[0].Job)
		require.NoError(t, c.SetAside(t.Context(), machine.DeadTopic, page.Rows, assertError("too large")))
		require.NoError(t, c.Advance(t.Context(), machine.DeadTopic, c.holder, page))
		c.exec(`UPDATE duly.unsendable SET next_at = clock_timestamp()`)
		n, err := c.RetryUnsendable(t.Context(), machine.DeadTopic)
		require.NoError(t, err)
		require.Equal(t, 1, n)
	}
	state, attempt, _ := c.state(ref.Job)
	require.Equal(t, job.Quarantined, state)
	require.EqualValues(t, 1, attempt)
	require.Equal(t, 1, c.count(`SELECT count(*)::int FROM duly.quarantine`))
}
