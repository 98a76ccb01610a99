package ledger_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/ledger/ledgertest"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// hold is how long a question is nobody else's in these tests.
const hold = time.Minute

// askable lets the kind's receiver be asked, after delays without chance.
func askable(k *machine.Kind) {
	k.Promises.Lookup = machine.MeansHTTP
	k.Policy.Jitter = 0
}

// unknown makes jobs whose outcome is unknown.
func (c *crew) unknown(name string, n int) []job.Ref {
	c.t.Helper()
	refs := c.enqueue(name, n)
	for _, g := range c.ask(c.worker, refs...).Grants {
		require.Equal(c.t, job.Unknown, c.settle(g, job.MayBeDone(job.CodeTimeout, "no answer")).State)
	}
	return refs
}

// later lets time pass for everything that the ledger keeps.
func (c *crew) later(d time.Duration) {
	c.t.Helper()
	for _, statement := range shifts {
		c.exec(statement, d)
	}
}

func (c *crew) take(limit int) []machine.Question {
	c.t.Helper()
	questions, err := c.TakeQuestions(c.t.Context(), kind, machine.MeansHTTP, limit, hold)
	require.NoError(c.t, err)
	return questions
}

func (c *crew) answer(said job.Said, questions ...machine.Question) []machine.Answered {
	c.t.Helper()
	replies := make([]machine.Reply, len(questions))
	for i, q := range questions {
		replies[i] = machine.Reply{Question: q, Said: said, Detail: "HTTP"}
		if said == job.SaidYes {
			replies[i].Receipt = &job.Receipt{ID: "m-1", Status: "200"}
		}
	}
	answered, err := c.Answer(c.t.Context(), replies)
	require.NoError(c.t, err)
	return answered
}

func (c *crew) asking(id int64) machine.Asking {
	c.t.Helper()
	var key string
	require.NoError(c.t, c.pool.QueryRow(c.t.Context(), `SELECT key FROM duly.job WHERE id = $1`, id).Scan(&key))
	story, err := c.Show(c.t.Context(), kind, key)
	require.NoError(c.t, err)
	g, _ := story.Current()
	return g.Asking
}

func TestQuestionsAreTakenWhenTheyAreDueAndCarryWhatIsAsked(t *testing.T) {
	t.Parallel()
	c := newCrew(t, askable)
	ref := c.unknown("asked", 1)[0]
	require.Empty(t, c.take(10), "it was unknown just now")
	require.Equal(t, machine.Asking{Means: machine.MeansHTTP, NextAt: c.asking(ref.Job).NextAt}, c.asking(ref.Job))

	c.later(time.Minute)
	for _, other := range []machine.Means{machine.MeansSQL, machine.MeansGo} {
		questions, err := c.TakeQuestions(t.Context(), kind, other, 10, hold)
		require.NoError(t, err)
		require.Empty(t, questions, "who asks by other means does not take it")
	}
	row := c.row(ref.Job)
	questions := c.take(10)
	require.Len(t, questions, 1)
	q := questions[0]
	require.Empty(t, cmp.Diff(machine.Question{
		Job: ref.Job, Generation: 1, Fence: 1, Kind: kind, Key: "asked-0", Destination: q.Destination, Channel: "go", Means: machine.MeansHTTP,
		Times: 1, AskedAt: q.AskedAt, Next: row.NextAsk(1, q.AskedAt),
	}, q))
	require.Equal(t, kind+"/asked-0:1:go", q.EffectKey())
	require.Empty(t, c.take(10), "it is taken")
	a := c.asking(ref.Job)
	require.EqualValues(t, 1, a.Times)
	require.WithinDuration(t, q.AskedAt.Add(hold), a.NextAt, time.Millisecond, "an asker that is lost costs no more")
	require.Equal(t, row, c.row(ref.Job), "the job itself is not touched")
}

func TestAnAskerThatIsLostCostsOneDelay(t *testing.T) {
	t.Parallel()
	c := newCrew(t, askable)
	c.unknown("lost", 3)
	c.later(time.Hour)
	first := c.take(2)
	require.Len(t, first, 2)
	require.Len(t, c.take(2), 1, "the rest is another asker's")
	c.later(hold + time.Second)
	again := c.take(10)
	require.Len(t, again, 3)
	for _, q := range again {
		require.EqualValues(t, 2, q.Times)
	}
	// What the lost one brings after all still counts, and moves nothing that is newer.
	c.answer(job.SaidWorking, first[0])
	require.Empty(t, c.asking(first[0].Job).Said)
	require.Equal(t, job.Delivered, c.answer(job.SaidYes, first[1])[0].State)
	require.Equal(t, machine.Answered{Found: true, State: job.Delivered}, c.answer(job.SaidYes, again[1])[0], "a second yes is kept as evidence")
}

