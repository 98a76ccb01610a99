package dispatch

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/bus/membus"
	"duly.dev/duly/internal/machine"
)

const oldAddress, newAddress = "nats://old:4222", "kafka://new:9092"

// moving is a dispatcher's options that know two buses.
func moving(to *membus.Broker) func(*Options) {
	return func(o *Options) {
		o.Address, o.Next = oldAddress, &Route{newAddress, to.Connect()}
	}
}

func (w *world) move(from, to string) {
	w.Helper()
	require.NoError(w, w.ledger.MoveBus(w.Context(), machine.BusMove{From: from, To: to, Actor: "alice"}))
}

func TestDispatchersTurnToTheBusThatLanesMoveTo(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		to := membus.NewBroker(membus.Options{})
		defer w.dispatcher(moving(to))()
		defer w.dispatcher(moving(to))()
		before := w.enqueue("main", 5)
		w.wait(time.Second)
		require.Equal(w, before, w.received("main"))

		w.move(oldAddress, newAddress)
		after := w.enqueue("main", 3)
		w.wait(10 * time.Second)
		require.Equal(w, append(before, after...), received(w.T, to.Connect(), "main"), "what is ready is announced there, as all that comes")
		require.Empty(w, w.received("main"), "and nothing on the old one")

		w.move(newAddress, oldAddress)
		w.wait(10 * time.Second)
		require.Equal(w, after, w.received("main"), "and back: this one has seen the others, and takes them for the copies that they are")
	})
}

// The claim is renewed between two looks at the ledger's bus; a move in between must not
// leave a dispatcher with the topic and the old bus.
func TestDispatcherWhoseClaimWasEndedByAMoveDoesNotGoOn(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		to := membus.NewBroker(membus.Options{})
		defer w.dispatcher(moving(to))()
		w.enqueue("main", 1)
		w.wait(5 * time.Second)
		w.received("main")
		for i := range 40 {
			if i%2 == 0 {
				w.move(oldAddress, newAddress)
			} else {
				w.move(newAddress, oldAddress)
			}
			w.enqueue("main", 1)
			w.wait(time.Duration(i) * 97 * time.Millisecond)
		}
		w.wait(10 * time.Second)
		w.received("main")
		last := w.enqueue("main", 1)
		w.wait(time.Second)
		require.Contains(w, w.received("main"), last[0])
	})
}

func TestDispatcherThatDoesNotKnowTheBusRelaysNothing(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		var looked atomic.Int64
		defer w.dispatcher(func(o *Options) { o.Address = oldAddress; o.Succeeded = func() { looked.Add(1) } })()
		w.wait(time.Second)
		require.Positive(w, looked.Load())
		w.move(oldAddress, newAddress)
		w.wait(5 * time.Second)
		looked.Store(0)
		w.enqueue("main", 1)
		w.wait(time.Minute)
		require.Empty(w, w.received("main"))
		require.Zero(w, looked.Load(), "it is not ready")
		unheld, err := w.ledger.UnheldLanes(w.Context())
		require.NoError(w, err)
		require.Equal(w, []string{"main"}, unheld, "and leaves the topic to who knows it")
	})
}

// Nor is one ready that could not take over what another relays there.
func TestDispatcherThatCouldNotTakeOverIsNotReady(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		to := membus.NewBroker(membus.Options{})
		var looked atomic.Int64
		defer w.dispatcher(moving(to))()
		defer w.dispatcher(func(o *Options) { o.Address = oldAddress; o.Succeeded = func() { looked.Add(1) } })()
		w.wait(5 * time.Second)
		require.Positive(w, looked.Load())
		w.move(oldAddress, newAddress)
		w.wait(10 * time.Second)
		looked.Store(0)
		sent := w.enqueue("main", 2)
		w.wait(time.Minute)
		require.Zero(w, looked.Load())
		require.Equal(w, sent, received(w.T, to.Connect(), "main"))
	})
}
