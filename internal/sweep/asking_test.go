package sweep

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/channel"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/memledger"
	"duly.dev/duly/pkg/job"
)

// oracle is a receiver that can be asked.
type oracle struct {
	answer func(ctx context.Context, q channel.Inquiry) channel.Answer

	mu    sync.Mutex
	asked map[string][]time.Time // by effect key
}

func (o *oracle) Ask(ctx context.Context, q channel.Inquiry) channel.Answer {
	o.mu.Lock()
	if o.asked == nil {
		o.asked = map[string][]time.Time{}
	}
	o.asked[q.EffectKey] = append(o.asked[q.EffectKey], time.Now())
	o.mu.Unlock()
	return o.answer(ctx, q)
}

func (o *oracle) Close() error { return nil }

// times is when it was asked about an effect key.
func (o *oracle) times(key string) []time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]time.Time(nil), o.asked[key]...)
}

func says(said job.Said) func(context.Context, channel.Inquiry) channel.Answer {
	return func(context.Context, channel.Inquiry) channel.Answer { return channel.Answer{Said: said} }
}

// canBeAsked lets the kind's receiver be asked, after delays without chance.
func canBeAsked(k *machine.Kind) {
	k.Promises.Lookup = machine.MeansHTTP
	k.Policy.Jitter = 0
}

// asker is an asker that runs until the test ends.
func (r *rig) asker(o *oracle, change ...func(*Askable)) *Asker {
	r.t.Helper()
	a := r.newAsker(o, change...)
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		require.ErrorIs(r.t, <-done, context.Canceled)
	})
	return a
}

func (r *rig) newAsker(o *oracle, change ...func(*Askable)) *Asker {
	r.t.Helper()
	k := Askable{Kind: r.kind.Name, Means: machine.MeansHTTP, Lookup: o}
	for _, c := range change {
		c(&k)
	}
	a, err := NewAsker(AskerOptions{Ledger: r, Watch: r.sweeper.watch, Kinds: []Askable{k}, Metrics: prometheus.NewRegistry()})
	require.NoError(r.t, err)
	return a
}

// doubt makes n jobs whose outcome is unknown.
func (r *rig) doubt(name string, n int) {
	r.t.Helper()
	w := r.register()
	grants, err := r.lease(w, r.enqueue(name, n)...)
	require.NoError(r.t, err)
	for _, g := range grants {
		r.settle(w, g, job.MayBeDone(job.CodeTimeout, "no answer"))
	}
}

func (a *Asker) counted(answer string) float64 {
	return testutil.ToFloat64(a.lookups.WithLabelValues("reminder", answer))
}

func inAskedBubble(t *testing.T, do func(t *testing.T, r *rig), change ...func(*machine.Kind)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		do(t, newRig(t, append([]func(*machine.Kind){canBeAsked}, change...)...))
	})
}

func TestAYesDeliversAtOnce(t *testing.T) {
	t.Parallel()
	inAskedBubble(t, func(t *testing.T, r *rig) {
		o := &oracle{answer: func(_ context.Context, q channel.Inquiry) channel.Answer {
			require.Equal(t, channel.Inquiry{Kind: "reminder", Key: "happened-0", Generation: 1, EffectKey: "reminder/happened-0:1:go"}, q)
			return channel.Answer{Said: job.SaidYes, Receipt: &job.Receipt{ID: "m-1"}}
		}}
		a := r.asker(o)
		r.doubt("happened", 1)
		wait(30 * time.Second)
		require.Equal(t, map[job.State]int{job.Delivered: 1}, r.states())
		require.Len(t, o.times("reminder/happened-0:1:go"), 1)
		require.InDelta(t, 1, a.counted("yes"), 0)
		story, err := r.Show(t.Context(), "reminder", "happened-0")
		require.NoError(t, err)
		require.Equal(t, "m-1", story.Generations[0].Receipt.ID)
	})
}

