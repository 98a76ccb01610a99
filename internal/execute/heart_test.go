package execute

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/channel"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

func TestG5WorkerThatWasEndedDropsEverythingAndRegistersAnew(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		close(r.open)
		r.performer.do = afterwards(6*time.Second, r)
	}, func(t *testing.T, r *rig) {
		r.put("a")
		r.settle()
		old := r.books.alive()[0]
		r.books.endWorker(old, false) // its leases are ended later
		r.pass(6 * time.Second)       // the heartbeat at 5 s has said so
		require.Empty(t, r.performer.began())
		require.NotContains(t, r.books.alive(), old)
		require.Len(t, r.books.alive(), 1)
		r.pass(6 * time.Second)
		row := r.requireState(1, job.Delivered, 1)
		require.Equal(t, r.books.alive()[0], row.Worker)
	})
}

func TestLeaseUnderAnEndedRowRegistersAnewAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.books.endWorker(r.books.alive()[0], true)
		r.put("a")
		r.settle()
		r.requireState(1, job.Delivered, 1)
	})
}

func TestG5SuccessOfAnEndedWorkerIsReported(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) { r.performer.do = r.hold }, func(t *testing.T, r *rig) {
		r.put("a")
		r.settle()
		r.books.endWorker(r.books.alive()[0], true)
		r.requireState(1, job.Unknown, 1)
		r.pass(6 * time.Second)
		close(r.open)
		r.settle()
		r.requireState(1, job.Delivered, 1)
		require.Zero(t, r.broker.Depth("mail"))
	})
}

func TestHeartbeatIsTriedAgainSoonerThanUsual(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.books.onBeat = func(n int) fault {
			if n < 20 {
				return fault{fail: errDown}
			}
			return fault{}
		}
	}, func(t *testing.T, r *rig) {
		r.pass(5*time.Second + 19*time.Second)
		require.Equal(t, 20, r.books.beats)
	})
}

func TestHeartbeatThatHangsIsGivenUp(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.books.onBeat = func(n int) fault {
			if n == 1 {
				return fault{wait: r.open}
			}
			return fault{}
		}
	}, func(t *testing.T, r *rig) {
		r.pass(12 * time.Second)
		require.GreaterOrEqual(t, r.books.beats, 2)
		close(r.open)
	})
}

func TestLeaseCountsFromWhenTheRenewalWasSent(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.books.onBeat = func(n int) fault {
			if n == 1 {
				return fault{wait: r.open}
			}
			return fault{}
		}
	}, func(t *testing.T, r *rig) {
		r.pass(5 * time.Second) // sent
		sent := time.Now()
		r.pass(4 * time.Second)
		close(r.open) // answered
		r.settle()
		left, _ := r.worker.board.current.left(time.Now())
		require.Equal(t, defaultLeaseTime-time.Since(sent), left)
	})
}

func TestC40GoHandlerOutlastsItsLeaseOnRenewals(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.kind.Handler = true
		r.kind.Policy.Limit = 10 * time.Minute
		r.performer.do = r.hold
	}, func(t *testing.T, r *rig) {
		r.put("a")
		r.pass(9 * time.Minute)
		require.Equal(t, job.Leased, r.books.row(1).State)
		close(r.open)
		r.settle()
		r.requireState(1, job.Delivered, 1)
	})
}

func TestG1GoHandlersContextEndsBeforeItsLease(t *testing.T) {
	t.Parallel()
	var over time.Time
	inBubble(t, func(r *rig) {
		r.kind.Handler = true
		r.kind.Policy.Limit = 10 * time.Minute
		r.performer.do = func(ctx context.Context, e channel.Effect) job.Result {
			require.NoError(r.t, e.Begin())
			<-ctx.Done()
			over = time.Now()
			return job.MayBeDone(job.CodeLeaseEnded, ctx.Err().Error())
		}
	}, func(t *testing.T, r *rig) {
		r.put("a")
		r.pass(10 * time.Second)
		last := time.Now()
		r.books.with(func() { r.books.onBeat = func(int) fault { return fault{fail: errDown} } })
		r.pass(40 * time.Second)
		require.False(t, over.IsZero())
		require.Less(t, over.Sub(last), defaultLeaseTime)
		require.Greater(t, over.Sub(last), defaultLeaseTime/2, "while there is hope it goes on")
		r.requireState(1, job.Unknown, 1)
	})
}

