package kafkabus_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/bus/bustest"
	"duly.dev/duly/internal/bus/kafkabus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sessionTimeout is long enough for signs of life to keep up on a busy machine; a real
// broker takes no less than realTimeout.
const sessionTimeout, realTimeout = 3 * time.Second, 6 * time.Second

// realBroker names a broker that the suite is to run on, in place of one in the process:
// host:port. The script scripts/kafka starts one.
const realBroker = "DULY_TEST_KAFKA"

func TestSuite(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d partitions", partitions), func(t *testing.T) {
			t.Parallel()
			if address := os.Getenv(realBroker); address != "" {
				t.Run("topics are made safe", func(t *testing.T) {
					t.Parallel()
					b := useBroker(t, address, partitions).Connect(t)
					require.NoError(t, b.Ensure(t.Context(), []string{lane}))
					require.NoError(t, b.Ensure(t.Context(), []string{lane}), "as the broker has them")
				})
				bustest.Run(t, func(t *testing.T) bustest.Broker { return useBroker(t, address, partitions) }, bustest.Restart, bustest.Fill)
				return
			}
			bustest.Run(t, func(t *testing.T) bustest.Broker { return startBroker(t, partitions) })
		})
	}
}

func startBroker(t *testing.T, partitions int) bustest.Broker {
	t.Helper()
	s := startFake(t)
	b := brokerAt(s.address, kafkabus.Options{Prefix: "duly", SessionTimeout: sessionTimeout, Partitions: partitions})
	b.Restart, b.Fill = s.restart, s.fill
	return b
}

// prefixes keeps cases apart that share a broker.
var prefixes atomic.Int64

func useBroker(t *testing.T, address string, partitions int) bustest.Broker {
	t.Helper()
	prefix := fmt.Sprintf("test-%d-%d", time.Now().UnixMilli(), prefixes.Add(1))
	t.Cleanup(func() { wipe(t, address, prefix+".") })
	return brokerAt(address, kafkabus.Options{Prefix: prefix, SessionTimeout: realTimeout, Partitions: partitions})
}

// brokerAt is what the suite needs of a broker.
func brokerAt(address string, options kafkabus.Options) bustest.Broker {
	options = options.Looking(2 * time.Second).With(kgo.Dialer(dialRotting))
	topic := func(lane string) string { return options.Prefix + ".work." + lane }
	return bustest.Broker{
		Connect:    func(t testing.TB) bus.Bus { return connect(t, "kafka://"+address, options) },
		Crash:      crash,
		Wipe:       func(t testing.TB) { wipe(t, address, options.Prefix+".") },
		Raw:        func(t testing.TB, lane string, body []byte) { raw(t, address, topic(lane), body) },
		Damage:     func(t testing.TB, lane string) { raw(t, address, topic(lane), rotting()) },
		Purge:      func(t testing.TB, lane string) { purge(t, address, topic(lane)) },
		Limit:      func(t testing.TB, lane string) []string { return limit(t, address, topic(lane)) },
		Visibility: options.SessionTimeout, Log: true, Partitions: options.Partitions,
	}
}

func crash(_ testing.TB, b bus.Bus) { b.(*kafkabus.Bus).Crash() }

