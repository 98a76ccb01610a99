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

func mark(t *testing.T, lane string, number int64) bus.Message {
	t.Helper()
	m, err := bus.Mark{Lane: lane, Number: number}.Message(0)
	require.NoError(t, err)
	return m
}

func TestMarkIsPassedOnBehindTheWorkBeforeIt(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.books.onLease = func(n int, _ machine.LeaseRequest) fault {
			if n == 1 {
				return fault{wait: r.open}
			}
			return fault{}
		}
	}, func(t *testing.T, r *rig) {
		r.put("a")
		r.books.publish(mark(t, "mail", 7))
		r.settle()
		require.Empty(t, r.books.marks)
		close(r.open)
		r.settle()
		require.Equal(t, []int64{7}, r.books.marks)
		require.Zero(t, r.broker.Depth("mail"))
	})
}

// TestMarkBehindWhatIsLeftIsNotPassedOn: what is given back has not been dealt with.
func TestMarkBehindWhatIsLeftIsNotPassedOn(t *testing.T) {
	t.Parallel()
	for _, hold := range []bool{false, true} {
		inBubble(t, func(r *rig) {
			r.books.onLease = func(int, machine.LeaseRequest) fault { return fault{fail: errDown} }
			r.books.onEach = func(doing string) error {
				if doing == "hold" {
					return errDown
				}
				return nil
			}
		}, func(t *testing.T, r *rig) {
			if hold {
				newer := r.kind.Kind
				newer.Name = "greeting-v2"
				r.putOf(newer, "a")
			} else {
				r.put("a")
			}
			r.books.publish(mark(t, "mail", 7))
			r.pass(time.Second)
			require.NoError(t, r.shutdown())
			require.Empty(t, r.books.marks)
			require.NoError(t, r.bus.Close())
			require.Equal(t, 2, r.broker.Depth("mail"))
		})
	}
}

func TestMarkIsAcknowledgedOnlyWhenTheLedgerHasIt(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.books.onEach = func(doing string) error {
			if doing == "mark" {
				return errDown
			}
			return nil
		}
	}, func(t *testing.T, r *rig) {
		r.books.publish(mark(t, "mail", 7))
		r.pass(time.Second)
		acked, _ := r.counts()
		require.Zero(t, acked)
		r.books.with(func() { r.books.onEach = nil })
		r.pass(10 * time.Second)
		require.Equal(t, []int64{7}, r.books.marks)
		require.Zero(t, r.broker.Depth("mail"))
	})
}

func TestMessagesThatNobodyUnderstandsAreSetAsideAndBlockNothing(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]bus.Message{
		"damaged work":           {Type: bus.TypeWork, Lane: "mail", ID: "x", Body: []byte("{")},
		"work without an id":     {Type: bus.TypeWork, Lane: "mail", Body: []byte(`{"kind":"greeting","lane":"mail","refs":[]}`)},
		"damaged mark":           {Type: bus.TypeMark, Lane: "mail", Body: []byte("{}")},
		"a mark of another lane": mark(t, "mail", 7),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(r *rig) {
				r.books.onEach = func(doing string) error {
					if doing == "reject" {
						return errDown
					}
					return nil
				}
			}, func(t *testing.T, r *rig) {
				if name == "a mark of another lane" {
					m.Body = mark(t, "calls", 7).Body
				}
				r.books.publish(m)
				r.put("behind")
				r.pass(time.Second)
				r.requireState(1, job.Delivered, 1)
				require.Equal(t, 1, r.broker.Depth("mail"), "not acknowledged before it is kept")
				r.books.with(func() { r.books.onEach = nil })
				r.pass(10 * time.Second)
				require.Len(t, r.books.rejects, 1)
				require.Zero(t, r.broker.Depth("mail"))
				require.Empty(t, r.books.marks)
			})
		})
	}
}

// foreign is a delivery of a type that no bus of ours would publish.
type foreign struct {
	bus.Delivery
	acked chan struct{}
}

