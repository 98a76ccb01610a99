package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

func answerOf(name string, fence int64, v machine.Verdict) machine.Answer {
	return machine.Answer{Kind: kind, Key: name + "-0", Fence: fence, Verdict: v, Evidence: "looked into the receiver's log", Actor: "bob"}
}

func TestPersonsYesDelivers(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	ref := c.ended("yes", job.MayBeDone(job.CodeTimeout, "no answer"))
	s, err := c.Resolve(t.Context(), answerOf("yes", 1, machine.VerdictDelivered))
	require.NoError(t, err)
	require.Equal(t, machine.Standing{Job: ref.Job, Generation: 1, State: job.Delivered}, s)
	require.Zero(t, c.count(`SELECT count(*)::int FROM duly.unknown`))
	require.Equal(t, 1, c.count(`SELECT count(*)::int FROM duly.event WHERE job = $1 AND name = 'answer_yes' AND actor = 'bob' AND detail <> ''`, ref.Job))
	require.Equal(t, 1, c.count(`SELECT count(*)::int FROM duly.audit WHERE action = 'resolve' AND detail->>'as' = 'delivered'`))
}

func TestPersonsNoCountsOnlyIfLookedForLateEnough(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	ref := c.ended("no", job.MayBeDone(job.CodeTimeout, "no answer"))
	_, err := c.Resolve(t.Context(), answerOf("no", 1, machine.VerdictNotDelivered))
	d := denied(t, err)
	require.Equal(t, machine.TooSoon, d.Why)
	var until time.Time
	require.NoError(t, c.pool.QueryRow(t.Context(), `SELECT doubt_until FROM duly.job WHERE id = $1`, ref.Job).Scan(&until))
	require.True(t, until.Add(c.kind.Promises.Settle).Equal(d.Since), "it says from when on it counts")

	c.redate(ref.Job, -time.Hour)
	early := answerOf("no", 1, machine.VerdictNotDelivered)
	early.LookedAt = time.Now().Add(-time.Hour)
	require.Equal(t, machine.TooSoon, denied(t, second(c.Resolve(t.Context(), early))).Why, "what counts is when the person looked")
	require.Equal(t, machine.Stale, denied(t, second(c.Resolve(t.Context(), answerOf("no", 7, machine.VerdictNotDelivered)))).Why)

	s, err := c.Resolve(t.Context(), answerOf("no", 1, machine.VerdictNotDelivered))
	require.NoError(t, err)
	require.Equal(t, job.Scheduled, s.State, "it is tried again, no longer in doubt")
	require.False(t, s.WakeAt.IsZero())
	require.Equal(t, machine.NotEligible, denied(t, second(c.Resolve(t.Context(), answerOf("no", 1, machine.VerdictNotDelivered)))).Why)
}

func TestGivingUpClosesOnceAndOnlyWhatIsUnknown(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	c.ended("closed", job.MayBeDone(job.CodeTimeout, "no answer"))
	s, err := c.Resolve(t.Context(), answerOf("closed", 1, machine.VerdictGiveUp))
	require.NoError(t, err)
	require.True(t, s.Closed)
	require.Equal(t, job.Unknown, s.State)
	s, err = c.Resolve(t.Context(), answerOf("closed", 1, machine.VerdictGiveUp))
	require.NoError(t, err)
	require.True(t, s.Again)
	require.Equal(t, 1, c.count(`SELECT count(*)::int FROM duly.unknown WHERE closed`))

	c.poison("poison")
	require.Equal(t, machine.NotEligible, denied(t, second(c.Resolve(t.Context(), answerOf("poison", 1, machine.VerdictGiveUp)))).Why)
	c.enqueue("fresh", 1)
	require.Equal(t, machine.Unleased, denied(t, second(c.Resolve(t.Context(), answerOf("fresh", 1, machine.VerdictDelivered)))).Why)
	require.ErrorIs(t, second(c.Resolve(t.Context(), answerOf("nobody", 1, machine.VerdictDelivered))), job.ErrNotFound)
}
