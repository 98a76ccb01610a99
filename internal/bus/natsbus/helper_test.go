package natsbus_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/pkg/job"
)

func workOf(id int64, at time.Time) bus.Message {
	return bus.Envelope{
		Kind: "reminder", Lane: "mail", At: at,
		Refs:   []job.Ref{{Job: id, Generation: 1, Emission: 1}},
		Outbox: []int64{id},
	}.Message()
}

func works(first, n int64) []bus.Message {
	var out []bus.Message
	for id := first; id < first+n; id++ {
		out = append(out, workOf(id, time.Time{}))
	}
	return out
}

func numbers(first, n int64) []int64 {
	var out []int64
	for id := first; id < first+n; id++ {
		out = append(out, id)
	}
	return out
}

func requireStored(t testing.TB, errs []error) {
	t.Helper()
	for i, err := range errs {
		require.NoError(t, err, "message %d", i)
	}
}

func publish(t testing.TB, b bus.Publisher, first, n int64) {
	t.Helper()
	requireStored(t, b.Publish(t.Context(), works(first, n)))
}

// publishInTime publishes until all are stored.
func publishInTime(t *testing.T, b bus.Publisher, first, n int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, err := range b.Publish(t.Context(), works(first, n)) {
			if err != nil {
				return false
			}
		}
		return true
	}, 60*time.Second, 50*time.Millisecond)
}

// receiveAll receives and acknowledges n messages and returns their jobs.
func receiveAll(t *testing.T, b bus.Bus, n int) []int64 {
	t.Helper()
	var got []int64
	receiveWhile(t, b, func(id int64) bool { got = append(got, id); return len(got) < n }, n)
	return got
}

// receiveUntil receives and acknowledges until the job came, and returns all that came.
func receiveUntil(t *testing.T, b bus.Bus, last int64) []int64 {
	t.Helper()
	var got []int64
	receiveWhile(t, b, func(id int64) bool { got = append(got, id); return id != last }, 1)
	return got
}

func receiveWhile(t *testing.T, b bus.Bus, more func(id int64) bool, limit int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	c, err := b.Consume(ctx, "mail")
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	got := 0
	for {
		batch, err := c.Receive(ctx, max(1, min(64, limit-got)))
		require.NoError(t, err, "after %d messages", got)
		goOn := true
		for _, d := range batch {
			got++
			goOn = more(jobOf(d)) && goOn
			require.NoError(t, d.Ack())
		}
		if !goOn {
			return
		}
	}
}

// jobOf is the job of a message of one reference.
func jobOf(d bus.Delivery) int64 {
	e, err := bus.DecodeEnvelope(d.Message().Body)
	if err != nil {
		return -1
	}
	return e.Refs[0].Job
}