func TestEveryAnswerDoesWhatItSays(t *testing.T) {
	t.Parallel()
	c := newCrew(t, askable)
	refs := c.unknown("answered", 4)
	c.later(time.Hour)
	questions := c.take(10)
	require.Len(t, questions, 4)

	yes := c.answer(job.SaidYes, questions[0])
	require.Equal(t, []machine.Answered{{Found: true, State: job.Delivered}}, yes)
	require.Equal(t, 1, c.count(`SELECT count(*)::int FROM duly.job WHERE id = $1 AND receipt->>'id' = 'm-1'`, refs[0].Job))
	require.Equal(t, 1, c.count(`SELECT count(*)::int FROM duly.event WHERE job = $1 AND name = 'answer_yes' AND actor = 'lookup' AND detail = 'HTTP'`, refs[0].Job))
	require.Zero(t, c.count(`SELECT count(*)::int FROM duly.unknown WHERE job = $1`, refs[0].Job))

	no := c.answer(job.SaidNo, questions[1])
	require.Equal(t, []machine.Answered{{Found: true, State: job.Scheduled}}, no, "it is tried again")
	require.False(t, c.row(refs[1].Job).InDoubt())
	require.Equal(t, 1, c.count(`SELECT count(*)::int FROM duly.event WHERE job = $1 AND name = 'answer_no'`, refs[1].Job))

	for i, said := range []job.Said{job.SaidWorking, job.SaidNothing} {
		q := questions[2+i]
		require.Equal(t, []machine.Answered{{}}, c.answer(said, q))
		a := c.asking(q.Job)
		require.Equal(t, machine.Asking{Means: machine.MeansHTTP, Times: 1, NextAt: q.Next, Said: said, AskedAt: q.AskedAt, Detail: "HTTP"}, utc(a))
		require.Zero(t, c.count(`SELECT count(*)::int FROM duly.event WHERE job = $1 AND name LIKE 'answer%'`, q.Job), "nothing has changed")
	}
	listed, err := c.List(t.Context(), machine.ListRequest{State: job.Unknown})
	require.NoError(t, err)
	require.Len(t, listed.Entries, 2)
	require.Equal(t, machine.MeansHTTP, listed.Entries[0].Lookup)
	require.EqualValues(t, 1, listed.Entries[0].Asked)
	require.False(t, listed.Entries[0].AskAt.IsZero())
	ledgertest.Agrees(t, c.pool)
}

func utc(a machine.Asking) machine.Asking {
	a.NextAt, a.AskedAt = a.NextAt.Local(), a.AskedAt.Local()
	return a
}

// A receiver may go on working for settle after the last possible byte. "No" counts only
// if it was asked for after that; "yes" counts whenever it was asked for.
func TestG8ALookupsNoCountsOnlyIfAskedLateEnough(t *testing.T) {
	t.Parallel()
	c := newCrew(t, askable, func(k *machine.Kind) { k.Promises.Settle = time.Hour })
	refs := c.unknown("early", 2)
	c.later(time.Minute)
	questions := c.take(10)
	require.Len(t, questions, 2)
	require.Equal(t, job.Delivered, c.answer(job.SaidYes, questions[1])[0].State)

	early := c.answer(job.SaidNo, questions[0])
	require.Equal(t, []machine.Answered{{Found: true, State: job.Unknown, Refused: machine.TooSoon}}, early)
	a := c.asking(refs[0].Job)
	require.Equal(t, job.SaidNo, a.Said, "it is noted all the same")
	require.True(t, c.row(refs[0].Job).InDoubt())
	require.Zero(t, c.count(`SELECT count(*)::int FROM duly.event WHERE name = 'answer_no'`))

	// However often it is asked before, the instant from which it counts is not missed.
	var last machine.Question
	for range 20 {
		next, from := c.asking(refs[0].Job).NextAt, c.row(refs[0].Job).NoFrom()
		c.later(time.Until(next) + time.Millisecond)
		questions = c.take(10)
		require.Len(t, questions, 1)
		last = questions[0]
		if !next.Before(from) {
			require.True(t, next.Equal(from), "it is asked at that very instant")
			break
		}
		require.Equal(t, machine.TooSoon, c.answer(job.SaidNo, last)[0].Refused)
	}
	require.Equal(t, []machine.Answered{{Found: true, State: job.Scheduled}}, c.answer(job.SaidNo, last))
}

