package natsbus_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/bus/natsbus"
	"duly.dev/duly/internal/devstack"
)

// good is a stream as an operator may have made it beforehand.
func good() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              "duly_work_mail",
		Subjects:          []string{"duly.work.mail", "duly.retry.mail.*"},
		Retention:         jetstream.WorkQueuePolicy,
		Storage:           jetstream.FileStorage,
		AllowMsgSchedules: true,
	}
}

// TestC71UnsafeStreams: a stream that could drop or withhold work is refused, by the
// name of its setting.
func TestC71UnsafeStreams(t *testing.T) {
	t.Parallel()
	js := startServer(t, devstack.NATSOptions{})
	admin := js.admin(t)
	b := connect(t, js, natsbus.Options{})

	for setting, spoil := range map[string]func(*jetstream.StreamConfig){
		"max_msgs":             func(c *jetstream.StreamConfig) { c.MaxMsgs = 10 },
		"max_bytes":            func(c *jetstream.StreamConfig) { c.MaxBytes = 100 << 10 },
		"max_age":              func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		"max_msgs_per_subject": func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1000 },
		"storage":              func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
		"no_ack":               func(c *jetstream.StreamConfig) { c.NoAck = true },
		"retention":            func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy },
		"subjects":             func(c *jetstream.StreamConfig) { c.Subjects = c.Subjects[:1] },
		"allow_msg_schedules": func(c *jetstream.StreamConfig) { // as C71 has it
			c.AllowMsgSchedules = false
			c.MaxMsgs, c.MaxBytes, c.Discard = 10, 100, jetstream.DiscardNew
		},
		"subject_transform": func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "duly.work.mail", Destination: "duly.retry.mail.x"}
		},
		"persist_mode": func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode },
	} {
		config := good()
		spoil(&config)
		_, err := admin.CreateStream(t.Context(), config)
		require.NoError(t, err, setting)

		err = b.Ensure(t.Context(), []string{"mail"})
		require.ErrorIs(t, err, bus.ErrUnsafe, setting)
		require.ErrorContains(t, err, "stream duly_work_mail: "+setting+" is ")
		require.NoError(t, admin.DeleteStream(t.Context(), config.Name))
	}
}

func TestAllProblemsAreReportedAtOnce(t *testing.T) {
	t.Parallel()
	s := startServer(t, devstack.NATSOptions{})
	config := good()
	config.MaxAge, config.MaxMsgs = time.Hour, 10
	_, err := s.admin(t).CreateStream(t.Context(), config)
	require.NoError(t, err)
	err = connect(t, s, natsbus.Options{}).Ensure(t.Context(), []string{"mail", "Not A Lane"})
	require.ErrorContains(t, err, "max_age is 1h0m0s")
	require.ErrorContains(t, err, "max_msgs is 10")
	require.ErrorContains(t, err, `lane "Not A Lane"`)
}

func TestAStreamMadeBeforehandIsUsed(t *testing.T) {
	t.Parallel()
	s := startServer(t, devstack.NATSOptions{})
	admin := s.admin(t)
	_, err := admin.CreateStream(t.Context(), good())
	require.NoError(t, err)
	require.NoError(t, connect(t, s, natsbus.Options{}).Ensure(t.Context(), []string{"mail"}))
	stream, err := admin.Stream(t.Context(), "duly_work_mail")
	require.NoError(t, err)
	require.Empty(t, stream.CachedInfo().Config.Description, "it was not changed")
}

func TestUnsafeConsumers(t *testing.T) {
	t.Parallel()
	s := startServer(t, devstack.NATSOptions{})
	admin := s.admin(t)
	b := connect(t, s, natsbus.Options{})
	stream, err := admin.CreateStream(t.Context(), good())
	require.NoError(t, err)

	for setting, spoil := range map[string]func(*jetstream.ConsumerConfig){
		"max_deliver":     func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 5 },
		"max_ack_pending": func(c *jetstream.ConsumerConfig) { c.MaxAckPending = 1000 },
		"headers_only":    func(c *jetstream.ConsumerConfig) { c.HeadersOnly = true },
		"replay_policy":   func(c *jetstream.ConsumerConfig) { c.ReplayPolicy = jetstream.ReplayOriginalPolicy },
		"backoff":         func(c *jetstream.ConsumerConfig) { c.BackOff = []time.Duration{time.Second} },
	} {
		config := jetstream.ConsumerConfig{
			Durable: "duly-x", FilterSubject: "duly.work.mail", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: -1,
		}
		spoil(&config)
		_, err := stream.CreateConsumer(t.Context(), config)
		require.NoError(t, err, setting)
		err = b.Ensure(t.Context(), []string{"mail"})
		require.ErrorIs(t, err, bus.ErrUnsafe, setting)
		require.ErrorContains(t, err, "consumer duly-x: "+setting+" is ")
		require.NoError(t, stream.DeleteConsumer(t.Context(), "duly-x"))
	}
}

func TestAConsumerThatTakesWorkAwayIsRefused(t *testing.T) {
	t.Parallel()
	s := startServer(t, devstack.NATSOptions{})
	stream, err := s.admin(t).CreateStream(t.Context(), good())
	require.NoError(t, err)
	_, err = stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{
		Durable: "debug", FilterSubject: "duly.>", AckPolicy: jetstream.AckExplicitPolicy,
	})
	require.NoError(t, err)
	err = connect(t, s, natsbus.Options{}).Ensure(t.Context(), []string{"mail"})
	require.ErrorIs(t, err, bus.ErrUnsafe)
	require.ErrorContains(t, err, "debug")
}

// TestC71AFullQuotaIsBackPressure: what the broker has no room for is refused for now, not
// for good, and nothing that is stored is dropped.
func TestC71AFullQuotaIsBackPressure(t *testing.T) {
	t.Parallel()
	s := startServer(t, devstack.NATSOptions{MaxStore: 64 << 10})
	b := connect(t, s, natsbus.Options{})
	require.NoError(t, b.Ensure(t.Context(), []string{"mail"}))

	var stored []int64
	var refused error
	for id := int64(1); refused == nil; id++ {
		require.Less(t, id, int64(10_000), "the quota was never full")
		if refused = b.Publish(t.Context(), []bus.Message{workOf(id, time.Time{})})[0]; refused == nil {
			stored = append(stored, id)
		}
	}
	require.NotErrorIs(t, refused, bus.ErrUnsendable)

	require.ElementsMatch(t, stored, receiveAll(t, b, len(stored)))
	require.Eventually(t, func() bool {
		return b.Publish(t.Context(), []bus.Message{workOf(99_999, time.Time{})})[0] == nil
	}, 30*time.Second, 20*time.Millisecond, "there is room again")
}

func TestAFullStreamOfNoticesIsBackPressure(t *testing.T) {
	t.Parallel()
	s := startServer(t, devstack.NATSOptions{})
	_, err := s.admin(t).CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "duly_dead", Subjects: []string{"duly.dead"}, MaxMsgs: 10, Discard: jetstream.DiscardNew,
	})
	require.NoError(t, err)
	b := connect(t, s, natsbus.Options{})
	require.NoError(t, b.Ensure(t.Context(), nil))
	var notices []bus.Message
	for i := range 12 {
		notices = append(notices, bus.Message{Type: bus.TypeDead, ID: fmt.Sprint("n", i), Body: []byte("{}")})
	}
	for i, err := range b.Publish(t.Context(), notices) {
		if i < 10 {
			require.NoError(t, err)
			continue
		}
		require.Error(t, err)
		require.NotErrorIs(t, err, bus.ErrUnsendable)
	}
}
