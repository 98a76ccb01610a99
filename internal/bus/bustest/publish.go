package bustest

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/pkg/job"
)

var publishCases = map[string]func(*testing.T, *fixture){
	"what was published outlasts its publisher":                        outlastsPublisher,
	"an oversize message is unsendable and hurts no neighbour":         oversize,
	"the largest message arrives":                                      largest,
	"what no broker could route is unsendable and hurts no neighbour":  unroutable,
	"C42 a copy of an id never costs another message":                  copies,
	"C42 another emission is never taken for a copy":                   otherEmission,
	"a publisher whose context ended gets its error":                   publishEnded,
	"Ensure can be repeated and refuses what is not the name of lanes": ensureAgain,
}

func outlastsPublisher(t *testing.T, f *fixture) {
	publisher := f.connect(t)
	publish(t, publisher, work(1, 50)...)
	f.Crash(t, publisher)
	receiveSet(t, consume(t, f.bus), numbers(1, 50)...)
}

func oversize(t *testing.T, f *fixture) {
	big := workOf(2, time.Time{})
	big.Body = bytes.Repeat([]byte("x"), f.bus.MaxMessage()+64<<10)
	errs := f.bus.Publish(t.Context(), []bus.Message{workOf(1, time.Time{}), big, workOf(3, time.Time{})})
	require.NoError(t, errs[0])
	require.ErrorIs(t, errs[1], bus.ErrUnsendable)
	require.NoError(t, errs[2])
	receiveSet(t, consume(t, f.bus), 1, 3)
	publish(t, f.bus, workOf(4, time.Time{})) // the connection is as good as before
	receiveSet(t, consume(t, f.bus), 4)
}

func largest(t *testing.T, f *fixture) {
	big := workOf(1, time.Now().Add(time.Second))
	big.Body = append(big.Body, bytes.Repeat([]byte(" "), f.bus.MaxMessage()-len(big.Body))...)
	big.ID = string(bytes.Repeat([]byte("é"), bus.MaxID/2))
	big.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	publish(t, f.bus, big)
	got := receive(t, consume(t, f.bus), 1, 1)
	require.Equal(t, big.ID, got[0].Message().ID)
	require.Len(t, got[0].Message().Body, f.bus.MaxMessage())
	ack(t, got...)
}

func unroutable(t *testing.T, f *fixture) {
	lost := workOf(1, time.Time{})
	lost.Lane = "No Lane.*"
	strange := workOf(2, time.Time{})
	strange.Type = "com.example.other"
	long := workOf(3, time.Time{})
	long.ID = string(bytes.Repeat([]byte("x"), bus.MaxID+1))
	errs := f.bus.Publish(t.Context(), []bus.Message{lost, strange, long, workOf(4, time.Time{})})
	for _, err := range errs[:3] {
		require.ErrorIs(t, err, bus.ErrUnsendable)
	}
	require.NoError(t, errs[3])
	receiveSet(t, consume(t, f.bus), 4)
}

func copies(t *testing.T, f *fixture) {
	for round := range 10 {
		publish(t, f.bus, workOf(1, time.Time{}), workOf(100+round, time.Time{}))
		<-time.After(50 * time.Millisecond) // the same id over some time
	}
	receiveSet(t, consume(t, f.bus), append(numbers(100, 10), 1)...)
}

func otherEmission(t *testing.T, f *fixture) {
	for emission := int32(1); emission <= 5; emission++ {
		publish(t, f.bus, bus.Envelope{
			Kind: "reminder", Lane: lane,
			Refs:   []job.Ref{{Job: 1, Generation: 1, Emission: emission}},
			Outbox: []int64{100},
		}.Message())
	}
	got := receive(t, consume(t, f.bus), 5, 5)
	require.Len(t, jobsOf(t, got), 5)
	ack(t, got...)
}

func publishEnded(t *testing.T, f *fixture) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range f.bus.Publish(ctx, work(1, 3)) {
		require.ErrorIs(t, err, context.Canceled)
	}
}

func ensureAgain(t *testing.T, f *fixture) {
	publish(t, f.bus, work(1, 3)...)
	require.NoError(t, f.bus.Ensure(t.Context(), []string{lane, "another"}))
	require.NoError(t, f.connect(t).Ensure(t.Context(), []string{lane, "another"}))
	require.Error(t, f.bus.Ensure(t.Context(), []string{lane, "Not A Lane"}))
	require.NoError(t, f.bus.Healthy())
	receiveSet(t, consume(t, f.bus), numbers(1, 3)...)
}
