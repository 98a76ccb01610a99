package kafkabus_test

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/bus/kafkabus"
)

// endOf is how many messages a topic of one partition has had.
func endOf(t testing.TB, s *fake, topic string) int64 {
	t.Helper()
	return offsetOf(t, s, topic, (*kadm.Client).ListEndOffsets)
}

// TestMessagesWaitInTheirTier: the largest that is not longer than what remains.
func TestMessagesWaitInTheirTier(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	b := ready(t, s, kafkabus.Options{Partitions: 1})
	now := time.Now()
	for tier, delay := range map[string]time.Duration{
		"duly.retry.1s":    500 * time.Millisecond,
		"duly.retry.32s":   50 * time.Second,
		"duly.retry.2048s": time.Hour,
		"duly.retry.4096s": 30 * 24 * time.Hour,
	} {
		requireStored(t, b.Publish(t.Context(), []bus.Message{workOf(1, now.Add(delay))}))
		require.EqualValues(t, 1, endOf(t, s, tier), tier)
	}
	require.Zero(t, endOf(t, s, workTopic))
}

// TestMessageHopsDown: through every tier that its delay has as a part, and is not early.
func TestMessageHopsDown(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	b := ready(t, s, kafkabus.Options{Partitions: 1})
	move(t, b)
	at := time.Now().Add(7*time.Second + 300*time.Millisecond)
	requireStored(t, b.Publish(t.Context(), []bus.Message{workOf(1, at)}))
	got := receive(t, consume(t, b), 1)
	require.False(t, time.Now().Before(at))
	require.True(t, at.Equal(got[0].Message().At))
	for _, tier := range []string{"duly.retry.4s", "duly.retry.2s", "duly.retry.1s"} {
		require.EqualValues(t, 1, endOf(t, s, tier), tier)
	}
}

// TestForeignRecordInADelayTopicBlocksNothing: it is set aside, counted and told of.
func TestForeignRecordInADelayTopicBlocksNothing(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	metrics := prometheus.NewRegistry()
	b := ready(t, s, kafkabus.Options{Partitions: 1, Metrics: metrics})
	raw(t, s.address, "duly.retry.1s", []byte("foreign"))
	client, err := kgo.NewClient(kgo.SeedBrokers(s.address))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	require.NoError(t, client.ProduceSync(t.Context(), &kgo.Record{Topic: "duly.retry.1s", Headers: []kgo.RecordHeader{
		{Key: "ce_specversion", Value: []byte("1.0")}, {Key: "ce_type", Value: []byte(bus.TypeWork)}, {Key: "ce_dulylane", Value: []byte("No Lane.*")},
	}}).FirstErr())
	requireStored(t, b.Publish(t.Context(), []bus.Message{workOf(1, time.Now().Add(300*time.Millisecond))}))
	aside := move(t, b)
	require.Equal(t, []int64{1}, jobsOf(t, receive(t, consume(t, b), 1)))
	require.Eventually(t, func() bool { return total(t, metrics, "duly_bus_unmovable_messages_total") == 2 }, patience, 10*time.Millisecond)
	require.Len(t, aside(), 3, "one was tried again")
	require.Contains(t, aside()[0], "topic duly.retry.1s ")
}

// TestMoverThatDiesLosesNothing: a message is in the next topic before it is out of the
// last.
func TestMoverThatDiesLosesNothing(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	options := kafkabus.Options{Partitions: 1, SessionTimeout: time.Second}
	b := ready(t, s, options)
	var messages []bus.Message
	begin := time.Now()
	for id := int64(1); id <= 300; id++ {
		messages = append(messages, workOf(id, begin.Add(time.Second+time.Duration(id)*10*time.Millisecond)))
	}
	requireStored(t, b.Publish(t.Context(), messages))
	c := consume(t, b)
	seen := map[int64]bool{}
	for len(seen) < 300 {
		mover := connect(t, s.url(), options)
		ended := make(chan error, 1)
		go func() { ended <- mover.Move(t.Context(), nil) }() // there is nothing to set aside
		for _, id := range jobsOf(t, receive(t, c, min(100, 300-len(seen)))) {
			seen[id] = true
		}
		mover.Crash()
		require.ErrorIs(t, <-ended, bus.ErrClosed)
	}
	require.Len(t, seen, 300)
}

// TestHourAtTheHeadDelaysNothing: of a delay topic or of the lane.
func TestHourAtTheHeadDelaysNothing(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	b := ready(t, s, kafkabus.Options{Partitions: 1})
	move(t, b)
	begin := time.Now()
	requireStored(t, b.Publish(t.Context(), []bus.Message{
		workOf(1, begin.Add(time.Hour)), workOf(2, begin.Add(time.Hour)),
		workOf(3, begin.Add(2500*time.Millisecond)), workOf(4, begin.Add(300*time.Millisecond)), workOf(5, time.Time{}),
	}))
	got := receive(t, consume(t, b), 3)
	require.Equal(t, []int64{5, 4, 3}, jobsOf(t, got))
	require.Less(t, time.Since(begin), time.Minute)
}

// TestAcknowledgedMessagesAreRemoved, and nothing else.
func TestAcknowledgedMessagesAreRemoved(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	metrics := prometheus.NewRegistry()
	b := ready(t, s, kafkabus.Options{Partitions: 1, Metrics: metrics})
	publish(t, b, 1, 100)
	held := receive(t, consume(t, b), 60)
	ack(t, slices.Concat(held[:40], held[41:])...)
	requireCommitted(t, s, b, 0, 40)
	begin := func() int64 { return offsetOf(t, s, workTopic, (*kadm.Client).ListStartOffsets) }
	require.NoError(t, b.Truncate(t.Context()))
	require.EqualValues(t, 40, begin(), "up to the first hole")
	require.NoError(t, b.Truncate(t.Context()))
	require.EqualValues(t, 40, begin())
	require.InDelta(t, 19, total(t, metrics, "duly_bus_watermark_holes"), 0)
	ack(t, held[40])
	requireCommitted(t, s, b, 0, 60)
	require.NoError(t, b.Truncate(t.Context()))
	require.EqualValues(t, 60, begin())
	require.InDelta(t, 60, total(t, metrics, "duly_bus_truncated_messages_total"), 0)
	require.Zero(t, total(t, metrics, "duly_bus_watermark_holes"))
}

// TestMoverRemovesWhatIsAcknowledged, of lanes and of delays, by itself.
func TestMoverRemovesWhatIsAcknowledged(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	b := ready(t, s, kafkabus.Options{Partitions: 1}.Truncating(100*time.Millisecond))
	move(t, b)
	requireStored(t, b.Publish(t.Context(), []bus.Message{workOf(1, time.Now().Add(300*time.Millisecond)), workOf(2, time.Now().Add(time.Hour))}))
	ack(t, receive(t, consume(t, b), 1)...)
	require.Eventually(t, func() bool {
		return offsetOf(t, s, workTopic, (*kadm.Client).ListStartOffsets) == 1 &&
			offsetOf(t, s, "duly.retry.1s", (*kadm.Client).ListStartOffsets) == 1
	}, patience, 20*time.Millisecond)
	require.Zero(t, offsetOf(t, s, "duly.retry.2048s", (*kadm.Client).ListStartOffsets))
}
