package bustest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/bus"
)

var lossCases = map[string]func(*testing.T, *fixture){
	"a restart of the broker loses nothing and everyone goes on":                brokerRestart,
	"what was held during a restart of the broker can be acknowledged":          heldOverRestart,
	"C70 after a wipe publishers and consumers go on by themselves":             wiped,
	"after a wipe a late acknowledgement does not remove a new message":         lateAck,
	"after a wipe a late release and late signs of life disturb no new message": lateRelease,
}

func brokerRestart(t *testing.T, f *fixture) {
	publish(t, f.bus, work(1, 50)...)
	waiting := startReceiving(t, consume(t, f.connect(t)))
	f.Restart(t)
	publishInTime(t, f.bus, work(51, 50)...)
	waiting.until(t, numbers(1, 100)...)
}

func heldOverRestart(t *testing.T, f *fixture) {
	publish(t, f.bus, work(1, 10)...)
	c := consume(t, f.bus)
	held := receive(t, c, 10, 10)
	f.Restart(t)
	publishInTime(t, f.bus, workOf(11, time.Time{})) // connected again
	ack(t, held...)
	receiveSet(t, c, 11)
	receiveNone(t, c, f.Visibility+f.Visibility/2)
}

func wiped(t *testing.T, f *fixture) {
	waiting := startReceiving(t, consume(t, f.connect(t)))
	publish(t, f.bus, work(1, 10)...)
	waiting.until(t, numbers(1, 10)...)
	f.Wipe(t)
	publishInTime(t, f.bus, work(11, 10)...)
	publishInTime(t, f.bus, workOf(21, time.Now().Add(time.Second)))
	waiting.until(t, numbers(11, 11)...)
	publishInTime(t, f.bus, markOf(t, 1))
}

func lateAck(t *testing.T, f *fixture) {
	publish(t, f.bus, work(1, 10)...)
	late := receive(t, consume(t, f.bus), 10, 10)
	f.Wipe(t)
	publishInTime(t, f.bus, work(101, 10)...)
	dying := f.connect(t)
	require.ElementsMatch(t, numbers(101, 10), jobsOf(t, receive(t, consume(t, dying), 10, 10)))
	ack(t, late...)                 // of messages with the same place in the old topic
	publish(t, f.bus, markOf(t, 1)) // the broker has heard it
	f.Crash(t, dying)
	receiveSet(t, consume(t, f.connect(t)), numbers(101, 10)...)
}

func lateRelease(t *testing.T, f *fixture) {
	publish(t, f.bus, work(1, 10)...)
	late := receive(t, consume(t, f.bus), 10, 10)
	f.Wipe(t)
	publishInTime(t, f.bus, work(101, 10)...)
	holder := f.connect(t)
	held := receive(t, consume(t, holder), 10, 10)
	for _, d := range late[:5] {
		require.NoError(t, d.Release())
	}
	receiveNone(t, consume(t, f.connect(t)), f.Visibility+f.Visibility/2)
	ack(t, held...)
}

// receiving receives and acknowledges in the background.
type receiving struct{ jobs chan int64 }

func startReceiving(t *testing.T, c bus.Consumer) receiving {
	t.Helper()
	r := receiving{jobs: make(chan int64, 10_000)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		<-done
	})
	go func() {
		defer close(done)
		for {
			batch, err := c.Receive(ctx, 16)
			if err != nil {
				return
			}
			ids, err := decodeJobs(batch)
			if err != nil {
				t.Errorf("decoding: %v", err)
			}
			for _, id := range ids {
				r.jobs <- id
			}
			for _, d := range batch {
				_ = d.Ack() // one that is lost means that the message comes again
			}
		}
	}()
	return r
}

// until waits until each of the jobs came.
func (r receiving) until(t *testing.T, jobs ...int64) {
	t.Helper()
	missing := map[int64]bool{}
	for _, id := range jobs {
		missing[id] = true
	}
	deadline := time.After(patience)
	for len(missing) > 0 {
		select {
		case id := <-r.jobs:
			delete(missing, id)
		case <-deadline:
			require.Fail(t, "jobs did not come", "%d of %d", len(missing), len(jobs))
		}
	}
}
