package execute

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/channel"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/pause"
	"duly.dev/duly/pkg/job"
)

// afterwards performs effects that need d before their first byte.
func afterwards(d time.Duration, r *rig) func(context.Context, channel.Effect) job.Result {
	return func(ctx context.Context, e channel.Effect) job.Result {
		if !pause.For(ctx, d) {
			return job.NotDone(job.ClassTransient, job.CodeUnreachable, "no connection within the limit")
		}
		return r.hold(ctx, e)
	}
}

func TestG1PausedWorkerCannotBeginPastItsLease(t *testing.T) { // G1, G5
	t.Parallel()
	inBubble(t, func(r *rig) {
		close(r.open)
		r.kind.Policy.Limit = 24 * time.Second
		r.performer.do = afterwards(7*time.Second, r)
	}, func(t *testing.T, r *rig) {
		r.books.with(func() { r.books.onBeat = func(int) fault { return fault{fail: errDown} } })
		r.put("a")
		r.pass(8 * time.Second)
		require.Empty(t, r.performer.began(), "7 s after the last renewal, 24 s do not fit into 30 s")
		row := r.books.row(1)
		require.Equal(t, job.Ready, row.State)
		require.Zero(t, row.Attempt, "what did not begin is handed back and not counted")
		r.books.with(func() { r.books.onBeat = nil })
		r.performer.perform(r.hold)
		r.pass(10 * time.Second)
		r.requireState(1, job.Delivered, 1)
	})
}

func TestEffectThatBeganMayUseItsWholeLimit(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.performer.do = func(ctx context.Context, e channel.Effect) job.Result {
			require.NoError(r.t, e.Begin())
			<-ctx.Done()
			return job.Done(nil)
		}
	}, func(t *testing.T, r *rig) {
		r.put("a")
		r.settle()
		r.books.with(func() { r.books.onBeat = func(int) fault { return fault{fail: errDown} } })
		r.pass(9999 * time.Millisecond)
		require.Equal(t, job.Leased, r.books.row(1).State)
		r.pass(time.Millisecond)
		r.requireState(1, job.Delivered, 1)
	})
}

func TestSuspendedMachineCannotBegin(t *testing.T) {
	t.Parallel()
	for name, jump := range map[string]time.Duration{"it slept for an hour": time.Hour, "its clock was set back": -time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ahead skew
			inBubble(t, func(r *rig) {
				close(r.open)
				r.performer.do = afterwards(time.Second, r)
			}, func(t *testing.T, r *rig) {
				r.put("a")
				r.settle()
				ahead.Store(int64(jump))
				r.pass(time.Second)
				require.Empty(t, r.performer.began())
				require.Zero(t, r.books.row(1).Attempt)
				r.pass(10 * time.Second) // the next renewal makes the lease good again
				r.requireState(1, job.Delivered, 1)
			}, ahead.adjust)
		})
	}
}

func TestClockThatIsSlewedIsNoSuspension(t *testing.T) {
	t.Parallel()
	var ahead skew
	inBubble(t, func(r *rig) {
		close(r.open)
		r.performer.do = afterwards(time.Second, r)
	}, func(t *testing.T, r *rig) {
		r.put("a")
		r.settle()
		ahead.Store(int64(10 * time.Millisecond))
		r.pass(time.Second)
		r.requireState(1, job.Delivered, 1)
	}, ahead.adjust)
}

func TestG7NoEffectBeginsAfterTheDeadline(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		close(r.open)
		r.performer.do = afterwards(2*time.Second, r)
	}, func(t *testing.T, r *rig) {
		a, b := r.spec("a"), r.spec("b")
		a.Deadline = time.Now().Add(2 * time.Second)
		b.Deadline = a.Deadline.Add(time.Millisecond)
		r.books.enqueue(a, b)
		r.books.relay()
		r.pass(2 * time.Second)
		require.Equal(t, []string{"b"}, r.performer.began())
		row := r.requireState(1, job.Quarantined, 0)
		require.Equal(t, job.ReasonDeadline, row.Reason)
		r.requireState(2, job.Delivered, 1)
	})
}

// A read-back may find the lease of an earlier call, which is older than the last one.
func TestG7LeaseOfAnEarlierCallIsAsOldAsThat(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		deadline := time.Now().Add(3 * time.Second)
		r.books.onLease = func(n int, _ machine.LeaseRequest) fault {
			switch n {
			case 1:
				return fault{fail: errReply, later: true}
			case 2:
				return fault{fail: errReply}
			}
			return fault{}
		}
		r.performer.do = func(_ context.Context, e channel.Effect) job.Result {
			time.Sleep(time.Until(deadline))
			if err := e.Begin(); err != nil {
				return job.NotBegun(err.Error())
			}
			return job.Done(nil)
		}
	}, func(t *testing.T, r *rig) {
		a := r.spec("a")
		a.Deadline = time.Now().Add(3 * time.Second)
		r.books.enqueue(a)
		r.books.relay()
		r.settle()         // read back: nothing
		r.books.comeLate() // and then it is there
		r.pass(5 * time.Second)
		require.Empty(t, r.performer.began())
		row := r.requireState(1, job.Quarantined, 0)
		require.Equal(t, job.ReasonDeadline, row.Reason)
	})
}

func TestG8NoRepeatBeginsOutsideTheWindow(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		close(r.open)
		p := r.kind.Policy
		r.kind.Promises.Window = r.kind.Promises.Settle + p.PauseBound + p.Limit + 6*time.Second
		r.performer.do = afterwards(5*time.Second, r)
	}, func(t *testing.T, r *rig) {
		// Of the 6 s that are left of the window half are kept for the queue, so that the
		// repeat comes after 3 s; one that needs 5 s before its first byte is too late.
		ref := r.books.tried(r.kind.Kind, r.spec("a"), job.MayBeDone(job.CodeTimeout, ""))
		r.pass(time.Until(r.books.row(1).WakeAt))
		r.books.announce("greeting", "mail", ref)
		r.pass(6 * time.Second)
		require.Empty(t, r.performer.began())
		row := r.requireState(1, job.Unknown, 1)
		require.True(t, row.InDoubt())
	})
}

func TestEndedLimitRefusesTheBegin(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.performer.do = func(ctx context.Context, e channel.Effect) job.Result {
			<-ctx.Done()
			if err := e.Begin(); err != nil {
				return job.NotBegun(err.Error())
			}
			return job.Done(nil)
		}
	}, func(t *testing.T, r *rig) {
		r.put("a")
		r.pass(10 * time.Second)
		require.Empty(t, r.performer.began())
		r.performer.perform(nil)
		r.pass(10 * time.Second)
		r.requireState(1, job.Delivered, 1)
	})
}

func TestFailureAfterARefusedBeginIsHandedBack(t *testing.T) {
	t.Parallel()
	require.Equal(t, job.NotBegun("x"), judge(job.NotDone(job.ClassTransient, job.CodeUnreachable, "x"), false, true))
}
