package bustest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/bus"
)

var lossCases = map[string]func(*testing.T, *fixture){
	"C70 after a wipe publishers and consumers go on by themselves":             wiped,
	"C70 after a purge by hand publishers and consumers go on by themselves":    purged,
	"after a wipe a late acknowledgement does not remove a new message":         lateAck,
	"after a wipe a late release and late signs of life disturb no new message": lateRelease,
}

// limitCases limit what the broker keeps.
var limitCases = map[string]func(*testing.T, *fixture){
	"C71 limits that drop what nobody has acknowledged are refused by name": limits,
}

// fillCases leave the broker no room.
var fillCases = map[string]func(*testing.T, *fixture){
	"C71 a full broker is back-pressure and drops nothing": full,
}

// restartCases restart the broker.
var restartCases = map[string]func(*testing.T, *fixture){
	"what was published outlasts a restart of the broker":              outlastsBroker,
	"a restart of the broker loses nothing and everyone goes on":       brokerRestart,
	"what was held during a restart of the broker can be acknowledged": heldOverRestart,
	"delays outlast a restart of the broker":                           delayOutlastsRestart,
}

func outlastsBroker(t *testing.T, f *fixture) {
	publish(t, f.bus, work(1, 50)...)
	f.Restart(t)
	receiveSet(t, consume(t, f.bus), numbers(1, 50)...)
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
	if !f.Log { // there it may have come again before it was acknowledged
		receiveNone(t, c, f.Visibility+f.Visibility/2)
	}
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

// purged: what was in hand is acknowledged late, and means nothing to what is new.
func purged(t *testing.T, f *fixture) {
	publish(t, f.bus, work(1, 20)...)
	c := consume(t, f.bus)
	late := receive(t, c, 5, 5)
	f.Purge(t, lane)
	ack(t, late...)
	publishInTime(t, f.bus, work(101, 20)...)
	publishInTime(t, f.bus, markOf(t, 1))
	receiveSet(t, c, numbers(101, 20)...)
	receiveNone(t, consume(t, f.connect(t)), f.Visibility/2)
}

// full: what there is no room for is refused for now, not for good. What is stored is
// delivered meanwhile.
func full(t *testing.T, f *fixture) {
	publish(t, f.bus, work(1, 10)...)
	c := consume(t, f.bus)
	room := f.Fill(t, lane)
	for _, err := range f.bus.Publish(t.Context(), work(11, 10)) {
		require.Error(t, err)
		require.NotErrorIs(t, err, bus.ErrUnsendable)
	}
	receiveSet(t, c, numbers(1, 10)...)
	room()
	publishInTime(t, f.bus, work(11, 10)...)
	receiveSet(t, c, numbers(11, 10)...)
}

func limits(t *testing.T, f *fixture) {
	names := f.Limit(t, "limited")
	require.NotEmpty(t, names)
	err := f.bus.Ensure(t.Context(), []string{lane, "limited"})
	require.ErrorIs(t, err, bus.ErrUnsafe)
	for _, name := range names {
		require.ErrorContains(t, err, name+" is ")
	}
	require.NoError(t, f.bus.Ensure(t.Context(), []string{lane}), "of others nothing is said")
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
	holder := consume(t, f.connect(t))
	held := receive(t, holder, 10, 10)
	for _, d := range late[:5] {
		require.NoError(t, d.Release())
	}
	other := holder // of a log, where it is: another would be given partitions
	if !f.Log {
		other = consume(t, f.connect(t))
	}
	receiveNone(t, other, f.Visibility+f.Visibility/2)
	ack(t, held...)
}

// receiving receives and acknowledges in the background.
type receiving struct {
	jobs chan int64
	stop func() // and waits for the end
}

func startReceiving(t *testing.T, c bus.Consumer) receiving {
	t.Helper()
	return startHolding(t, c, func(bus.Delivery, int64) bool { return false })
}

// startHolding is startReceiving, but what keep takes for itself is not acknowledged.
func startHolding(t *testing.T, c bus.Consumer, keep func(d bus.Delivery, job int64) bool) receiving {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	r := receiving{jobs: make(chan int64, 10_000), stop: func() {
		cancel()
		<-done
	}}
	t.Cleanup(r.stop)
	go func() {
		defer close(done)
		for {
			batch, err := c.Receive(ctx, 16)
			if err != nil {
				return
			}
			for _, d := range batch {
				ids, err := decodeJobs([]bus.Delivery{d})
				if err != nil {
					t.Errorf("decoding: %v", err)
				}
				kept := false
				for _, id := range ids {
					if kept = keep(d, id); !kept {
						r.jobs <- id
					}
				}
				if !kept {
					_ = d.Ack() // one that is lost means that the message comes again
				}
			}
		}
	}()
	return r
}

// until waits until each of the jobs came.
func (r receiving) until(t *testing.T, jobs ...int64) {
	t.Helper()
	untilAll(t, setOf(jobs), r)
}

// untilAll waits until each of the missing jobs came to one of one or two receivers.
func untilAll(t *testing.T, missing map[int64]bool, from ...receiving) {
	t.Helper()
	total, deadline := len(missing), time.After(patience)
	first, second := from[0].jobs, from[len(from)-1].jobs
	for len(missing) > 0 {
		select {
		case id := <-first:
			delete(missing, id)
		case id := <-second:
			delete(missing, id)
		case <-deadline:
			require.Fail(t, "jobs did not come", "%d of %d", len(missing), total)
		}
	}
}
