package dispatch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/bus/membus"
	"duly.dev/duly/internal/machine"
)

// markLedger numbers marks and says whether the newest stands.
type markLedger struct {
	issued []time.Time
	stands bool
	asked  int
}

func (l *markLedger) IssueMark(_ context.Context, lane, _ string, partitions []int32) (machine.Mark, error) {
	l.issued = append(l.issued, time.Now())
	return machine.Mark{Number: int64(len(l.issued)), Lane: lane, Partitions: partitions}, nil
}

func (l *markLedger) MarkStands(context.Context, string) (bool, error) {
	l.asked++
	return l.stands, nil
}

// follow tends the marker once every 100 ms and returns the seconds at which marks
// were sent; at each step it is told what happened before.
func follow(t *testing.T, l *markLedger, m *marker, d time.Duration, before func(second float64)) []int {
	t.Helper()
	began := time.Now()
	for time.Since(began) < d {
		before(time.Since(began).Seconds())
		require.NoError(t, m.tend(t.Context(), time.Now()))
		time.Sleep(100 * time.Millisecond)
	}
	var seconds []int
	for _, at := range l.issued {
		seconds = append(seconds, int(at.Sub(began).Seconds()))
	}
	return seconds
}

func newMarker(t *testing.T, l *markLedger, b bus.Publisher) *marker {
	t.Helper()
	metrics, err := newMetrics(nil)
	require.NoError(t, err)
	m := &marker{lane: "main", marks: l, bus: b, metrics: metrics, every: 10 * time.Second, most: 10 * time.Minute}
	m.takeOver(time.Now())
	return m
}

func TestMarksFollowWhatIsRelayedAtMostEveryTenSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &markLedger{}
		m := newMarker(t, l, membus.New())
		sent := follow(t, l, m, 65*time.Second, func(s float64) { m.moved = m.moved || s < 31 })
		require.Equal(t, []int{10, 20, 30, 40}, sent, "the last one is for what came between 30 and 31")
	})
}

func TestMarkThatDoesNotPassIsFollowedEverMoreRarely(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &markLedger{stands: true}
		m := newMarker(t, l, membus.New())
		sent := follow(t, l, m, 45*time.Minute, func(float64) {})
		require.Equal(t, []int{10, 20, 40, 80, 160, 320, 640, 1240, 1840, 2440}, sent)
	})
}

func TestIdleLaneWhoseMarkHasPassedIsAskedNoMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &markLedger{}
		m := newMarker(t, l, membus.New())
		require.Equal(t, []int{10}, follow(t, l, m, 10*time.Minute, func(float64) {}))
		require.Equal(t, 1, l.asked)
	})
}

func TestMarkIsPublishedToEveryPartitionWithoutAnID(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := membus.New()
		m := newMarker(t, &markLedger{}, b)
		require.NoError(t, m.send(t.Context()))
		all := messages(t, b, "main")
		require.Len(t, all, 1)
		require.Equal(t, bus.TypeMark, all[0].Type)
		require.Empty(t, all[0].ID)
		mark, err := bus.DecodeMark(all[0].Body)
		require.NoError(t, err)
		require.Equal(t, bus.Mark{Lane: "main", Number: 1}, mark)
	})
}