func connect(t testing.TB, url string, options kafkabus.Options) *kafkabus.Bus {
	t.Helper()
	b, err := kafkabus.Connect(t.Context(), url, options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// fake is a broker in this process that can be stopped and started on the same port and
// storage.
type fake struct {
	options []kfake.Opt
	cluster *kfake.Cluster
	address string
}

func startFake(t *testing.T, options ...kfake.Opt) *fake {
	t.Helper()
	s := &fake{options: append(options,
		kfake.NumBrokers(1), kfake.DataDir(t.TempDir()), kfake.GroupMinSessionTimeout(time.Second))}
	s.start(t)
	t.Cleanup(func() { s.cluster.Close() })
	return s
}

func (s *fake) start(t testing.TB) {
	t.Helper()
	options := s.options
	if s.address != "" {
		_, text, err := net.SplitHostPort(s.address)
		require.NoError(t, err)
		port, err := strconv.Atoi(text)
		require.NoError(t, err)
		options = append(slices.Clip(options), kfake.Ports(port))
	}
	require.Eventually(t, func() bool { // the port may not be free at once
		var err error
		s.cluster, err = kfake.NewCluster(options...)
		return err == nil
	}, 10*time.Second, 10*time.Millisecond)
	s.address = s.cluster.ListenAddrs()[0]
}

func (s *fake) restart(t testing.TB) {
	t.Helper()
	s.cluster.Close()
	s.start(t)
}

// fill makes the broker refuse to store anything: its disk is full.
func (s *fake) fill(testing.TB, string) (room func()) {
	var full atomic.Bool
	full.Store(true)
	s.cluster.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		s.cluster.KeepControl()
		if !full.Load() {
			return nil, nil, false
		}
		request := r.(*kmsg.ProduceRequest)
		answer := request.ResponseKind().(*kmsg.ProduceResponse)
		for _, topic := range request.Topics {
			refused := kmsg.NewProduceResponseTopic()
			refused.Topic, refused.TopicID = topic.Topic, topic.TopicID
			for _, p := range topic.Partitions {
				one := kmsg.NewProduceResponseTopicPartition()
				one.Partition, one.ErrorCode, one.BaseOffset = p.Partition, kerr.KafkaStorageError.Code, -1
				refused.Partitions = append(refused.Partitions, one)
			}
			answer.Topics = append(answer.Topics, refused)
		}
		return answer, nil, true
	})
	return func() { full.Store(false) }
}

func (s *fake) url() string { return "kafka://" + s.address }

// admin is a client with which an operator works.
func admin(t testing.TB, address string, options ...kgo.Opt) *kadm.Client {
	t.Helper()
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(strings.Split(address, ",")...), kgo.MetadataMinAge(10*time.Millisecond))...)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return kadm.NewClient(client)
}

// wipe deletes all topics of the prefix, as an operator's hand would.
func wipe(t testing.TB, address, prefix string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(address, ",")...))
	require.NoError(t, err)
	defer client.Close()
	a := kadm.NewClient(client)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	topics, err := a.ListTopics(ctx)
	require.NoError(t, err)
	var ours []string
	for _, name := range topics.Names() {
		if strings.HasPrefix(name, prefix) {
			ours = append(ours, name)
		}
	}
	if len(ours) == 0 {
		return
	}
	gone, err := a.DeleteTopics(ctx, ours...)
	require.NoError(t, err)
	require.NoError(t, gone.Error())
}

// purge removes all records of a topic.
func purge(t testing.TB, address, topic string) {
	t.Helper()
	a := admin(t, address)
	ends, err := a.ListEndOffsets(t.Context(), topic)
	require.NoError(t, err)
	removed, err := a.DeleteRecords(t.Context(), ends.Offsets())
	require.NoError(t, err)
	require.NoError(t, removed.Error())
}

// limit makes a topic that forgets by age, by size and by key.
func limit(t testing.TB, address, topic string) []string {
	t.Helper()
	limits := map[string]*string{
		"retention.ms": new("1000"), "retention.bytes": new("100"), "cleanup.policy": new("compact,delete"),
	}
	_, err := admin(t, address).CreateTopic(t.Context(), 1, 1, limits, topic)
	require.NoError(t, err)
	return slices.Collect(maps.Keys(limits))
}

// raw publishes on a topic, as who is not Duly would.
func raw(t testing.TB, address, topic string, body []byte) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(address, ",")...), kgo.ProducerBatchCompression(kgo.NoCompression()))
	require.NoError(t, err)
	defer client.Close()
	// One by one and as it is, so that each is a batch of its own.
	require.NoError(t, client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: body}).FirstErr())
}
