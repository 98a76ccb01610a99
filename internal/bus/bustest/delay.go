package bustest

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/bus"
)

var delayCases = map[string]func(*testing.T, *fixture){
	"delayed work does not come before its time, and keeps its id": notBeforeItsTime,
	"C36 an hour's delay does not block fresh work":                delayBesideFresh,
	"a time that has passed means now":                             pastMeansNow,
	"many delays come each in its time":                            manyDelays,
	"a delay behind longer ones comes in its time":                 delayBehindLonger,
}

func notBeforeItsTime(t *testing.T, f *fixture) {
	at := time.Now().Add(1500 * time.Millisecond).UTC()
	sent := workOf(1, at)
	publish(t, f.bus, sent)
	got := receive(t, consume(t, f.bus), 1, 1)[0]
	require.False(t, time.Now().Before(at), "came %s early", time.Until(at))
	require.Equal(t, sent.ID, got.Message().ID)
	require.Equal(t, sent.Body, got.Message().Body)
	require.True(t, at.Equal(got.Message().At), "it says until when it was delayed")
	ack(t, got)
}

func delayBesideFresh(t *testing.T, f *fixture) {
	hour := time.Now().Add(time.Hour)
	for id := 1; id <= 20; id++ {
		publish(t, f.bus, workOf(id, hour.Add(time.Duration(id)*time.Minute)))
	}
	publish(t, f.bus, work(101, 20)...)
	c := consume(t, f.bus)
	got := receive(t, c, 20, 64)
	require.ElementsMatch(t, numbers(101, 20), jobsOf(t, got))
	ack(t, got...)
	receiveNone(t, c, f.Visibility+f.Visibility/2) // nothing of what waits is delivered and un-acknowledged
}

func pastMeansNow(t *testing.T, f *fixture) {
	publish(t, f.bus, workOf(1, time.Now().Add(-time.Hour)), workOf(2, time.Unix(0, 0)))
	got := receive(t, consume(t, f.bus), 2, 2)
	require.ElementsMatch(t, numbers(1, 2), jobsOf(t, got))
	ack(t, got...)
}

func delayOutlastsRestart(t *testing.T, f *fixture) {
	at := time.Now().Add(2 * time.Second)
	publish(t, f.bus, workOf(1, at), workOf(2, time.Now().Add(time.Hour)))
	f.Restart(t)
	got := receive(t, consume(t, f.bus), 1, 10)
	require.Equal(t, []int64{1}, jobsOf(t, got))
	require.False(t, time.Now().Before(at))
	ack(t, got...)
}

func manyDelays(t *testing.T, f *fixture) {
	begin := time.Now()
	var messages []bus.Message
	for id := 1; id <= 200; id++ {
		messages = append(messages, workOf(id, begin.Add(time.Second+time.Duration(id%10)*100*time.Millisecond)))
	}
	publish(t, f.bus, messages...)
	c := consume(t, f.bus)
	var came []int64
	for len(came) < len(messages) {
		d := receive(t, c, 1, 1)[0]
		require.False(t, time.Now().Before(d.Message().At), "came early: %s", describe(d))
		came = append(came, jobsOf(t, []bus.Delivery{d})...)
		ack(t, d)
	}
	require.ElementsMatch(t, numbers(1, 200), came)
}

// tolerated is how late a delay may be, in 99 of 100 cases.
const tolerated = 500 * time.Millisecond

// delayBehindLonger publishes what is due last first. It says how late delays are; where
// they are too late it tries again, since a machine that is busy may hold up all of a
// round, and a bus that is late is so each time.
func delayBehindLonger(t *testing.T, f *fixture) {
	c := consume(t, f.bus)
	for round := range 3 {
		late := delayRound(t, f, c, 1000*round)
		p99 := late[len(late)*99/100-1]
		// What follows "figure:" goes into the table of results.
		t.Logf("figure: late by %d ms at the median, %d ms at p99, %d ms at most",
			late[len(late)/2].Milliseconds(), p99.Milliseconds(), late[len(late)-1].Milliseconds())
		if p99 <= tolerated {
			return
		}
	}
	require.Fail(t, "delays are too late", "p99 is over %s each time", tolerated)
}

// delayRound returns how late each of 200 delays was, in order.
func delayRound(t *testing.T, f *fixture, c bus.Consumer, base int) (late []time.Duration) {
	t.Helper()
	const n = 200
	begin := time.Now()
	var messages []bus.Message
	for id := 1; id <= n; id++ {
		messages = append(messages, workOf(1_000_000+base+id, begin.Add(time.Hour+time.Duration(id)*time.Minute)))
		messages = append(messages, workOf(base+id, begin.Add(6*time.Second-time.Duration(id)*20*time.Millisecond)))
	}
	publish(t, f.bus, messages...)
	var came []int64
	for len(came) < n {
		for _, d := range receive(t, c, 1, 1) {
			late = append(late, time.Since(d.Message().At))
			came = append(came, jobsOf(t, []bus.Delivery{d})...)
			ack(t, d)
		}
	}
	require.ElementsMatch(t, numbers(base+1, n), came)
	slices.Sort(late)
	require.GreaterOrEqual(t, late[0], time.Duration(0))
	return late
}