// The receiver may work for an hour. It is asked before that too, since a "yes" counts at
// any time; a "no" counts from the instant on that is never slept through.
func TestG8ANoIsBelievedOnlyOnceTheReceiverCannotBeWorkingAnyMore(t *testing.T) {
	t.Parallel()
	inAskedBubble(t, func(t *testing.T, r *rig) {
		o := &oracle{answer: says(job.SaidNo)}
		a := r.asker(o)
		r.doubt("never", 1)
		from := time.Now().Add(5*time.Second + time.Hour)
		wait(time.Until(from) - time.Second)
		require.Equal(t, map[job.State]int{job.Unknown: 1}, r.states())
		early := len(o.times("reminder/never-0:1:go"))
		require.GreaterOrEqual(t, early, 6)
		require.InDelta(t, early, a.counted("too_soon"), 0)
		wait(3 * time.Second)
		require.Equal(t, map[job.State]int{job.Scheduled: 1}, r.states(), "it is tried again")
		require.InDelta(t, 1, a.counted("no"), 0)
		require.WithinDuration(t, from, o.times("reminder/never-0:1:go")[early], askEvery)
	}, func(k *machine.Kind) { k.Promises.Settle = time.Hour })
}

func TestWhoSaysNothingIsAskedWithBackoffUntilItIsClosed(t *testing.T) {
	t.Parallel()
	inAskedBubble(t, func(t *testing.T, r *rig) {
		var answers int
		o := &oracle{answer: func(context.Context, channel.Inquiry) channel.Answer {
			answers++
			return channel.Answer{Said: []job.Said{job.SaidNothing, job.SaidWorking}[answers%2], Detail: fmt.Sprint(answers)}
		}}
		a := r.asker(o)
		r.doubt("silent", 1)
		wait(5 * time.Hour)
		asked := o.times("reminder/silent-0:1:go")
		for i := 3; i < len(asked); i++ {
			require.GreaterOrEqual(t, asked[i].Sub(asked[i-1]), min(30*time.Minute, time.Duration(1<<(i-2))*30*time.Second), "ask %d", i)
		}
		wait(time.Hour)
		n, _, err := r.CloseUnknown(t.Context(), 10)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		closed := len(o.times("reminder/silent-0:1:go"))
		require.InDelta(t, closed, a.counted("nothing")+a.counted("working"), 0)
		wait(2 * time.Hour)
		require.Len(t, o.times("reminder/silent-0:1:go"), closed, "what is closed is asked about no more")
	}, func(k *machine.Kind) { k.Promises.ResolveWithin = 6 * time.Hour })
}

// Several askers share the questions, and one that dies with some costs one delay.
func TestAskersShareTheQuestionsAndOneMayDie(t *testing.T) {
	t.Parallel()
	inAskedBubble(t, func(t *testing.T, r *rig) {
		r.doubt("shared", 20)
		wait(time.Minute)
		lost, err := r.TakeQuestions(t.Context(), "reminder", machine.MeansHTTP, 5, 15*time.Second)
		require.NoError(t, err)
		require.Len(t, lost, 5)
		o := &oracle{answer: says(job.SaidYes)}
		for range 3 {
			r.asker(o)
		}
		wait(5 * time.Second)
		require.Equal(t, map[job.State]int{job.Delivered: 15, job.Unknown: 5}, r.states())
		wait(3 * time.Minute)
		require.Equal(t, map[job.State]int{job.Delivered: 20}, r.states())
		for i := range 20 {
			require.Len(t, o.times(fmt.Sprintf("reminder/shared-%d:1:go", i)), 1)
		}
	})
}

// A lookup that hangs, ignores its context or panics holds up nothing but its own place.
func TestALookupThatMisbehavesStopsNoOther(t *testing.T) {
	t.Parallel()
	inAskedBubble(t, func(t *testing.T, r *rig) {
		release := make(chan struct{})
		o := &oracle{answer: func(ctx context.Context, q channel.Inquiry) channel.Answer {
			switch q.Key {
			case "odd-0":
				<-release
			case "odd-1":
				<-ctx.Done()
				return channel.NoAnswer("too slow")
			case "odd-2":
				panic("confidential")
			}
			return channel.Answer{Said: job.SaidYes}
		}}
		a := r.asker(o, func(k *Askable) { k.AtOnce, k.Timeout = 4, 2*time.Second })
		r.doubt("odd", 6)
		wait(2 * time.Minute)
		require.Equal(t, map[job.State]int{job.Delivered: 3, job.Unknown: 3}, r.states())
		for _, key := range []string{"odd-0", "odd-1", "odd-2"} {
			story, err := r.Show(t.Context(), "reminder", key)
			require.NoError(t, err)
			require.Equal(t, job.SaidNothing, story.Generations[0].Asking.Said, key)
			require.NotContains(t, story.Generations[0].Asking.Detail, "confidential")
		}
		require.Positive(t, a.counted("nothing"))
		wait(24 * time.Hour)
		require.Positive(t, testutil.ToFloat64(a.failures.WithLabelValues("asking")), "once every place is taken by one that does not return, that is told")
		close(release)
		wait(time.Hour)
		require.Equal(t, job.Delivered, func() job.State {
			story, err := r.Show(t.Context(), "reminder", "odd-0")
			require.NoError(t, err)
			return story.Generations[0].State
		}(), "and goes on when they do")
	})
}

