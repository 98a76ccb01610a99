package bustest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/bus"
)

var redeliveryCases = map[string]func(*testing.T, *fixture){
	"C72 what a killed process had received and not acknowledged comes again": comesAgainAfterCrash,
	"what a closed bus held comes again":                                      comesAgainAfterClose,
	"only what was not acknowledged comes again, whatever the order":          outOfOrder,
	"what is released comes again soon, to anyone":                            releasedComesSoon,
	"a message that is never acknowledged does not block those behind":        poisonAtHead,
	"C34 what is held for long stays in progress":                             staysInProgress,
	"C54 what is never acknowledged stays available":                          staysAvailable,
}

// comesAgainAfterCrash kills a process some time after it received, so that whatever it does
// by itself is done.
func comesAgainAfterCrash(t *testing.T, f *fixture) {
	publish(t, f.bus, work(1, 10)...)
	dying := f.connect(t)
	c := consume(t, dying)
	held := receive(t, c, 10, 10)
	ack(t, held[9])
	receiveNone(t, c, f.Visibility/2)
	f.Crash(t, dying)
	receiveSet(t, consume(t, f.bus), jobsOf(t, held[:9])...)
}

func comesAgainAfterClose(t *testing.T, f *fixture) {
	publish(t, f.bus, work(1, 10)...)
	leaving := f.connect(t)
	held := receive(t, consume(t, leaving), 10, 10)
	require.NoError(t, leaving.Close())
	require.ErrorIs(t, held[0].Ack(), bus.ErrClosed)
	require.ErrorIs(t, held[1].Release(), bus.ErrClosed)
	require.ElementsMatch(t, numbers(1, 10), jobsOf(t, receive(t, consume(t, f.bus), 10, 10)))
}

func outOfOrder(t *testing.T, f *fixture) {
	publish(t, f.bus, work(1, 10)...)
	dying := f.connect(t)
	held := receive(t, consume(t, dying), 10, 10)
	for _, i := range []int{9, 1, 7, 3, 5, 0, 8, 2, 6, 4} {
		if jobsOf(t, held[i:i+1])[0]%2 == 0 {
			ack(t, held[i])
		}
	}
	publish(t, dying, markOf(t, 1)) // the broker has heard what was sent before
	f.Crash(t, dying)
	c := consume(t, f.bus)
	if f.Log { // everything from the first hole on
		receiveSet(t, c, 1, 3, 5, 7, 9)
		receiveNone(t, c, f.Visibility+f.Visibility/2)
		return
	}
	again := receive(t, c, 6, 10)
	require.ElementsMatch(t, []int64{1, 3, 5, 7, 9}, jobsOf(t, again))
	ack(t, again...)
	receiveNone(t, c, f.Visibility+f.Visibility/2)
}

func releasedComesSoon(t *testing.T, f *fixture) {
	publish(t, f.bus, work(1, 5)...)
	c := consume(t, f.bus)
	held := receive(t, c, 5, 5)
	for _, d := range held {
		require.NoError(t, d.Release())
	}
	if !f.Log { // there it stays with the consumer
		c = consume(t, f.connect(t))
	}
	got := receive(t, c, 5, 5)
	require.ElementsMatch(t, numbers(1, 5), jobsOf(t, got))
	for _, d := range held {
		require.NoError(t, d.Ack(), "after Release nothing has an effect")
	}
	ack(t, got...)
}

func poisonAtHead(t *testing.T, f *fixture) {
	publish(t, f.bus, work(1, 300)...)
	c := consume(t, f.bus)
	poison := receive(t, c, 1, 1)
	rest := receive(t, c, 299, 64)
	require.ElementsMatch(t, numbers(1, 300), append(jobsOf(t, rest), jobsOf(t, poison)...))
	ack(t, rest...)
	require.NoError(t, poison[0].Release())
	require.Equal(t, jobsOf(t, poison), jobsOf(t, receive(t, c, 1, 1)))
}

func staysInProgress(t *testing.T, f *fixture) {
	publish(t, f.bus, work(1, 100)...)
	c := consume(t, f.bus)
	held := receive(t, c, 100, 100)
	other := c // of a log, where it is: another would be given partitions
	if !f.Log {
		other = consume(t, f.connect(t))
	}
	receiveNone(t, other, 2*f.Visibility) // the ledger is down; nothing is acknowledged meanwhile
	ack(t, held...)
	receiveNone(t, other, f.Visibility+f.Visibility/2)
}

func staysAvailable(t *testing.T, f *fixture) {
	publish(t, f.bus, work(1, 200)...)
	var tenths []int64
	for id := int64(10); id <= 200; id += 10 {
		tenths = append(tenths, id)
	}
	first := f.connect(t)
	for _, d := range receive(t, consume(t, first), 200, 50) {
		if jobsOf(t, []bus.Delivery{d})[0]%10 != 0 {
			ack(t, d)
		}
	}
	publish(t, first, markOf(t, 1)) // the broker has heard what was sent before
	f.Crash(t, first)
	for range 3 { // more often than any limit on deliveries that is usual
		next := f.connect(t)
		c := consume(t, next)
		came := map[int64]bool{}
		for missing := len(tenths); missing > 0; {
			for _, id := range jobsOf(t, receive(t, c, 1, 1)) { // none of the mark
				switch {
				case came[id]:
					require.Fail(t, "came twice", "job %d", id)
				case slices.Contains(tenths, id):
					missing--
				case !f.Log:
					require.Fail(t, "was acknowledged and came again", "job %d", id)
				}
				came[id] = true
			}
		}
		f.Crash(t, next)
	}
}
