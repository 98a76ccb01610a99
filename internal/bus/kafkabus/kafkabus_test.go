package kafkabus_test

import (
	"context"
	"fmt"
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
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
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
				bustest.Run(t, func(t *testing.T) bustest.Broker { return useBroker(t, address, partitions) }, bustest.Restart)
				return
			}
			bustest.Run(t, func(t *testing.T) bustest.Broker { return startBroker(t, partitions) })
		})
	}
}

func startBroker(t *testing.T, partitions int) bustest.Broker {
	t.Helper()
	s := startFake(t)
	options := kafkabus.Options{SessionTimeout: sessionTimeout, Partitions: partitions}.Looking(2 * time.Second)
	return bustest.Broker{
		Connect:    func(t testing.TB) bus.Bus { return connect(t, s.url(), options) },
		Crash:      crash,
		Restart:    s.restart,
		Wipe:       func(t testing.TB) { wipe(t, s.address, "duly.") },
		Raw:        func(t testing.TB, lane string, body []byte) { raw(t, s.address, "duly.work."+lane, body) },
		Visibility: sessionTimeout, Log: true, Partitions: partitions,
	}
}

// prefixes keeps cases apart that share a broker.
var prefixes atomic.Int64

func useBroker(t *testing.T, address string, partitions int) bustest.Broker {
	t.Helper()
	prefix := fmt.Sprintf("test-%d-%d", time.Now().UnixMilli(), prefixes.Add(1))
	options := kafkabus.Options{Prefix: prefix, SessionTimeout: realTimeout, Partitions: partitions}.Looking(2 * time.Second)
	t.Cleanup(func() { wipe(t, address, prefix+".") })
	return bustest.Broker{
		Connect:    func(t testing.TB) bus.Bus { return connect(t, "kafka://"+address, options) },
		Crash:      crash,
		Wipe:       func(t testing.TB) { wipe(t, address, prefix+".") },
		Raw:        func(t testing.TB, lane string, body []byte) { raw(t, address, prefix+".work."+lane, body) },
		Visibility: realTimeout, Log: true, Partitions: partitions,
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

// raw publishes on a topic, as who is not Duly would.
func raw(t testing.TB, address, topic string, body []byte) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(address, ",")...))
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: body}).FirstErr())
}
