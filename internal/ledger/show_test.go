package ledger_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

func TestG12ShowTellsAllThatIsKeptOfAJob(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	ref := c.enqueue("story", 1)[0]
	c.settle(c.ask(c.worker, ref).Grants[0], job.NotDone(job.ClassTransient, job.CodeGreylisted, "451 later"))
	c.redate(ref.Job, -time.Hour)
	other := c.register()
	g := c.ask(other, job.Ref{Job: ref.Job, Generation: 1, Emission: 2}).Grants[0]
	_, err := c.Settle(t.Context(), other, []machine.Report{report(g, job.NotDone(job.ClassPermanent, job.CodeDestinationInvalid, "550 no"))})
	require.NoError(t, err)
	c.redrive(redriveOf("story", "fix", 1))

	s, err := c.Show(t.Context(), kind, "story-0")
	require.NoError(t, err)
	type happened struct {
		Generation int32
		Name       machine.Name
		To         job.State
		Attempt    int32
		Worker     string
	}
	var got []happened
	for _, e := range s.Events {
		got = append(got, happened{e.Generation, e.Name, e.To, e.Attempt, e.Worker})
	}
	want := []happened{
		{1, machine.Lease, job.Leased, 1, c.worker.ID},
		{1, machine.NotDone, job.Scheduled, 1, c.worker.ID},
		{1, machine.Lease, job.Leased, 2, other.ID},
		{1, machine.NotDone, job.Quarantined, 2, other.ID},
		{1, machine.Redriven, job.Quarantined, 2, ""},
	}
	require.Empty(t, cmp.Diff(want, got))
	require.False(t, s.EventsCut)
	require.Equal(t, "v1", s.Events[0].Version)
	require.Equal(t, "test-1", s.Events[1].Classifier)
	require.Equal(t, job.CodeGreylisted, s.Events[1].Code)
	require.Equal(t, 40*time.Second, s.Events[2].EndsAt.Sub(s.Events[2].At), "limit and one lease time")
	require.Len(t, s.Generations, 2)
	require.Len(t, s.Redrives, 1)
	require.Equal(t, kind, s.Kind.Name)
	require.WithinDuration(t, time.Now(), s.Now, time.Minute)
}

func TestShowTellsOfQuarantineUnknownAndWhatTheBrokerRefused(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	c.poison("dead")
	s, err := c.Show(t.Context(), kind, "dead-0")
	require.NoError(t, err)
	g, _ := s.Current()
	require.Equal(t, "550 no such user", g.Detail)
	require.Equal(t, job.Fingerprint(kind, job.ClassPermanent, job.CodeDestinationInvalid, "550 no such user"), g.Fingerprint)

	ref := c.enqueue("big", 1)[0]
	require.NoError(t, c.SetAside(t.Context(), lane, []machine.OutboxRow{{ID: 1 << 40, Kind: kind, Refs: []job.Ref{ref}}}, assertError("too large")))
	s, err = c.Show(t.Context(), kind, "big-0")
	require.NoError(t, err)
	require.Len(t, s.Unsendable, 1)
	require.Equal(t, "too large", s.Unsendable[0].Error)
}

type assertError string

func (e assertError) Error() string { return string(e) }

func TestARemovedJobIsAnsweredByItsTombstone(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	ref := c.ended("gone", job.Done(nil))
	c.exec(`DELETE FROM duly.job WHERE id = $1`, ref.Job)
	c.exec(`UPDATE duly.job_key SET state = 'delivered' WHERE job = $1`, ref.Job)

	s, err := c.Show(t.Context(), kind, "gone-0")
	require.NoError(t, err)
	require.True(t, s.Removed)
	require.Equal(t, job.Delivered, s.LastState)
	require.Equal(t, machine.Removed, denied(t, second(c.Redrive(t.Context(), redriveOf("gone", "k", 1)))).Why)
	require.Equal(t, machine.Removed, denied(t, second(c.Cancel(t.Context(), cancelOf("gone-0")))).Why)
	require.Equal(t, machine.Removed, denied(t, second(c.Resolve(t.Context(), answerOf("gone", 1, machine.VerdictDelivered)))).Why)
	all, err := c.Enqueue(t.Context(), c.pool, []job.Spec{{Kind: kind, Key: "gone-0", Payload: []byte(`{}`)}})
	require.NoError(t, err)
	require.Equal(t, job.Delivered, all[0].State, "a tombstone answers like the job")
	require.False(t, all[0].Created)

	_, err = c.Show(t.Context(), kind, "nobody")
	require.ErrorIs(t, err, job.ErrNotFound)
}
