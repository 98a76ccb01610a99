package machine

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"duly.dev/duly/pkg/job"
)

// unknownRow is a row whose one attempt may have happened, and whose receiver can be asked.
func unknownRow(t *testing.T) Row {
	t.Helper()
	r := leasedRow(t)
	r.Promises.Lookup = MeansHTTP
	r = apply(t, r, ended(MayBeDone, r.Fence, job.MayBeDone(job.CodeTimeout, "")), now)
	require.Equal(t, job.Unknown, r.State)
	return r
}

func TestAnUnknownOutcomeIsAskedAboutWhereItsReceiverCanBeAsked(t *testing.T) {
	t.Parallel()
	r := unknownRow(t)
	asking := r.BeginAsking(now)
	require.Equal(t, Asking{Means: MeansHTTP, NextAt: asking.NextAt}, asking)
	require.True(t, asking.NextAt.After(now))

	closed := apply(t, r, Event{Name: Close, Fence: r.Fence}, now)
	require.Equal(t, Asking{Means: MeansHTTP}, closed.BeginAsking(now), "what is closed is asked about no more")
	never := r
	never.Promises.Lookup = ""
	require.Zero(t, never.BeginAsking(now))
	followed := r
	followed.Successor = 2
	require.Zero(t, followed.BeginAsking(now))
	delivered := apply(t, r, Event{Name: AnswerYes, Fence: r.Fence}, now)
	require.Zero(t, delivered.BeginAsking(now))
}

// Whatever was asked before, the next ask comes after a delay of the policy, and not
// behind the instant from which a "no" counts, as long as that has not come.
func TestWaitBeforeTheNextAsk(t *testing.T) {
	t.Parallel()
	base := unknownRow(t)
	rapid.Check(t, func(t *rapid.T) {
		r := base
		r.Job = rapid.Int64Min(1).Draw(t, "job")
		r.Promises.Settle = time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "settle"))
		times := rapid.OneOf(rapid.Int32Range(0, 70), rapid.Just(int32(math.MaxInt32))).Draw(t, "times")
		at := now.Add(time.Duration(rapid.Int64Range(0, int64(48*time.Hour)).Draw(t, "later")))
		next := r.NextAsk(times, at)
		p := r.Kind.Policy
		require.False(t, next.Before(at))
		require.LessOrEqual(t, next.Sub(at), p.Cap)
		require.Equal(t, next, r.NextAsk(times, at), "the same ask waits the same")
		if from := r.NoFrom(); at.Before(from) {
			require.False(t, next.After(from), "the instant from which no counts is slept through")
		} else {
			require.GreaterOrEqual(t, next.Sub(at), p.Delay(times&math.MaxInt16+1, 0)-time.Microsecond)
		}
	})
}

func TestAsksBackOffToTheCap(t *testing.T) {
	t.Parallel()
	r := unknownRow(t)
	r.Kind.Policy.Jitter = 0
	at := r.NoFrom()
	for times, seconds := range []float64{30, 60, 120, 240, 480, 960, 1800, 1800} {
		require.InDelta(t, seconds, r.NextAsk(int32(times), at).Sub(at).Seconds(), 0)
	}
}

// A "no" counts as one of the instant at which the question was taken, by the ledger's
// clock: neither the asker's clock nor the time that the answer took makes it later.
func TestAnAnswerIsAsOldAsItsQuestion(t *testing.T) {
	t.Parallel()
	r := unknownRow(t)
	for _, c := range []struct {
		asked   time.Duration // after the instant from which no counts
		refused Refusal
	}{{-time.Microsecond, TooSoon}, {0, Applied}, {time.Hour, Applied}} {
		q := r.Ask(4, r.NoFrom().Add(c.asked))
		require.EqualValues(t, 5, q.Times)
		require.Equal(t, r.NextAsk(5, q.AskedAt), q.Next)
		ev, says := Reply{Question: q, Said: job.SaidNo}.Event()
		require.True(t, says)
		_, change := Next(r, ev, r.NoFrom().Add(2*time.Hour))
		require.Equal(t, c.refused, change.Refused)
	}
	q := r.Ask(0, now) // long before
	ev, says := Reply{Question: q, Said: job.SaidYes, Receipt: &job.Receipt{ID: "m-1"}, Detail: "HTTP 200 OK"}.Event()
	require.True(t, says)
	after, change := Next(r, ev, now)
	require.Equal(t, job.Delivered, after.State)
	require.Equal(t, "m-1", change.Record.Receipt.ID)
	require.Equal(t, ActorLookup, change.Record.Actor)
	require.Equal(t, "HTTP 200 OK", change.Record.Detail)
	for _, said := range []job.Said{job.SaidWorking, job.SaidNothing} {
		_, says := Reply{Question: q, Said: said}.Event()
		require.False(t, says, "it settles nothing")
	}
}

