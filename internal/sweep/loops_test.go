package sweep

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

func TestLeaseThatOutlivesItsLimitIsEndedThoughItsWorkerLives(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		w := r.register()
		stop := r.beat(w)
		defer stop()
		grants, err := r.lease(w, r.enqueue("long", 2)...)
		require.NoError(t, err)
		r.settle(w, grants[0], job.Done(nil))
		wait(44 * time.Second)
		require.Equal(t, map[job.State]int{job.Leased: 1, job.Delivered: 1}, r.states())
		wait(3 * time.Second)
		require.Equal(t, map[job.State]int{job.Unknown: 1, job.Delivered: 1}, r.states())
		require.InDelta(t, 1, testutil.ToFloat64(r.sweeper.metrics.leasesEnded.WithLabelValues("overrun", "unknown", "")), 0)
		_, err = r.Heartbeat(t.Context(), w.ID)
		require.NoError(t, err)
	})
}

func TestWhatWaitsIsEndedWithinASecondOfItsDeadline(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		r.enqueue("deadline", 3, func(s *job.Spec) { s.Deadline = time.Now().Add(time.Minute) })
		wait(59 * time.Second)
		require.Equal(t, map[job.State]int{job.Ready: 3}, r.states())
		wait(2 * time.Second)
		require.Equal(t, map[job.State]int{job.Quarantined: 3}, r.states())
		require.InDelta(t, 3, testutil.ToFloat64(r.sweeper.metrics.expired.WithLabelValues("quarantined", "deadline_passed")), 0)
	})
}

func TestUnknownOutcomeIsClosedWhenNobodyAnswersInTime(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		w := r.register()
		grants, err := r.lease(w, r.enqueue("asked", 1)...)
		require.NoError(t, err)
		r.settle(w, grants[0], job.MayBeDone(job.CodeTimeout, "no answer"))
		wait(59 * time.Minute)
		require.InDelta(t, 0, testutil.ToFloat64(r.sweeper.metrics.closed), 0)
		wait(2 * time.Minute)
		require.InDelta(t, 1, testutil.ToFloat64(r.sweeper.metrics.closed), 0)
		require.Equal(t, map[job.State]int{job.Unknown: 1}, r.states(), "it stays unknown")
	}, func(k *machine.Kind) { k.Promises.ResolveWithin = time.Hour })
}

// What a passed mark covers and nobody leased was lost on the bus.
func TestLostReferencesAreAnnouncedAnewAfterAMinuteOfContact(t *testing.T) {
	t.Parallel()
	inBubble(t, losing)
}

// A lane that cannot be judged, since somebody has locked a row of it, stops no other.
func TestLaneThatCannotBeJudgedStopsNoOther(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		other := r.kind
		other.Name, other.Lane = "other", "first"
		require.NoError(t, r.SyncKinds(t.Context(), []machine.Kind{r.kind, other}))
		r.mu.Lock()
		r.stuck = other.Lane
		r.mu.Unlock()
		losing(t, r)
		require.Positive(t, testutil.ToFloat64(r.sweeper.metrics.failures.WithLabelValues("judge")))
	})
}

// losing loses announcements of the lane, and sees them announced anew.
func losing(t *testing.T, r *rig) {
	t.Helper()
	const holder = "relay"
	ok, err := r.ClaimTopic(t.Context(), lane, holder, time.Hour)
	require.NoError(t, err)
	require.True(t, ok)
	r.enqueue("lost", 4)
	page, err := r.ReadOutbox(t.Context(), lane, holder, 10)
	require.NoError(t, err)
	require.NoError(t, r.Advance(t.Context(), lane, holder, page))
	mark, err := r.IssueMark(t.Context(), lane, holder, []int32{0})
	require.NoError(t, err)
	require.NoError(t, r.PassMark(t.Context(), lane, 0, mark.Number))
	wait(58 * time.Second)
	require.InDelta(t, 0, testutil.ToFloat64(r.sweeper.metrics.reemitted.WithLabelValues(lane)), 0)
	wait(10 * time.Second)
	require.InDelta(t, 4, testutil.ToFloat64(r.sweeper.metrics.reemitted.WithLabelValues(lane)), 0)
}

func TestPatrolWalksAndTells(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		w := r.register()
		stop := r.beat(w)
		defer stop()
		grants, err := r.lease(w, r.enqueue("old", 3)...)
		require.NoError(t, err)
		for _, g := range grants {
			r.settle(w, g, job.Done(nil))
		}
		wait(10 * time.Minute)
		m := r.sweeper.metrics
		require.Positive(t, testutil.ToFloat64(m.patrolWalks))
		require.Less(t, testutil.ToFloat64(m.patrolWalks), 11.0, "it rests between walks")
		wait(retention)
		require.InDelta(t, 3, testutil.ToFloat64(m.patrolActed.WithLabelValues("old")), 0)
		require.Empty(t, r.states())
	})
}

func TestPartitionsAreKeptAsLongAsAnythingCanHappenToAJob(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		wait(time.Hour)
		r.mu.Lock()
		defer r.mu.Unlock()
		require.Greater(t, len(r.kept), 3)
		require.Equal(t, retention+(7+7)*24*time.Hour, r.kept[0])
	})
}

func TestFiguresAreShown(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		r.mu.Lock()
		r.figures = machine.Figures{UnknownOpen: 3, OldestLease: time.Minute, HeldXIDs: 1000}
		r.mu.Unlock()
		wait(11 * time.Second)
		m := r.sweeper.metrics
		require.InDelta(t, 3, testutil.ToFloat64(m.unknownOpen), 0)
		require.InDelta(t, 60, testutil.ToFloat64(m.oldestLease), 0)
		require.InDelta(t, 1000, testutil.ToFloat64(m.held), 0)
	})
}

// A sweep that fails for long is tried for long, at most 5 s apart, and does not fill the
// log.
func TestFailingSweepIsTriedAgainAndLoggedEverMoreRarely(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var log bytes.Buffer
		r.sweeper.log = slog.New(slog.NewTextHandler(&log, nil))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		tries, lost := 0, 0
		r.sweeper.run(ctx, loop{name: "test", every: time.Second, lost: func() { lost++ }, round: func(context.Context) (bool, error) {
			tries++
			return false, errors.New("down")
		}})
		require.Greater(t, tries, 700)
		require.Equal(t, tries, lost)
		require.Less(t, strings.Count(log.String(), "\n"), 12)
	})
}

func TestRoundThatNeverReturnsIsCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		rounds := 0
		r.sweeper.run(ctx, loop{name: "test", every: time.Second, round: func(ctx context.Context) (bool, error) {
			rounds++
			<-ctx.Done()
			return false, ctx.Err()
		}})
		require.InDelta(t, 10, rounds, 1)
	})
}

func TestMetricsAreRegisteredOnce(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	_, err := New(Options{Metrics: registry})
	require.NoError(t, err)
	_, err = New(Options{Metrics: registry})
	require.ErrorContains(t, err, "registering the metrics of the sweeps")
}
