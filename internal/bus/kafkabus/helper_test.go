package kafkabus_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/bus/kafkabus"
	"duly.dev/duly/pkg/job"
)

const lane = "mail"

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

func workOf(id int64, at time.Time) bus.Message {
	return bus.Envelope{
		Kind: "reminder", Lane: lane, At: at,
		Refs:   []job.Ref{{Job: id, Generation: 1, Emission: 1}},
		Outbox: []int64{id},
	}.Message()
}

func markOf(t testing.TB, number int64, partition int32) bus.Message {
	t.Helper()
	m, err := bus.Mark{Lane: lane, Number: number}.Message(partition)
	require.NoError(t, err)
	return m
}

// publish publishes work of the jobs from first on.
func publish(t testing.TB, b bus.Publisher, first, n int64) {
	t.Helper()
	var messages []bus.Message
	for id := first; id < first+n; id++ {
		messages = append(messages, workOf(id, time.Time{}))
	}
	requireStored(t, b.Publish(t.Context(), messages))
}

func requireStored(t testing.TB, errs []error) {
	t.Helper()
	for i, err := range errs {
		require.NoError(t, err, "message %d", i)
	}
}

func numbers(first, n int64) []int64 {
	var out []int64
	for id := first; id < first+n; id++ {
		out = append(out, id)
	}
	return out
}

// consume receives from the lane until the test ends.
func consume(t testing.TB, b bus.Bus) bus.Consumer {
	t.Helper()
	c, err := b.Consume(t.Context(), lane)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// receive receives exactly n messages.
func receive(t testing.TB, c bus.Consumer, n int) []bus.Delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var all []bus.Delivery
	for len(all) < n {
		batch, err := c.Receive(ctx, n-len(all))
		require.NoError(t, err, "after %d of %d messages", len(all), n)
		all = append(all, batch...)
	}
	return all
}

// receiveNone requires that nothing comes for a time.
func receiveNone(t testing.TB, c bus.Consumer, wait time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	batch, err := c.Receive(ctx, 10)
	require.Empty(t, batch)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func ack(t testing.TB, deliveries ...bus.Delivery) {
	t.Helper()
	for _, d := range deliveries {
		require.NoError(t, d.Ack())
	}
}

// jobsOf are the jobs of the work among the deliveries.
func jobsOf(t testing.TB, deliveries []bus.Delivery) []int64 {
	t.Helper()
	var ids []int64
	for _, d := range deliveries {
		if d.Message().Type != bus.TypeWork {
			continue
		}
		e, err := bus.DecodeEnvelope(d.Message().Body)
		require.NoError(t, err)
		ids = append(ids, e.Refs[0].Job)
	}
	return ids
}

// ready connects and makes the lane's topic.
func ready(t testing.TB, s *fake, options kafkabus.Options) *kafkabus.Bus {
	t.Helper()
	if options.SessionTimeout == 0 {
		options.SessionTimeout = sessionTimeout
	}
	b := connect(t, s.url(), options)
	require.NoError(t, b.Ensure(t.Context(), []string{lane}))
	return b
}

// move moves delayed messages on until the test ends, and returns how much was set aside
// meanwhile.
func move(t testing.TB, b bus.Mover) (aside func() []string) {
	t.Helper()
	var (
		mu   sync.Mutex
		kept []string
	)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- b.Move(ctx, func(_ context.Context, source string, m bus.Message, _ error) error {
			mu.Lock()
			defer mu.Unlock()
			kept = append(kept, source+" "+m.Identity())
			if len(kept) == 1 {
				return errors.New("the ledger is away") // it is tried again
			}
			return nil
		})
	}()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(kept)
	}
}

// committed is what the group of the lane has committed of a partition, -1 for nothing.
func committed(t testing.TB, s *fake, b *kafkabus.Bus, partition int32) int64 {
	t.Helper()
	group, err := b.Group(t.Context(), lane)
	require.NoError(t, err)
	offsets, err := admin(t, s.address).FetchOffsets(t.Context(), group)
	require.NoError(t, err)
	o, ok := offsets.Lookup("duly.work."+lane, partition)
	if !ok {
		return -1
	}
	return o.At
}

// requireCommitted waits until the partition is committed up to there.
func requireCommitted(t testing.TB, s *fake, b *kafkabus.Bus, partition int32, want int64) {
	t.Helper()
	require.Eventually(t, func() bool { return committed(t, s, b, partition) == want }, patience, 20*time.Millisecond,
		"committed to %d", want)
}

// offsetOf is an offset of a topic of one partition.
func offsetOf(t testing.TB, s *fake, topic string, list func(*kadm.Client, context.Context, ...string) (kadm.ListedOffsets, error)) int64 {
	t.Helper()
	offsets, err := list(admin(t, s.address), t.Context(), topic)
	require.NoError(t, err)
	o, ok := offsets.Lookup(topic, 0)
	require.True(t, ok)
	require.NoError(t, o.Err)
	return o.Offset
}
