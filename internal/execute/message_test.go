package execute

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/channel"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// A message waits for the last of its references, not for the first.
func TestMessageIsAcknowledgedByTheLastOfItsReferences(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.performer.do = func(ctx context.Context, e channel.Effect) job.Result {
			if e.Key == "slow" {
				return r.hold(ctx, e)
			}
			return script(map[string]job.Result{"quick": job.Done(nil)})(ctx, e)
		}
	}, func(t *testing.T, r *rig) {
		r.put("quick", "slow")
		r.settle()
		r.requireState(1, job.Delivered, 1)
		r.requireState(2, job.Leased, 1)
		acked, _ := r.counts()
		require.Zero(t, acked, "one of two is settled")
		close(r.open)
		r.settle()
		r.requireState(2, job.Delivered, 1)
		acked, _ = r.counts()
		require.Equal(t, 1, acked)
	})
}

// A mark and work before it that are taken together: the work is dealt with first.
func TestMarkThatIsTakenTogetherWithWorkIsPassedOnBehindIt(t *testing.T) {
	t.Parallel()
	var second chan struct{}
	inBubble(t, func(r *rig) {
		second = make(chan struct{}) // of the bubble
		r.books.onLease = func(n int, _ machine.LeaseRequest) fault {
			return fault{wait: map[int]chan struct{}{1: r.open, 2: second}[n]}
		}
	}, func(t *testing.T, r *rig) {
		r.put("a") // keeps the lane while the others come
		r.settle()
		r.put("b")
		r.books.publish(mark(t, "mail", 7))
		r.settle()
		close(r.open)
		r.settle()
		require.Empty(t, r.books.marks, "b is not leased yet")
		close(second)
		r.settle()
		require.Equal(t, []int64{7}, r.books.marks)
	})
}
