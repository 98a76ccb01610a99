package natsbus_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/bus/natsbus"
	"duly.dev/duly/internal/devstack"
)

// TestC70StorageDeleted: the server comes back with nothing.
func TestC70StorageDeleted(t *testing.T) {
	t.Parallel()
	s := startServer(t, devstack.NATSOptions{})
	registry := prometheus.NewRegistry()
	b := connect(t, s, natsbus.Options{Metrics: registry})
	require.NoError(t, b.Ensure(t.Context(), []string{"mail"}))
	publish(t, b, 1, 10)
	require.Len(t, receiveAll(t, b, 5), 5)

	require.NoError(t, s.running.Stop())
	require.NoError(t, os.RemoveAll(filepath.Join(s.options.StoreDir, "jetstream")))
	s.start(t)

	publishInTime(t, b, 101, 10)
	require.ElementsMatch(t, numbers(101, 10), receiveAll(t, b, 10))
	require.InDelta(t, 1, value(t, registry, "duly_bus_recreated_total"), 0)
}

func TestOnePublishIsEnoughToMakeAStreamAnew(t *testing.T) {
	t.Parallel()
	s := startServer(t, devstack.NATSOptions{})
	b := connect(t, s, natsbus.Options{})
	require.NoError(t, b.Ensure(t.Context(), []string{"mail"}))
	s.wipe(t)
	publish(t, b, 1, 10)
	require.ElementsMatch(t, numbers(1, 10), receiveAll(t, b, 10))
}

// TestOldSnapshotRestored: the storage of the server goes back in time, as after the restore
// of a backup or with a lost tail. What it has is delivered, and what is new flows.
func TestOldSnapshotRestored(t *testing.T) {
	t.Parallel()
	s := startServer(t, devstack.NATSOptions{})
	b := connect(t, s, natsbus.Options{})
	require.NoError(t, b.Ensure(t.Context(), []string{"mail"}))
	publish(t, b, 1, 10)
	require.ElementsMatch(t, numbers(1, 10), receiveAll(t, b, 10))

	snapshot := t.TempDir()
	require.NoError(t, s.running.Stop())
	require.NoError(t, os.CopyFS(snapshot, os.DirFS(s.options.StoreDir)))
	s.start(t)
	publishInTime(t, b, 11, 50)
	require.ElementsMatch(t, numbers(11, 50), receiveAll(t, b, 50))

	require.NoError(t, s.running.Stop())
	require.NoError(t, os.RemoveAll(s.options.StoreDir))
	require.NoError(t, os.CopyFS(s.options.StoreDir, os.DirFS(snapshot)))
	s.start(t)
	publishInTime(t, b, 101, 10)
	require.Subset(t, receiveUntil(t, b, 110), numbers(101, 10))
}

