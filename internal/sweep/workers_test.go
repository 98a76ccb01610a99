package sweep

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/contact"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/memledger"
	"duly.dev/duly/pkg/job"
)

// C38: what a worker that died held is free again within its lease time and 5 s.
func TestC38DeadWorkerLosesItsLeasesSoon(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		w := r.register()
		stop := r.beat(w)
		wait(17 * time.Second)
		_, err := r.lease(w, r.enqueue("held", 3)...)
		require.NoError(t, err)
		stop()
		wait(25 * time.Second)
		require.Equal(t, map[job.State]int{job.Leased: 3}, r.states())
		wait(10 * time.Second)
		require.Equal(t, map[job.State]int{job.Unknown: 3}, r.states())
		require.InDelta(t, 1, testutil.ToFloat64(r.sweeper.metrics.workersEnded), 0)
		require.InDelta(t, 3, testutil.ToFloat64(r.sweeper.metrics.leasesEnded.WithLabelValues("worker_ended", "unknown", "")), 0)
		_, err = r.Heartbeat(t.Context(), w.ID)
		require.ErrorIs(t, err, machine.ErrWorkerEnded)
	})
}

func TestWorkerThatBeatsIsNeverEnded(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		w := r.register()
		stop := r.beat(w)
		wait(time.Hour)
		stop()
		_, err := r.Heartbeat(t.Context(), w.ID)
		require.NoError(t, err)
		require.Positive(t, r.alive)
	})
}

// A ledger that restarts lets nobody beat: that is nobody's death.
func TestLedgerThatIsDownKillsNobody(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		w := r.register()
		stop := r.beat(w)
		for range 5 {
			wait(20 * time.Second)
			r.Faults(func(string) memledger.Fault { return memledger.Fail })
			wait(50 * time.Second)
			r.Faults(nil)
		}
		wait(time.Minute)
		stop()
		_, err := r.Heartbeat(t.Context(), w.ID)
		require.NoError(t, err)
		require.Positive(t, testutil.ToFloat64(r.sweeper.metrics.failures.WithLabelValues("dead workers")))
	})
}

func TestNobodyIsEndedWhileTheClockIsNotToBeTrusted(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		w := r.register()
		wait(20 * time.Second)
		r.mu.Lock()
		r.step = time.Hour
		r.mu.Unlock()
		wait(31 * time.Second)
		_, err := r.Heartbeat(t.Context(), w.ID)
		require.NoError(t, err, "the sweeps rested for one lease time")
		wait(40 * time.Second)
		_, err = r.Heartbeat(t.Context(), w.ID)
		require.ErrorIs(t, err, machine.ErrWorkerEnded, "but not for ever")
	})
}

// silent is a ledger with one worker that never beats.
type silent struct {
	err   error
	slow  func()
	ended []int64
}

func (s *silent) Beats(context.Context) ([]machine.Beat, error) {
	if s.slow != nil {
		s.slow()
	}
	return []machine.Beat{{Worker: "w", Count: 7, LeaseTime: 30 * time.Second}}, s.err
}

func (s *silent) EndDead(_ context.Context, _ string, count int64) (bool, error) {
	s.ended = append(s.ended, count)
	return true, nil
}

// A sweeper that was stopped, suspended or cut off itself concludes nothing from what it
// did not hear meanwhile.
func TestSweeperThatWasAwayEndsNobody(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 10, 12, 12, 0, 0, 0, time.UTC)
	for name, away := range map[string]func(s *silent, now *contact.Instant){
		"stopped": func(_ *silent, now *contact.Instant) {
			now.Elapsed, now.Wall = now.Elapsed+time.Minute, now.Wall.Add(time.Minute)
		},
		"suspended": func(_ *silent, now *contact.Instant) {
			now.Wall = now.Wall.Add(time.Hour) // the monotonic clock stood still
		},
		"stopped between question and answer": func(s *silent, now *contact.Instant) {
			s.slow = func() {
				now.Elapsed, now.Wall, s.slow = now.Elapsed+time.Minute, now.Wall.Add(time.Minute), nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ledger, now := &silent{}, contact.Instant{Wall: begin}
			w := &watcher{ledger: ledger, contact: contact.Contact{Gap: 5 * time.Second}, now: func() contact.Instant { return now }}
			listen := func(seconds int) {
				for range seconds {
					_, err := w.look(t.Context())
					require.NoError(t, err)
					now.Elapsed, now.Wall = now.Elapsed+time.Second, now.Wall.Add(time.Second)
				}
			}
			listen(29)
			away(ledger, &now)
			listen(30)
			require.Empty(t, ledger.ended)
			listen(2)
			require.NotEmpty(t, ledger.ended, "once it has listened for a whole lease time")
		})
	}
}

func TestFailureMakesTheSweeperListenAnew(t *testing.T) {
	t.Parallel()
	ledger, now := &silent{}, contact.Instant{}
	w := &watcher{ledger: ledger, contact: contact.Contact{Gap: 5 * time.Second}, now: func() contact.Instant { return now }}
	for second := range 60 {
		ledger.err = nil
		if second == 25 {
			ledger.err = errors.New("restarting")
		}
		_, err := w.look(t.Context())
		require.ErrorIs(t, err, ledger.err)
		if err != nil {
			w.contact.Lost()
		}
		now.Elapsed, now.Wall = now.Elapsed+time.Second, now.Wall.Add(time.Second)
		require.Equal(t, second >= 56, len(ledger.ended) > 0, "second %d", second)
	}
}

// A lease that is found only by a later look ends all the same, and looking ends.
func TestEndedWorkerIsLookedAfterForAWhile(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		w := r.register()
		require.NoError(t, r.EndWorker(t.Context(), w.ID))
		undrained := func() int {
			ids, err := r.Undrained(t.Context())
			require.NoError(t, err)
			return len(ids)
		}
		wait(11 * time.Minute)
		require.Equal(t, 1, undrained())
		wait(30 * time.Second)
		require.Zero(t, undrained())
	})
}

// scripted is a ledger with one ended worker whose leases come to light one look after
// another.
type scripted struct {
	found   []int     // by look; 0 afterwards
	looks   []float64 // when they were, in seconds
	began   time.Time
	drained bool
}

func (s *scripted) Undrained(context.Context) ([]string, error) { return []string{"w"}, nil }

func (s *scripted) EndLeasesOf(context.Context, string, time.Time, int) (machine.LeaseSweep, error) {
	s.looks = append(s.looks, time.Since(s.began).Seconds())
	sweep := machine.LeaseSweep{Ended: machine.Tally{}}
	if len(s.found) > 0 {
		sweep.Ended[machine.Ending{State: job.Unknown}] = s.found[0]
		s.found = s.found[1:]
	}
	return sweep, nil
}

func (s *scripted) Drained(context.Context, string) error {
	s.drained = true
	return nil
}

func TestEveryLateLeaseMakesTheLooksBeginAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ledger := &scripted{found: []int{3, 0, 2, 0, 0, 1}, began: time.Now()}
		u := &undertaker{Sweeper: newRig(t).sweeper, ledger: ledger}
		for !ledger.drained {
			_, err := u.round(t.Context())
			require.NoError(t, err)
			time.Sleep(time.Second)
		}
		require.Equal(t, []float64{0, 1, 6, 7, 12, 72, 73, 78, 138, 738}, ledger.looks)
	})
}
