package natsbus_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/bus/natsbus"
	"duly.dev/duly/internal/devstack"
)

func TestConnectWaitsForTheServer(t *testing.T) {
	t.Parallel()
	s := startServer(t, devstack.NATSOptions{})
	url := s.running.URL()
	require.NoError(t, s.running.Stop())
	log := &record{waiting: make(chan struct{})}
	connected := make(chan error, 1)
	go func() {
		b, err := natsbus.Connect(t.Context(), url, natsbus.Options{Log: slog.New(log)})
		if err == nil {
			err = b.Healthy()
			_ = b.Close()
		}
		connected <- err
	}()
	<-log.waiting // it said that it waits
	s.start(t)
	require.NoError(t, <-connected)
}

func TestConnectEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := natsbus.Connect(ctx, "nats://user:sesame@127.0.0.1:1", natsbus.Options{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotContains(t, err.Error(), "sesame")
}

func TestConnectRefusesWhatCanNeverWork(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"kafka://localhost:9092":       `scheme "kafka"`,
		"nats://":                      "nats://host:port",
		"localhost:4222":               "nats://",
		"nats://user:sesame@[::1:4222": "not well-formed",
		"":                             "nats://host:port",
	} {
		_, err := natsbus.Connect(t.Context(), url, natsbus.Options{})
		require.ErrorContains(t, err, want, url)
		require.NotContains(t, err.Error(), "sesame")
	}
	_, err := natsbus.Connect(t.Context(), "nats://localhost:1", natsbus.Options{
		Prefix: "Bad Prefix", Replicas: 2, AckWait: time.Millisecond, DuplicateWindow: 1, DeadMaxAge: -1, CredsFile: "/does/not/exist",
	})
	for _, want := range []string{`prefix "Bad Prefix"`, "replicas 2", "ack wait 1ms", "duplicate window 1ns", "dead max age -1ns", "creds file"} {
		require.ErrorContains(t, err, want)
	}
}

func TestPasswordInTheURL(t *testing.T) {
	t.Parallel()
	running, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: t.TempDir(), Username: "duly", Password: "sesame",
	})
	require.NoError(t, err)
	running.Start()
	defer func() {
		running.Shutdown()
		running.WaitForShutdown()
	}()
	require.True(t, running.ReadyForConnections(30*time.Second))
	host := running.Addr().String()

	b, err := natsbus.Connect(t.Context(), "nats://duly:sesame@"+host, natsbus.Options{})
	require.NoError(t, err)
	require.NoError(t, b.Ensure(t.Context(), []string{"mail"}))
	require.NoError(t, b.Close())

	log := &record{waiting: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-log.waiting
		cancel()
	}()
	_, err = natsbus.Connect(ctx, "nats://duly:wrong-secret@"+host, natsbus.Options{Log: slog.New(log)})
	require.ErrorIs(t, err, context.Canceled)
	require.NotContains(t, log.text(), "wrong-secret")
	require.Contains(t, strings.ToLower(log.text()), "authorization violation")
}

func TestTLS(t *testing.T) {
	t.Parallel()
	certified := httptest.NewTLSServer(nil) // for its certificate of 127.0.0.1
	defer certified.Close()
	running, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: t.TempDir(), TLSConfig: &tls.Config{Certificates: certified.TLS.Certificates},
	})
	require.NoError(t, err)
	running.Start()
	defer func() {
		running.Shutdown()
		running.WaitForShutdown()
	}()
	require.True(t, running.ReadyForConnections(30*time.Second))

	roots := x509.NewCertPool()
	roots.AddCert(certified.Certificate())
	b, err := natsbus.Connect(t.Context(), "tls://"+running.Addr().String(), natsbus.Options{TLS: &tls.Config{RootCAs: roots}})
	require.NoError(t, err)
	require.NoError(t, b.Ensure(t.Context(), []string{"mail"}))
	require.NoError(t, b.Close())

	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = natsbus.Connect(ctx, "tls://"+running.Addr().String(), natsbus.Options{})
	require.Error(t, err, "its certificate is not trusted")
}

// record keeps what is logged and tells when something was.
type record struct {
	once    sync.Once
	waiting chan struct{}
	mu      sync.Mutex
	all     strings.Builder
}

func (r *record) Enabled(context.Context, slog.Level) bool { return true }
func (r *record) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *record) WithGroup(string) slog.Handler            { return r }

func (r *record) Handle(_ context.Context, line slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all.WriteString(line.Message)
	line.Attrs(func(a slog.Attr) bool {
		r.all.WriteString(" " + a.String())
		return true
	})
	r.all.WriteByte('\n')
	r.once.Do(func() { close(r.waiting) })
	return nil
}

func (r *record) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all.String()
}
