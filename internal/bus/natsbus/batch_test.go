package natsbus_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/bus/natsbus"
	"duly.dev/duly/internal/devstack"
)

func TestAtomicBatches(t *testing.T) {
	t.Parallel()
	s := startServer(t, devstack.NATSOptions{SyncAlways: true})
	b := connect(t, s, natsbus.Options{AtomicBatches: true})
	require.NoError(t, b.Ensure(t.Context(), []string{"mail", "slow"}))

	// Work of two lanes, fresh and delayed, an oversize one, a notice and a mark.
	messages := works(1, 1200)
	messages = append(messages, workOf(2001, time.Now().Add(time.Second)), workOf(2002, time.Now().Add(time.Hour)))
	big := workOf(2003, time.Time{})
	big.Body = make([]byte, 2<<20)
	other := workOf(2004, time.Time{})
	other.Lane = "slow"
	messages = append(messages, big, other, bus.Message{Type: bus.TypeDead, ID: "n", Body: []byte("{}")})
	for i, err := range b.Publish(t.Context(), messages) {
		if len(messages[i].Body) > b.MaxMessage() {
			require.ErrorIs(t, err, bus.ErrUnsendable)
			continue
		}
		require.NoError(t, err)
	}
	require.ElementsMatch(t, append(numbers(1, 1200), 2001), receiveAll(t, b, 1201))

	// A batch with a copy is not taken as a whole: its messages are sent singly.
	requireStored(t, b.Publish(t.Context(), append(works(1, 1), works(3001, 10)...)))
	require.ElementsMatch(t, numbers(3001, 10), receiveAll(t, b, 10))
}

func TestAtomicBatchesOnAStreamWithoutThem(t *testing.T) {
	t.Parallel()
	s := startServer(t, devstack.NATSOptions{})
	require.NoError(t, connect(t, s, natsbus.Options{}).Ensure(t.Context(), []string{"mail"}))
	b := connect(t, s, natsbus.Options{AtomicBatches: true})
	publish(t, b, 1, 20)
	require.ElementsMatch(t, numbers(1, 20), receiveAll(t, b, 20))
}

func TestAtomicBatchesHealAWipedServer(t *testing.T) {
	t.Parallel()
	s := startServer(t, devstack.NATSOptions{})
	b := connect(t, s, natsbus.Options{AtomicBatches: true})
	require.NoError(t, b.Ensure(t.Context(), []string{"mail"}))
	s.wipe(t)
	publishInTime(t, b, 1, 20)
	require.ElementsMatch(t, numbers(1, 20), receiveAll(t, b, 20))
}
