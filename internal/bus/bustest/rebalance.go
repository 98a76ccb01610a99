package bustest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/bus"
)

var rebalanceCases = map[string]func(*testing.T, *fixture){
	"a consumer that comes while another is slow costs nothing":        comesWhileSlow,
	"C72 consumers that are killed or leave under load cost nothing":   comeAndGo,
	"C40 a handler slower than any interval of the broker is run once": slowHandler,
}

// comesWhileSlow: what the slow one holds is acknowledged after the other has come, and
// perhaps taken its partitions over.
func comesWhileSlow(t *testing.T, f *fixture) {
	publish(t, f.bus, work(1, 200)...)
	slow := consume(t, f.bus)
	held := receive(t, slow, 50, 50)
	other := f.connect(t)
	all := startReceiving(t, consume(t, other))
	publish(t, f.bus, work(201, 50)...)
	ack(t, held[25:]...) // a hole in front
	also := startReceiving(t, slow)
	ack(t, held[:25]...)
	missing := setOf(numbers(1, 250))
	for _, id := range jobsOf(t, held) {
		delete(missing, id)
	}
	untilAll(t, missing, all, also)
	all.stop()
	also.stop()
	require.NoError(t, other.Close())
	// Nothing that was acknowledged is forgotten, and nothing is left over.
	receiveNone(t, slow, f.Visibility+f.Visibility/2)
}

// comeAndGo is one consumer after the other that dies or leaves while it holds something.
func comeAndGo(t *testing.T, f *fixture) {
	const rounds, each = 5, 40
	steady := startReceiving(t, consume(t, f.bus))
	for round := range rounds {
		publish(t, f.bus, work(1+round*each, each)...)
		b := f.connect(t)
		ctx, cancel := context.WithTimeout(t.Context(), f.Visibility/2)
		_, err := consume(t, b).Receive(ctx, each)
		cancel()
		if err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		if round%2 == 0 {
			f.Crash(t, b)
		} else {
			require.NoError(t, b.Close())
		}
	}
	untilAll(t, setOf(numbers(1, rounds*each)), steady)
}

// slowHandler has one of two consumers work on a message for longer than the broker waits
// for a sign of life. Meanwhile both get what is fresh, and nobody gets that one again.
func slowHandler(t *testing.T, f *fixture) {
	const slow = 1_000_000
	held := make(chan bus.Delivery, 10)
	holding := func(d bus.Delivery, job int64) bool {
		if job == slow {
			held <- d
		}
		return job == slow
	}
	first := startHolding(t, consume(t, f.bus), holding)
	second := startHolding(t, consume(t, f.connect(t)), holding)
	next := 1
	flow := func(d time.Duration) { // fresh work arrives at once, for a time
		for end := time.Now().Add(d); time.Now().Before(end); next += 10 {
			publish(t, f.bus, work(next, 10)...)
			untilAll(t, setOf(numbers(next, 10)), first, second)
			<-time.After(20 * time.Millisecond)
		}
	}
	flow(f.Visibility) // both have come, and what goes from one to the other for that has gone
	publish(t, f.bus, workOf(slow, time.Time{}))
	var one bus.Delivery
	select {
	case one = <-held:
	case <-time.After(patience):
		require.Fail(t, "it did not come")
	}
	flow(2 * f.Visibility)
	require.Empty(t, held, "it came again while it was worked on")
	ack(t, one)
	flow(f.Visibility)
	require.Empty(t, held, "it came again after it was acknowledged")
}