// What else settled it before, or what has begun since, is not undone by an answer.
func TestG5AnswersUnderAStaleFenceChangeNothing(t *testing.T) {
	t.Parallel()
	c := newCrew(t, askable)
	ref := c.unknown("stale", 1)[0]
	c.later(time.Hour)
	q := c.take(1)[0]
	require.Equal(t, job.Scheduled, c.answer(job.SaidNo, q)[0].State)
	c.later(time.Hour)
	again := c.ask(c.worker, job.Ref{Job: ref.Job, Generation: 1, Emission: 2}).Grants
	require.Len(t, again, 1, "the repeat is leased")
	row := c.row(ref.Job)
	for _, said := range []job.Said{job.SaidYes, job.SaidNo} {
		require.Equal(t, []machine.Answered{{Found: true, State: job.Leased, Refused: machine.Stale}}, c.answer(said, q))
	}
	require.Equal(t, row, c.row(ref.Job))

	newest := q
	newest.Fence = 2
	require.Equal(t, job.Delivered, c.answer(job.SaidYes, newest)[0].State, "the newest fence speaks of the repeat too")
	late := c.settle(again[0], job.Done(nil))
	require.True(t, late.Late, "whose own end is evidence then")
	require.Equal(t, job.Delivered, late.State)
	ledgertest.Agrees(t, c.pool)
}

func TestG5LateSuccessAfterALookupsNoDelivers(t *testing.T) {
	t.Parallel()
	c := newCrew(t, askable)
	ref := c.enqueue("late", 1)[0]
	g := c.ask(c.worker, ref).Grants[0]
	c.settle(g, job.MayBeDone(job.CodeTimeout, "no answer"))
	c.later(time.Hour)
	require.Equal(t, job.Scheduled, c.answer(job.SaidNo, c.take(1)...)[0].State)
	late := c.settle(g, job.Done(&job.Receipt{ID: "m-1"}))
	require.True(t, late.Late)
	require.Equal(t, job.Delivered, late.State, "it happened, whoever said that it did not")
}

// An answer about a generation that has a successor is evidence of that one, and nothing
// else.
func TestG5AnAnswerAboutAnOlderGenerationIsEvidence(t *testing.T) {
	t.Parallel()
	c := newCrew(t, askable)
	ref := c.unknown("redriven", 1)[0]
	c.later(time.Hour)
	q := c.take(1)[0]
	forced := redriveOf("redriven", "fix", 1)
	forced.Forced, forced.Evidence = true, "nothing arrived"
	c.redrive(forced)
	require.Equal(t, []machine.Answered{{Found: true, State: job.Unknown}}, c.answer(job.SaidYes, q))
	require.Equal(t, 1, c.count(`SELECT count(*)::int FROM duly.event WHERE job = $1 AND generation = 1 AND name = 'answer_yes' AND late AND from_state = to_state`, ref.Job))
	require.Equal(t, 1, c.count(`SELECT count(*)::int FROM duly.job WHERE id = $1 AND generation = 2 AND state = 'ready'`, ref.Job), "its successor goes on")
	require.Equal(t, machine.Stale, c.answer(job.SaidNo, q)[0].Refused)
	require.Empty(t, c.take(10))
}

func TestWhatIsClosedIsAskedAboutNoMore(t *testing.T) {
	t.Parallel()
	c := newCrew(t, askable)
	refs := c.unknown("closed", 3)
	c.later(time.Hour)
	taken := c.take(1)
	up := answerOf("closed", 1, machine.VerdictGiveUp)
	up.Key = taken[0].Key
	s, err := c.Resolve(t.Context(), up)
	require.NoError(t, err)
	require.True(t, s.Closed)
	require.Equal(t, taken[0].Job, s.Job)
	c.later(7 * 24 * time.Hour)
	require.Empty(t, c.take(10), "resolve_within is over, also where nobody has closed it yet")
	closed, _, err := c.CloseUnknown(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 2, closed)
	for _, r := range refs {
		require.True(t, c.asking(r.Job).NextAt.IsZero())
	}
	c.answer(job.SaidNothing, taken...)
	require.True(t, c.asking(taken[0].Job).NextAt.IsZero(), "an answer on its way does not begin it anew")
	require.Equal(t, job.Quarantined, c.answer(job.SaidNo, taken...)[0].State)
	require.Equal(t, job.ReasonTooOld, c.row(taken[0].Job).Reason)
}

