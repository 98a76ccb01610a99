package machine

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"duly.dev/duly/pkg/job"
)

func TestDelayDoublesUpToItsCap(t *testing.T) {
	t.Parallel()
	p := DefaultPolicy()
	p.Jitter = 0
	for n, want := range map[int32]time.Duration{
		1: 30 * time.Second, 2: time.Minute, 3: 2 * time.Minute, 4: 4 * time.Minute, 5: 8 * time.Minute,
		6: 16 * time.Minute, 7: 30 * time.Minute, 8: 30 * time.Minute,
	} {
		require.Equal(t, want, p.Delay(n, 0), "attempt %d", n)
	}
}

func TestC30DelayOfAnyAttemptStaysWithinItsBounds(t *testing.T) {
	t.Parallel()
	policies := []Policy{
		DefaultPolicy(),
		{Base: 1, Cap: time.Hour, Jitter: 0.5},
		{Base: time.Second, Cap: math.MaxInt64, Jitter: 0},
		{Base: time.Second, Cap: math.MaxInt64, Jitter: 1},
		{Base: time.Hour, Cap: time.Second, Jitter: 0.5},
		{Base: math.MaxInt64, Cap: math.MaxInt64, Jitter: 0.25},
		{},
	}
	for _, p := range policies {
		for _, n := range []int32{math.MinInt32, -1, 0, 1, 34, 40, 62, 63, 64, 119, 310, math.MaxInt32} {
			for _, chance := range []float64{0, 0.5, 1 - 1.0/(1<<53)} {
				d := p.Delay(n, chance)
				require.Positive(t, d, "%+v, attempt %d, chance %g", p, n, chance)
				require.LessOrEqual(t, d, max(p.Cap, minDelay), "%+v, attempt %d, chance %g", p, n, chance)
			}
		}
	}
}

func TestDelayNeverFallsWhileItGrows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{
			Base:   time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "base")),
			Cap:    time.Duration(rapid.Int64Range(int64(time.Millisecond), math.MaxInt64).Draw(t, "cap")),
			Jitter: rapid.Float64Range(0, 1).Draw(t, "jitter"),
		}
		chance := rapid.Float64Range(0, 1).Draw(t, "chance")
		n := rapid.Int32Range(1, 200).Draw(t, "attempt")
		if p.Delay(n, chance) > p.Delay(n+1, chance) {
			t.Fatalf("attempt %d waits %s, the next one %s", n, p.Delay(n, chance), p.Delay(n+1, chance))
		}
	})
}

func TestJitterIsUniformOverJobsAndTheSameForOneAttempt(t *testing.T) {
	t.Parallel()
	p := DefaultPolicy()
	const jobs, parts = 20_000, 10
	var counts [parts]int
	for id := range int64(jobs) {
		r := Row{Job: id + 1, Generation: 1, Attempt: 1, Kind: Kind{Policy: p}}
		d := p.Delay(1, r.chance())
		require.GreaterOrEqual(t, d, 15*time.Second)
		require.LessOrEqual(t, d, 30*time.Second)
		require.Equal(t, d, p.Delay(1, r.chance()))
		counts[min(int((d-15*time.Second)*parts/(15*time.Second)), parts-1)]++
	}
	for i, n := range counts {
		require.InDelta(t, jobs/parts, n, jobs/parts/5, "tenth %d of the span", i)
	}
}

func TestChanceDiffersBetweenAttemptsAndGenerations(t *testing.T) {
	t.Parallel()
	seen := make(map[float64]bool)
	for generation := range int32(10) {
		for attempt := range int32(10) {
			seen[Row{Job: 1, Generation: generation, Attempt: attempt}.chance()] = true
		}
	}
	require.Len(t, seen, 100)
}

func TestWaitBeforeTheNextAttempt(t *testing.T) {
	t.Parallel()
	const limit = 10 * time.Second
	for name, c := range map[string]struct {
		deadline, retryAfter, window time.Duration // from now; window from the doubtful lease, 1 m ago
		want                         time.Duration
		why                          string
	}{
		"backoff by itself": {want: 30 * time.Second, why: "backoff"},
		"a shorter wish of the receiver changes nothing":   {retryAfter: 10 * time.Second, want: 30 * time.Second, why: "backoff"},
		"a longer one is honoured":                         {retryAfter: 5 * time.Minute, want: 5 * time.Minute, why: "retry_after"},
		"up to the cap":                                    {retryAfter: 5 * time.Hour, want: 30 * time.Minute, why: "retry_after"},
		"backoff leaves its limit before the deadline":     {deadline: 35 * time.Second, want: 25 * time.Second, why: "deadline"},
		"or goes at once":                                  {deadline: 5 * time.Second, want: 0, why: "deadline"},
		"what the receiver asked is not shortened by that": {deadline: 65 * time.Second, retryAfter: time.Minute, want: time.Minute, why: "retry_after"},
		"a window ends the wait at half of what is left":   {window: 2 * time.Minute, want: 12500 * time.Millisecond, why: "window"},
		"a window that is far changes nothing":             {window: time.Hour, want: 30 * time.Second, why: "backoff"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := Row{Job: 1, Generation: 1, Attempt: 1, Kind: testKind(DefaultPromises(limit))}
			r.Kind.Policy.Jitter = 0
			if c.deadline > 0 {
				r.Deadline = now.Add(c.deadline)
			}
			if c.window > 0 {
				r.Fixed, r.Promises = true, Promises{Window: c.window, Settle: 20 * time.Second}
				r.DoubtSince = now.Add(-time.Minute)
			}
			at, why := r.retryAt(c.retryAfter, now)
			require.Equal(t, c.want, at.Sub(now))
			require.Equal(t, c.why, why)
		})
	}
}

func TestC32AWishBeyondTheDeadlineEndsTheGenerationAtOnce(t *testing.T) {
	t.Parallel()
	for _, asked := range []time.Duration{time.Hour, time.Hour + 1, 250 * 365 * 24 * time.Hour, math.MaxInt64} {
		r := Row{
			Job: 1, Generation: 1, Attempt: 1, Fence: 1, State: job.Leased, Kind: testKind(DefaultPromises(10 * time.Second)),
			LeasedAt: now.Add(-time.Second), Fixed: true, Deadline: now.Add(time.Hour),
		}
		res := job.NotDone(job.ClassTransient, job.CodeThrottled, "429")
		res.RetryAfter = asked
		after, _ := Next(r, ended(NotDone, 1, res), now)
		require.Equal(t, job.Quarantined, after.State, "asked for %s", asked)
		require.Equal(t, job.ReasonDeadline, after.Reason)
	}
}