func TestSuspensionEndsGoHandlers(t *testing.T) {
	t.Parallel()
	var ahead skew
	inBubble(t, func(r *rig) {
		r.kind.Handler = true
		r.performer.do = r.hold
	}, func(t *testing.T, r *rig) {
		r.put("a")
		r.settle()
		ahead.Store(int64(time.Hour))
		r.pass(2 * watchEvery)
		r.requireState(1, job.Unknown, 1)
	}, ahead.adjust)
}

func TestC41AttemptThatDoesNotReturnIsReportedAndItsLateSuccessToo(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.performer.do = func(_ context.Context, e channel.Effect) job.Result {
			require.NoError(r.t, e.Begin())
			<-r.open // whatever its context says
			return job.Done(&job.Receipt{ID: "at last"})
		}
	}, func(t *testing.T, r *rig) {
		r.put("a")
		r.pass(r.kind.Policy.Limit + r.kind.Policy.PauseBound + 2*watchEvery)
		row := r.requireState(1, job.Unknown, 1)
		require.Equal(t, job.CodeTimeout, row.LastCode)
		require.Zero(t, r.broker.Depth("mail"))
		require.Equal(t, 7, r.worker.lanes[0].slots.available(), "its slot stays taken")
		close(r.open)
		r.settle()
		r.requireState(1, job.Delivered, 1)
		require.Equal(t, 8, r.worker.lanes[0].slots.available())
	})
}

func TestReadinessIsALeaseOrAHeartbeatWithAHealthyBus(t *testing.T) {
	t.Parallel()
	var claims atomic.Int64
	inBubble(t, func(r *rig) {
		r.options.Claimed = func() { claims.Add(1) }
	}, func(t *testing.T, r *rig) {
		require.Zero(t, claims.Load())
		r.put("a")
		r.settle()
		require.EqualValues(t, 1, claims.Load())
		r.pass(5 * time.Second)
		require.EqualValues(t, 2, claims.Load())
		r.broker.Stop()
		r.pass(30 * time.Second)
		require.EqualValues(t, 2, claims.Load())
		r.broker.Start()
	})
}

// One bad hour of the ledger: no report is taken, and the worker holds a lease out of a call
// whose reply was lost. Its hand-back must not wait behind the reports, or the worker would
// be ended and with it everything that it runs.
func TestHeartDoesNotWaitForReports(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.books.onSettle = func(int, []machine.Report) fault { return fault{fail: errDown} }
	}, func(t *testing.T, r *rig) {
		for range (maxBatch + 4*r.options.Slots) / 4 {
			r.put("a", "b", "c", "d")
		}
		r.pass(10 * time.Minute)
		require.Zero(t, r.worker.lanes[0].slots.available(), "as many reports wait as may")
		lost := r.books.enqueue(r.spec("lost"))
		worker := machine.Worker{ID: r.books.alive()[0], LeaseTime: defaultLeaseTime}
		_, err := r.books.Ledger.Lease(t.Context(), machine.LeaseRequest{Worker: worker, Kind: r.kind.Kind, Refs: lost})
		require.NoError(t, err)
		var before int
		r.books.with(func() { before = r.books.beats })
		r.pass(time.Minute)
		r.books.with(func() {
			require.GreaterOrEqual(t, r.books.beats-before, 11)
			r.books.onSettle = nil
		})
		r.pass(time.Minute)
		require.Len(t, r.books.alive(), 1)
		row := r.requireState(lost[0].Job, job.Delivered, 1)
		require.Equal(t, int64(2), row.Fence, "it was handed back and not counted")
		require.Zero(t, r.broker.Depth("mail"))
	})
}