// TestC70TailLost: the stream lost its messages and numbers, its consumer did not.
func TestC70TailLost(t *testing.T) {
	t.Parallel()
	s := startServer(t, devstack.NATSOptions{})
	b := connect(t, s, natsbus.Options{})
	require.NoError(t, b.Ensure(t.Context(), []string{"mail"}))
	publish(t, b, 1, 100)
	require.ElementsMatch(t, numbers(1, 100), receiveAll(t, b, 100))

	require.NoError(t, s.running.Stop())
	stored, err := filepath.Glob(filepath.Join(s.options.StoreDir, "jetstream", "*", "streams", "duly_work_mail", "msgs", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, stored)
	for _, file := range stored {
		require.NoError(t, os.Remove(file))
	}
	s.start(t)
	publishInTime(t, b, 201, 10)
	require.ElementsMatch(t, numbers(201, 10), receiveAll(t, b, 10))
}

func TestConsumerDeletedByHand(t *testing.T) {
	t.Parallel()
	s := startServer(t, devstack.NATSOptions{})
	registry := prometheus.NewRegistry()
	b := connect(t, s, natsbus.Options{Metrics: registry})
	require.NoError(t, b.Ensure(t.Context(), []string{"mail"}))
	c, err := b.Consume(t.Context(), "mail")
	require.NoError(t, err)
	came := make(chan int64, 100)
	go func() {
		for {
			batch, err := c.Receive(t.Context(), 10)
			if err != nil {
				close(came)
				return
			}
			for _, d := range batch {
				came <- jobOf(d)
				_ = d.Ack()
			}
		}
	}()
	publish(t, b, 1, 1)
	require.Equal(t, int64(1), <-came)

	admin := s.admin(t)
	before := consumerOf(t, admin)
	stream, err := admin.Stream(t.Context(), "duly_work_mail")
	require.NoError(t, err)
	require.NoError(t, stream.DeleteConsumer(t.Context(), before.Name))

	publish(t, b, 2, 1)
	require.Equal(t, int64(2), <-came)
	require.Equal(t, before.Name, consumerOf(t, admin).Name, "the same stream, the same name")
	require.InDelta(t, 1, value(t, registry, "duly_bus_recreated_total"), 0)
	require.NoError(t, c.Close())
	_, open := <-came
	require.False(t, open)
}

func TestANewStreamGetsAConsumerOfAnotherName(t *testing.T) {
	t.Parallel()
	s := startServer(t, devstack.NATSOptions{})
	b := connect(t, s, natsbus.Options{})
	require.NoError(t, b.Ensure(t.Context(), []string{"mail"}))
	before := consumerOf(t, s.admin(t)).Name
	s.wipe(t)
	require.NoError(t, b.Ensure(t.Context(), []string{"mail"}))
	require.NotEqual(t, before, consumerOf(t, s.admin(t)).Name)
}

// TestForeignMessages: what others sent is handed out as it came, so that it can be set
// aside.
func TestForeignMessages(t *testing.T) {
	t.Parallel()
	s := startServer(t, devstack.NATSOptions{})
	b := connect(t, s, natsbus.Options{})
	require.NoError(t, b.Ensure(t.Context(), []string{"mail"}))
	admin := s.admin(t)
	for _, m := range []*nats.Msg{
		{Subject: "duly.work.mail", Data: []byte("no headers")},
		{Subject: "duly.work.mail", Data: []byte{}},
		{Subject: "duly.work.mail", Header: nats.Header{"ce-specversion": {"1.0"}, "ce-type": {"com.example.%C3%A9%"}, "ce-id": {"%zz"}}},
		{Subject: "duly.work.mail", Header: nats.Header{"ce-specversion": {"0.3"}, "ce-type": {"duly.work"}}, Data: []byte("old")},
		{Subject: "duly.work.mail", Header: nats.Header{"ce-specversion": {"1.0"}, "ce-type": {"duly.work"}, "ce-dulyat": {"soon"}}, Data: []byte("{")},
		{Subject: "duly.work.mail", Header: nats.Header{"Status": {"404"}, "Description": {"No Messages"}}},
	} {
		_, err := admin.PublishMsg(t.Context(), m)
		require.NoError(t, err)
	}
	publish(t, b, 1, 1)
	c, err := b.Consume(t.Context(), "mail")
	require.NoError(t, err)
	var types []bus.Type
	for len(types) < 7 {
		batch, err := c.Receive(t.Context(), 10)
		require.NoError(t, err)
		for _, d := range batch {
			types = append(types, d.Message().Type)
			require.NoError(t, d.Ack())
		}
	}
	require.Equal(t, []bus.Type{"", "", "com.example.%C3%A9%", "", bus.TypeWork, "", bus.TypeWork}, types)
}

// TestC36DelayedWorkIsNotInHand: what waits is neither delivered nor un-acknowledged.
func TestC36DelayedWorkIsNotInHand(t *testing.T) {
	t.Parallel()
	s := startServer(t, devstack.NATSOptions{})
	b := connect(t, s, natsbus.Options{})
	require.NoError(t, b.Ensure(t.Context(), []string{"mail"}))
	for id := range int64(20) {
		requireStored(t, b.Publish(t.Context(), []bus.Message{workOf(id+1, time.Now().Add(6*time.Hour))}))
	}
	publish(t, b, 101, 1)
	require.Equal(t, []int64{101}, receiveAll(t, b, 1))
	admin := s.admin(t)
	require.Eventually(t, func() bool { return consumerOf(t, admin).NumAckPending == 0 }, 30*time.Second, 10*time.Millisecond)
	info := consumerOf(t, admin)
	require.Zero(t, info.NumPending)
	require.Zero(t, info.NumRedelivered)
	stream, err := admin.Stream(t.Context(), "duly_work_mail")
	require.NoError(t, err)
	require.Equal(t, uint64(20), stream.CachedInfo().State.Msgs, "each waits on its own subject")
}

// TestWireForm: the message as other programs see it.
func TestWireForm(t *testing.T) {
	t.Parallel()
	s := startServer(t, devstack.NATSOptions{})
	b := connect(t, s, natsbus.Options{Prefix: "acme.duly"})
	require.NoError(t, b.Ensure(t.Context(), []string{"mail"}))
	admin := s.admin(t)
	sub, err := admin.Conn().SubscribeSync("acme.duly.work.mail")
	require.NoError(t, err)
	require.NoError(t, admin.Conn().Flush())

	sent := workOf(1, time.Time{})
	sent.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	requireStored(t, b.Publish(t.Context(), []bus.Message{sent}))
	got, err := sub.NextMsg(30 * time.Second)
	require.NoError(t, err)
	require.Equal(t, nats.Header{
		"ce-specversion":     {"1.0"},
		"ce-id":              {sent.ID},
		"ce-source":          {"acme.duly"},
		"ce-type":            {"duly.work"},
		"ce-datacontenttype": {"application/json"},
		"ce-dulylane":        {"mail"},
		"ce-dulykind":        {"reminder"},
		"ce-traceparent":     {sent.TraceParent},
		"Nats-Msg-Id":        {sent.ID},
	}, got.Header)
	require.JSONEq(t, `{"kind":"reminder","lane":"mail","refs":[[1,1,1]],"outbox":1}`, string(got.Data))
	names := admin.StreamNames(t.Context())
	var streams []string
	for name := range names.Name() {
		streams = append(streams, name)
	}
	require.ElementsMatch(t, []string{"acme_duly_work_mail", "acme_duly_dead"}, streams)
}

func consumerOf(t *testing.T, js jetstream.JetStream) *jetstream.ConsumerInfo {
	t.Helper()
	stream, err := js.Stream(t.Context(), "duly_work_mail")
	require.NoError(t, err)
	var found []*jetstream.ConsumerInfo
	list := stream.ListConsumers(t.Context())
	for info := range list.Info() {
		found = append(found, info)
	}
	require.NoError(t, list.Err())
	require.Len(t, found, 1)
	return found[0]
}

// value is the sum of a metric over its labels.
func value(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	var sum float64
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			sum += m.GetCounter().GetValue()
		}
	}
	return sum
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	s := startServer(t, devstack.NATSOptions{})
	registry := prometheus.NewRegistry()
	b := connect(t, s, natsbus.Options{Metrics: registry})
	connect(t, s, natsbus.Options{Metrics: registry}) // two connections share them
	require.NoError(t, b.Ensure(t.Context(), []string{"mail"}))
	publish(t, b, 1, 3)
	publish(t, b, 1, 3) // copies
	bad := workOf(1, time.Time{})
	bad.Body = make([]byte, 2<<20)
	require.Error(t, b.Publish(t.Context(), []bus.Message{bad})[0])
	c, err := b.Consume(t.Context(), "mail")
	require.NoError(t, err)
	batch, err := c.Receive(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, batch[0].Release())
	require.Len(t, receiveAll(t, b, 3), 3)

	require.InDelta(t, 6, value(t, registry, "duly_bus_published_messages_total"), 0)
	require.InDelta(t, 3, value(t, registry, "duly_bus_duplicate_messages_total"), 0)
	require.InDelta(t, 1, value(t, registry, "duly_bus_publish_errors_total"), 0)
	require.InDelta(t, 1, value(t, registry, "duly_bus_redelivered_messages_total"), 0)
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems)
}