// What a receiver says it did not do is tried again. If it did all the same, and its
// worker says so late, that is believed.
func TestG5LateSuccessAfterALookupsNoIsEvidence(t *testing.T) {
	t.Parallel()
	r := unknownRow(t)
	first := r.Fence
	no, _ := Reply{Question: r.Ask(0, r.NoFrom()), Said: job.SaidNo}.Event()
	retry := apply(t, r, no, r.NoFrom())
	require.Equal(t, job.Scheduled, retry.State)
	require.False(t, retry.InDoubt())

	late := ended(Done, first, job.Done(&job.Receipt{ID: "m-1"}))
	delivered, change := Next(retry, late, retry.WakeAt.Add(-time.Second))
	require.Equal(t, job.Delivered, delivered.State)
	require.True(t, change.Record.Late)

	again := apply(t, retry, Event{Name: Lease, Emission: retry.Emission, Worker: "x"}, retry.WakeAt)
	delivered, change = Next(again, late, retry.WakeAt.Add(time.Second))
	require.Equal(t, job.Delivered, delivered.State, "also while another attempt runs")
	require.True(t, change.Record.Late)
	kept, change := Next(delivered, ended(Done, again.Fence, job.Done(nil)), retry.WakeAt.Add(2*time.Second))
	require.Equal(t, job.Delivered, kept.State)
	require.True(t, change.Record.Late, "whose own end is evidence then")
}

// An answer settles the attempts that it was asked about, and no later one.
func TestG5AnswersAreFenced(t *testing.T) {
	t.Parallel()
	r := unknownRow(t)
	r.Promises.Window = 2 * time.Hour
	q := r.Ask(0, r.NoFrom())
	retry := apply(t, r, Event{Name: AnswerNo, Fence: r.Fence, AskedAt: r.NoFrom(), Actor: "ann"}, r.NoFrom())
	yes, _ := Reply{Question: q, Said: job.SaidYes}.Event()
	no, _ := Reply{Question: q, Said: job.SaidNo}.Event()
	require.Equal(t, job.Delivered, apply(t, retry, yes, retry.WakeAt).State, "no later attempt has begun")
	again := apply(t, retry, Event{Name: Lease, Emission: retry.Emission, Worker: "x"}, retry.WakeAt)
	for name, ev := range map[string]Event{"yes": yes, "no": no} {
		_, change := Next(again, ev, retry.WakeAt)
		require.Equal(t, Stale, change.Refused, name)
	}
	newest := yes
	newest.Fence = again.Fence
	delivered := apply(t, again, newest, retry.WakeAt)
	require.Equal(t, job.Delivered, delivered.State, "the newest fence speaks of the repeat that is leased too")
	kept, change := Next(delivered, ended(MayBeDone, again.Fence, job.MayBeDone(job.CodeTimeout, "")), retry.WakeAt.Add(time.Second))
	require.Equal(t, job.Delivered, kept.State)
	require.True(t, change.Record.Late)
}

// What is said of a generation that was followed by another is kept and changes nothing.
func TestG5AnswersAboutOlderGenerationsAreEvidence(t *testing.T) {
	t.Parallel()
	r := unknownRow(t)
	q := r.Ask(0, r.NoFrom())
	pred, succ, change := Redrive(r, Event{Name: Redriven, Forced: true, Detail: "nothing arrived"}, Correction{}, r.NoFrom())
	require.Equal(t, Applied, change.Refused)
	yes, _ := Reply{Question: q, Said: job.SaidYes}.Event()
	after, change := Next(pred, yes, r.NoFrom())
	require.Equal(t, Applied, change.Refused)
	require.True(t, change.Record.Late)
	require.True(t, same(pred, after))
	require.Empty(t, change.Emissions)
	_, change = Next(succ, yes, r.NoFrom())
	require.NotEqual(t, Applied, change.Refused, "it is no answer about the successor")
	no, _ := Reply{Question: q, Said: job.SaidNo}.Event()
	_, change = Next(pred, no, r.NoFrom())
	require.Equal(t, Stale, change.Refused)
}
