package devstack

import (
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

func startNATS(t *testing.T, options NATSOptions) *NATS {
	t.Helper()
	n, err := StartNATS(options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Stop()) })
	return n
}

func connectNATS(t *testing.T, n *NATS) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(n.URL())
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	return js
}

func TestNATSKeepsItsStreamsInItsFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made", "on", "demand")
	for _, sync := range []bool{false, true} {
		n, err := StartNATS(NATSOptions{StoreDir: dir, SyncAlways: sync})
		require.NoError(t, err)
		js := connectNATS(t, n)
		_, err = js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "KEPT", Subjects: []string{"kept"}})
		require.NoError(t, err)
		_, err = js.Publish(t.Context(), "kept", []byte("one"))
		require.NoError(t, err)
		require.NoError(t, n.Stop())
		require.NoError(t, n.Stop(), "a second stop does nothing")
	}
	js := connectNATS(t, startNATS(t, NATSOptions{StoreDir: dir}))
	stream, err := js.Stream(t.Context(), "KEPT")
	require.NoError(t, err)
	require.EqualValues(t, 2, stream.CachedInfo().State.Msgs)
}

func TestNATSForgetsItsStreamsWithoutAFolder(t *testing.T) {
	t.Parallel()
	n, err := StartNATS(NATSOptions{})
	require.NoError(t, err)
	folder := n.server.StoreDir()
	require.DirExists(t, folder)
	require.NoError(t, n.Stop())
	require.NoDirExists(t, folder)
}

func TestNATSListensOnLoopback(t *testing.T) {
	t.Parallel()
	address, err := url.Parse(startNATS(t, NATSOptions{}).URL())
	require.NoError(t, err)
	require.Equal(t, "nats", address.Scheme)
	require.Equal(t, "127.0.0.1", address.Hostname())
}

func TestNATSComesBackAtItsPortAfterItsStorageIsGone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := StartNATS(NATSOptions{StoreDir: dir})
	require.NoError(t, err)
	require.NoError(t, first.Stop())
	require.NoError(t, os.RemoveAll(dir))
	second := startNATS(t, NATSOptions{StoreDir: dir, Port: first.Port()})
	require.Equal(t, first.URL(), second.URL())
}

func TestNATSRefusesASecondServerOnItsFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	startNATS(t, NATSOptions{StoreDir: dir})
	_, err := StartNATS(NATSOptions{StoreDir: dir})
	require.ErrorContains(t, err, "another server is using "+dir)
}

func TestNATSRefusesAPortThatIsTaken(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	require.NoError(t, err)
	defer listener.Close()
	_, err = StartNATS(NATSOptions{Port: listener.Addr().(*net.TCPAddr).Port})
	require.ErrorContains(t, err, "address already in use")
}

func TestNATSSaysWhyItCannotUseItsFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "jetstream"), []byte("a file"), 0o600))
	_, err := StartNATS(NATSOptions{StoreDir: dir})
	require.ErrorContains(t, err, "JetStream")
}

func TestNATSIsQuietWhenAllIsWell(t *testing.T) {
	t.Parallel()
	var quiet, chatty lockedBuffer
	n, err := StartNATS(NATSOptions{Log: slog.New(slog.NewJSONHandler(&quiet, nil))})
	require.NoError(t, err)
	require.NoError(t, n.Stop())
	require.Empty(t, quiet.String())

	debug := slog.NewJSONHandler(&chatty, &slog.HandlerOptions{Level: slog.LevelDebug})
	n, err = StartNATS(NATSOptions{Log: slog.New(debug)})
	require.NoError(t, err)
	require.NoError(t, n.Stop())
	require.Contains(t, chatty.String(), `"server":"nats"`)
	require.Contains(t, chatty.String(), `"level":"DEBUG"`)
}