// TestAConsumerAheadOfItsStream: whatever is published up to where it believes to be would
// be passed over.
func TestAConsumerAheadOfItsStream(t *testing.T) {
	t.Parallel()
	s := startServer(t, devstack.NATSOptions{})
	registry := prometheus.NewRegistry()
	b := connect(t, s, natsbus.Options{Metrics: registry})
	require.NoError(t, b.Ensure(t.Context(), []string{"mail"}))
	publish(t, b, 1, 10)
	require.ElementsMatch(t, numbers(1, 10), receiveAll(t, b, 10))
	admin := s.admin(t)
	before := consumerOf(t, admin).Name
	_, err := admin.ResetConsumerToSequence(t.Context(), "duly_work_mail", before, 1000)
	require.NoError(t, err)

	publish(t, b, 11, 10)
	require.ElementsMatch(t, numbers(11, 10), receiveAll(t, b, 10))
	require.NotEqual(t, before, consumerOf(t, admin).Name)
	require.InDelta(t, 1, value(t, registry, "duly_bus_recreated_total"), 0)
}

// TestC42CopiesOverTime: the same id, again and again, for longer than the server
// remembers ids, beside other messages.
func TestC42CopiesOverTime(t *testing.T) {
	t.Parallel()
	s := startServer(t, devstack.NATSOptions{})
	b := connect(t, s, natsbus.Options{DuplicateWindow: 100 * time.Millisecond})
	require.NoError(t, b.Ensure(t.Context(), []string{"mail"}))
	for round := range int64(10) {
		requireStored(t, b.Publish(t.Context(), []bus.Message{workOf(1, time.Time{}), workOf(100+round, time.Time{})}))
		<-time.After(60 * time.Millisecond)
	}
	requireStored(t, b.Publish(t.Context(), works(999, 1)))
	got := receiveUntil(t, b, 999)
	require.Subset(t, got, append(numbers(100, 10), 1), "swallowed or leaked, nothing else is lost")
}