func (f *foreign) Message() bus.Message {
	return bus.Message{Type: "order.created", Body: []byte(`{}`)}
}
func (f *foreign) Ack() error { close(f.acked); return nil }

func TestForeignMessageIsSetAside(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, r *rig) {
		f := &foreign{acked: make(chan struct{})}
		r.worker.lanes[0].accept(t.Context(), f)
		<-f.acked
		require.Len(t, r.books.rejects, 1)
		require.Contains(t, r.books.rejects[0], "order.created")
	})
}

func TestEachLaneHasItsShareOfTheSlots(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.performer.do = r.hold
		r.options.Lanes = []Lane{{Name: "mail", Pack: 1}, {Name: "calls", Pack: 1}}
		call := r.kind
		call.Name, call.Lane, call.Performer = "call", "calls", &performer{}
		stuck := r.kind
		stuck.Performer = r.performer
		r.options.Kinds = []Kind{stuck, call}
	}, func(t *testing.T, r *rig) {
		for range 10 {
			r.put("stuck")
		}
		k := r.options.Kinds[1].Kind
		r.putOf(k, "flows")
		r.settle()
		require.Len(t, r.performer.began(), 4, "half of 8")
		r.requireState(11, job.Delivered, 1)
		close(r.open)
	})
}

func TestTroubleWithHoldingIsRetried(t *testing.T) {
	t.Parallel()
	failures := 3
	inBubble(t, func(r *rig) {
		r.books.onEach = func(doing string) error {
			if doing == "hold" {
				if failures--; failures >= 0 {
					return errDown
				}
			}
			return nil
		}
	}, func(t *testing.T, r *rig) {
		newer := r.kind.Kind
		newer.Name = "greeting-v2"
		r.putOf(newer, "a")
		r.pass(5 * time.Second)
		r.requireState(1, job.Scheduled, 0)
		require.Zero(t, r.broker.Depth("mail"))
	})
}

// An open transaction of a producer has cancelled a job of a kind that this worker does not
// know: the lane goes on, and the job is held once the row is free.
func TestHoldOfALockedRowDoesNotHoldUpTheLane(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) { r.books.busy = map[int64]bool{1: true} }, func(t *testing.T, r *rig) {
		newer := r.kind.Kind
		newer.Name = "greeting-v2"
		r.putOf(newer, "locked")
		r.put("b")
		r.settle()
		r.requireState(2, job.Delivered, 1)
		r.pass(10 * time.Second)
		require.Equal(t, job.Ready, r.books.row(1).State)
		require.Equal(t, 1, r.broker.Depth("mail"), "its message stays in hand")
		r.books.with(func() { r.books.busy = nil })
		r.pass(lockedFor)
		r.requireState(1, job.Scheduled, 0)
		require.Zero(t, r.broker.Depth("mail"))
		require.Equal(t, r.worker.lanes[0].slots.total, r.worker.lanes[0].slots.available())
	})
}

func TestShutdownGivesBackWhatCouldNotBeHeld(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) { r.books.busy = map[int64]bool{1: true} }, func(t *testing.T, r *rig) {
		newer := r.kind.Kind
		newer.Name = "greeting-v2"
		r.putOf(newer, "locked")
		r.settle()
		require.NoError(t, r.shutdown())
		r.settle()
		_, released := r.counts()
		require.Equal(t, 1, released)
	})
}

func TestAcknowledgementThatFailsCostsNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.performer.perform(func(_ context.Context, e channel.Effect) job.Result {
			if err := e.Begin(); err != nil {
				return job.NotBegun(err.Error())
			}
			r.broker.Stop() // an acknowledgement is not heard while the broker is down
			return job.Done(nil)
		})
		r.put("a")
		r.settle()
		r.requireState(1, job.Delivered, 1)
		r.broker.Start()
		require.Len(t, r.performer.began(), 1)
	})
}
