package natsbus_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/bus/bustest"
	"duly.dev/duly/internal/bus/natsbus"
	"duly.dev/duly/internal/devstack"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ackWait is long enough for signs of life to keep up on a busy machine.
const ackWait = 3 * time.Second

func TestSuite(t *testing.T) {
	t.Parallel()
	bustest.Run(t, func(t *testing.T) bustest.Broker { return startBroker(t, natsbus.Options{AckWait: ackWait}) }, bustest.Damage)
}

// roomy is what the server of a case may store: more than any case needs, and soon full.
const roomy = 64 << 20

func startBroker(t *testing.T, options natsbus.Options) bustest.Broker {
	t.Helper()
	s := startServer(t, devstack.NATSOptions{MaxStore: roomy})
	return bustest.Broker{
		Connect:    func(t testing.TB) bus.Bus { return connect(t, s, options) },
		Crash:      func(_ testing.TB, b bus.Bus) { b.(*natsbus.Bus).Crash() },
		Restart:    s.restart,
		Wipe:       s.wipe,
		Raw:        s.raw,
		Purge:      s.purge,
		Limit:      s.limit,
		Fill:       s.fill,
		Visibility: options.AckWait,
	}
}

// testServer is a server that can be stopped and started on the same port and storage.
type testServer struct {
	options devstack.NATSOptions
	running *devstack.NATS
}

func startServer(t *testing.T, options devstack.NATSOptions) *testServer {
	t.Helper()
	options.StoreDir = t.TempDir()
	s := &testServer{options: options}
	s.start(t)
	s.options.Port = s.running.Port()
	t.Cleanup(func() { require.NoError(t, s.running.Stop()) })
	return s
}

func (s *testServer) start(t testing.TB) {
	t.Helper()
	var err error
	s.running, err = devstack.StartNATS(s.options)
	require.NoError(t, err)
}

func (s *testServer) restart(t testing.TB) {
	t.Helper()
	require.NoError(t, s.running.Stop())
	s.start(t)
}

// wipe deletes all streams, as an operator's hand would.
func (s *testServer) wipe(t testing.TB) {
	t.Helper()
	js := s.admin(t)
	names := js.StreamNames(t.Context())
	for name := range names.Name() {
		require.NoError(t, js.DeleteStream(t.Context(), name))
	}
	require.NoError(t, names.Err())
}

// raw publishes on the subject of a lane, as who is not Duly would.
func (s *testServer) raw(t testing.TB, lane string, body []byte) {
	t.Helper()
	_, err := s.admin(t).Publish(t.Context(), "duly.work."+lane, body)
	require.NoError(t, err)
}

// purge removes the messages of a lane and leaves its stream.
func (s *testServer) purge(t testing.TB, lane string) {
	t.Helper()
	stream, err := s.admin(t).Stream(t.Context(), "duly_work_"+lane)
	require.NoError(t, err)
	require.NoError(t, stream.Purge(t.Context()))
}

// limit makes the stream of a lane one that has limits, as C71 has them.
func (s *testServer) limit(t testing.TB, lane string) []string {
	t.Helper()
	_, err := s.admin(t).CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "duly_work_" + lane, Subjects: []string{"duly.work." + lane, "duly.retry." + lane + ".*"},
		MaxMsgs: 10, MaxBytes: 100, Discard: jetstream.DiscardNew,
	})
	require.NoError(t, err)
	return []string{"max_msgs", "max_bytes", "retention", "allow_msg_schedules"}
}

// fill stores a ballast until there is no room for anything else.
func (s *testServer) fill(t testing.TB, _ string) func() {
	t.Helper()
	admin := s.admin(t)
	ballast, err := admin.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ballast", Subjects: []string{"ballast"}})
	require.NoError(t, err)
	for _, size := range []int{900 << 10, 10 << 10, 1} { // so that nothing fits into what is left
		for err = nil; err == nil; {
			_, err = admin.Publish(t.Context(), "ballast", make([]byte, size))
		}
		var full *jetstream.APIError
		require.ErrorAs(t, err, &full)
	}
	return func() { require.NoError(t, ballast.Purge(t.Context())) }
}

// admin is a connection with which an operator works.
func (s *testServer) admin(t testing.TB) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(s.running.URL())
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	return js
}

func connect(t testing.TB, s *testServer, options natsbus.Options) *natsbus.Bus {
	t.Helper()
	b, err := natsbus.Connect(t.Context(), s.running.URL(), options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}
