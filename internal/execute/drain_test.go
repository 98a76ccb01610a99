package execute

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/channel"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// requireGone checks what every end of a worker leaves behind: an ended row, and
// no lease.
func requireGone(t *testing.T, r *rig) {
	t.Helper()
	require.Empty(t, r.books.alive(), "the worker has ended its row")
	for id := range r.books.jobs {
		require.NotEqual(t, job.Leased, r.books.row(id).State, "job %d", id)
	}
}

func TestG14ShutdownWaitsForWhatRuns(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) { r.performer.do = r.hold }, func(t *testing.T, r *rig) {
		r.put("a", "b")
		r.settle()
		r.stop()
		r.stop = nil
		r.pass(9 * time.Second)
		require.Empty(t, r.ended)
		close(r.open)
		require.NoError(t, <-r.ended)
		r.requireState(1, job.Delivered, 1)
		r.requireState(2, job.Delivered, 1)
		acked, released := r.counts()
		require.Equal(t, []int{1, 0}, []int{acked, released})
		requireGone(t, r)
	})
}

// TestShutdownLetsGoOfItsLanesBeforeItWaits: some buses keep messages for a consumer that
// is there, and give them to others when it has gone.
func TestShutdownLetsGoOfItsLanesBeforeItWaits(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) { r.performer.do = r.hold }, func(t *testing.T, r *rig) {
		r.put("a")
		r.settle()
		r.stop()
		r.settle()
		_, err := r.worker.lanes[0].consumer.Receive(t.Context(), 1)
		require.ErrorIs(t, err, bus.ErrClosed)
		require.Empty(t, r.ended, "it waits for what runs")
		close(r.open)
		r.settle()
		r.requireState(1, job.Delivered, 1)
		require.Zero(t, r.broker.Depth("mail"), "what is out can be acknowledged all the same")
	})
}

func TestG14ShutdownHandsBackWhatDidNotBeginUncounted(t *testing.T) { // G14, C38
	t.Parallel()
	inBubble(t, func(r *rig) {
		close(r.open)
		r.options.Drain = 12 * time.Second
		r.performer.do = afterwards(3*time.Second, r)
	}, func(t *testing.T, r *rig) {
		r.put("a", "b")
		r.settle()
		require.NoError(t, r.shutdown()) // 3 s later 10 s do not fit into 9 s
		require.Empty(t, r.performer.began())
		for id := range int64(2) {
			row := r.requireState(id+1, job.Ready, 0)
			require.EqualValues(t, 2, row.Emission, "each is announced again")
		}
		requireGone(t, r)
		require.Positive(t, r.broker.Depth("mail"), "in one message or in two")
	})
}

func TestG14ShutdownGivesBackWhatIsNotLeased(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.books.onLease = func(int, machine.LeaseRequest) fault { return fault{fail: errDown} }
	}, func(t *testing.T, r *rig) {
		r.put("a", "b")
		r.put("c")
		r.pass(time.Second)
		require.NoError(t, r.shutdown())
		acked, released := r.counts()
		require.Equal(t, []int{0, 2}, []int{acked, released})
		require.Equal(t, 2, r.broker.Depth("mail"))
		r.requireState(1, job.Ready, 0)
		requireGone(t, r)
	})
}

func TestShutdownGivesBackAnEarlyReferenceThatWaits(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, r *rig) {
		early(r, 900*time.Millisecond)
		require.NoError(t, r.shutdown())
		require.Equal(t, 1, r.broker.Depth("mail"))
		r.requireState(1, job.Scheduled, 1)
		requireGone(t, r)
	})
}

func TestShutdownReportsWhatOutlastsTheDrainAsUnknown(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.kind.Handler = true
		r.kind.Policy.Limit = time.Hour
		r.performer.do = r.hold
	}, func(t *testing.T, r *rig) {
		r.put("a")
		r.settle()
		began := time.Now()
		require.NoError(t, r.shutdown())
		require.Equal(t, defaultDrain, time.Since(began))
		r.requireState(1, job.Unknown, 1)
		require.Zero(t, r.broker.Depth("mail"))
		requireGone(t, r)
	})
}

func TestShutdownReportsWhatDoesNotEvenReturn(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.performer.do = func(_ context.Context, e channel.Effect) job.Result {
			require.NoError(r.t, e.Begin())
			<-r.open // whatever its context says
			return job.Done(nil)
		}
		r.options.Drain = time.Second
	}, func(t *testing.T, r *rig) {
		r.put("a")
		r.settle()
		require.NoError(t, r.shutdown())
		r.requireState(1, job.Unknown, 1)
		requireGone(t, r)
		close(r.open)
	})
}

func TestShutdownWithoutALedgerSaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.books.onSettle = func(int, []machine.Report) fault { return fault{fail: errDown} }
	}, func(t *testing.T, r *rig) {
		r.put("a")
		r.settle()
		err := r.shutdown()
		require.ErrorIs(t, err, ErrLeftOver)
		require.ErrorContains(t, err, "1 report")
		acked, _ := r.counts()
		require.Zero(t, acked)
	})
}

func TestG14ShutdownOutlivesABrokenConnection(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		broken := true
		r.books.onEach = func(doing string) error {
			if doing == "end" && broken {
				broken = false
				return errDown
			}
			return nil
		}
	}, func(t *testing.T, r *rig) {
		r.put("a")
		r.settle()
		require.NoError(t, r.shutdown())
		requireGone(t, r)
	})
}

func TestWorkerThatNeverReachedItsLedgerStops(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.books.onEach = func(string) error { return errDown }
	}, func(t *testing.T, r *rig) {
		r.put("a")
		r.pass(time.Minute)
		require.Empty(t, r.books.leases, "messages stay with the bus while there is no ledger")
		require.NoError(t, r.shutdown())
	})
}

func TestWorkerWhoseBusHasFailedDrains(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) { r.performer.do = r.hold }, func(t *testing.T, r *rig) {
		r.put("a")
		r.settle()
		require.NoError(t, r.worker.lanes[0].consumer.Close())
		r.pass(time.Second)
		close(r.open)
		err := <-r.ended
		r.stop()
		r.stop = nil
		require.ErrorContains(t, err, "receiving from lane mail")
		r.requireState(1, job.Delivered, 1)
		requireGone(t, r)
	})
}