func TestCancelledWhileItIsAskedAboutIsCancelledByANo(t *testing.T) {
	t.Parallel()
	c := newCrew(t, askable)
	c.unknown("cancelled", 1)
	c.later(time.Hour)
	q := c.take(1)
	s, err := c.Cancel(t.Context(), machine.Cancellation{Kind: kind, Key: "cancelled-0", Actor: "ann"})
	require.NoError(t, err)
	require.True(t, s.Requested)
	require.Equal(t, job.Cancelled, c.answer(job.SaidNo, q...)[0].State)
}

// Repeated while that is possible, then asked about.
func TestWhatMayBeRepeatedIsAskedAboutOnlyOnceItMayNot(t *testing.T) {
	t.Parallel()
	c := newCrew(t, askable, func(k *machine.Kind) { k.Promises.Window = time.Hour })
	ref := c.enqueue("both", 1)[0]
	require.Equal(t, job.Scheduled, c.settle(c.ask(c.worker, ref).Grants[0], job.MayBeDone(job.CodeTimeout, "no answer")).State)
	require.Empty(t, c.take(10))
	require.Zero(t, c.asking(ref.Job))
	c.later(2 * time.Hour)
	_, err := c.Promote(t.Context(), machine.Position{}, 10)
	require.NoError(t, err)
	require.Equal(t, job.Unknown, c.row(ref.Job).State)
	c.later(time.Hour)
	require.Equal(t, job.Delivered, c.answer(job.SaidYes, c.take(10)...)[0].State)
}

// Many askers at once: each question is one's, and every doubt is settled once.
func TestManyAskersShareTheQuestions(t *testing.T) {
	t.Parallel()
	c := newCrew(t, askable)
	const n = 60
	c.unknown("shared", n)
	c.later(time.Hour)
	var all sync.WaitGroup
	var mu sync.Mutex
	taken := map[int64]int{}
	for range 4 {
		all.Go(func() {
			for {
				questions, err := c.TakeQuestions(t.Context(), kind, machine.MeansHTTP, 7, hold)
				if err != nil {
					t.Error(err)
					return
				}
				if len(questions) == 0 {
					return
				}
				replies := make([]machine.Reply, len(questions))
				mu.Lock()
				for i, q := range questions {
					taken[q.Job]++
					replies[i] = machine.Reply{Question: q, Said: []job.Said{job.SaidYes, job.SaidNo}[q.Job%2]}
				}
				mu.Unlock()
				if _, err := c.Answer(t.Context(), replies); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	require.Len(t, taken, n)
	for id, times := range taken {
		require.Equal(t, 1, times, "job %d", id)
	}
	require.Zero(t, c.count(`SELECT count(*)::int FROM duly.unknown`))
	require.Equal(t, n, c.count(`SELECT count(*)::int FROM duly.event WHERE name LIKE 'answer%'`))
	ledgertest.Agrees(t, c.pool)
}

// What a receiver says is stored as it can be, and of no use to anybody who wants to do
// harm with it.
func TestWhatAReceiverSaysIsMadeStorable(t *testing.T) {
	t.Parallel()
	c := newCrew(t, askable)
	ref := c.unknown("odd", 1)[0]
	c.later(time.Hour)
	q := c.take(1)[0]
	_, err := c.Answer(t.Context(), []machine.Reply{{Question: q, Said: job.SaidNothing, Detail: "a\x00b\xff" + string(make([]byte, 2*job.MaxDetail))}})
	require.NoError(t, err)
	require.LessOrEqual(t, len(c.asking(ref.Job).Detail), job.MaxDetail)
	_, err = c.Answer(t.Context(), []machine.Reply{{Question: q, Said: job.SaidYes, Receipt: &job.Receipt{ID: "a\x00b"}}})
	require.NoError(t, err)
	require.Equal(t, job.Delivered, c.row(ref.Job).State)
}