// An answer that comes while the process is told to stop is brought all the same; what was
// cut short is not taken for one.
func TestAnAnswerIsBroughtAlthoughTheAskerStops(t *testing.T) {
	t.Parallel()
	inAskedBubble(t, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithCancel(t.Context())
		o := &oracle{answer: func(ctx context.Context, q channel.Inquiry) channel.Answer {
			if q.Key == "stopping-0" {
				cancel()
				return channel.Answer{Said: job.SaidYes}
			}
			<-ctx.Done()
			return channel.NoAnswer("stopped")
		}}
		a := r.newAsker(o)
		r.doubt("stopping", 2)
		wait(time.Minute)
		require.ErrorIs(t, a.Run(ctx), context.Canceled)
		require.Equal(t, map[job.State]int{job.Delivered: 1, job.Unknown: 1}, r.states())
		story, err := r.Show(t.Context(), "reminder", "stopping-1")
		require.NoError(t, err)
		require.Empty(t, story.Generations[0].Asking.Said)
		require.EqualValues(t, 1, story.Generations[0].Asking.Times)
	})
}

// While the ledger is away, or its clock is not to be trusted, nobody is asked, and what
// was answered is asked again.
func TestAskingOutlivesTheLedger(t *testing.T) {
	t.Parallel()
	inAskedBubble(t, func(t *testing.T, r *rig) {
		o := &oracle{answer: says(job.SaidYes)}
		var down atomic.Bool
		r.Faults(func(method string) memledger.Fault {
			if down.Load() && method == "Answer" {
				return memledger.Fail
			}
			return memledger.None
		})
		a := r.asker(o)
		down.Store(true)
		r.doubt("away", 1)
		wait(2 * time.Minute)
		require.Equal(t, map[job.State]int{job.Unknown: 1}, r.states())
		require.Positive(t, testutil.ToFloat64(a.failures.WithLabelValues("asking")))
		down.Store(false)
		wait(10 * time.Minute)
		require.Equal(t, map[job.State]int{job.Delivered: 1}, r.states())
	})
}

// What a person settled meanwhile is not settled again.
func TestAnswersThatComeTooLateAreStale(t *testing.T) {
	t.Parallel()
	inAskedBubble(t, func(t *testing.T, r *rig) {
		o := &oracle{answer: func(ctx context.Context, q channel.Inquiry) channel.Answer {
			_, err := r.Resolve(ctx, machine.Answer{Kind: q.Kind, Key: q.Key, Fence: 1, Verdict: machine.VerdictNotDelivered, Evidence: "their log", Actor: "bob"})
			require.NoError(t, err)
			return channel.Answer{Said: job.SaidNo}
		}}
		a := r.asker(o)
		r.doubt("raced", 1)
		wait(2 * time.Minute)
		require.InDelta(t, 1, a.counted("stale"), 0)
		require.InDelta(t, 0, a.counted("no"), 0)
	})
}

func TestAskersOfOneProcessShareTheirMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	for range 2 {
		_, err := NewAsker(AskerOptions{Ledger: memledger.New(), Kinds: []Askable{{Kind: "a", Means: machine.MeansGo, Lookup: &oracle{}}}, Metrics: registry})
		require.NoError(t, err)
	}
	_, err := newMetrics(registry)
	require.NoError(t, err, "and so does the sweeper")
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestAskersRefuseWhatCannotWork(t *testing.T) {
	t.Parallel()
	_, err := NewAsker(AskerOptions{Kinds: []Askable{{Kind: "a"}, {Kind: "b", Means: machine.MeansGo, Lookup: &oracle{}, Timeout: time.Hour}}})
	require.ErrorContains(t, err, "kind a: it needs a lookup")
	require.ErrorContains(t, err, "kind b: timeout 1h0m0s")
}
