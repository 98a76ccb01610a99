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

// delayBehindLonger publishes what is due last first. It also says how late a delay is at most, as a median: a machine that is
// busy may hold up some.
func delayBehindLonger(t *testing.T, f *fixture) {
	begin := time.Now()
	var messages []bus.Message
	for id := 1; id <= 100; id++ {
		messages = append(messages, workOf(1000+id, begin.Add(time.Duration(id)*time.Minute)))
		messages = append(messages, workOf(id, begin.Add(6*time.Second-time.Duration(id)*20*time.Millisecond)))
	}
	publish(t, f.bus, messages...)
	c := consume(t, f.bus)
	var late []time.Duration
	var came []int64
	for len(came) < 100 {
		for _, d := range receive(t, c, 1, 1) {
			late = append(late, time.Since(d.Message().At))
			came = append(came, jobsOf(t, []bus.Delivery{d})...)
			ack(t, d)
		}
	}
	require.ElementsMatch(t, numbers(1, 100), came)
	slices.Sort(late)
	require.Less(t, late[50], 500*time.Millisecond, "late by %s to %s", late[0], late[99])
}
