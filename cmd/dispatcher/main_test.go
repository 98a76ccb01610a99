package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/bus/natsbus"
	"duly.dev/duly/internal/devstack"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/ledger/ledgertest"
	"duly.dev/duly/pkg/job"
)

func TestMain(m *testing.M) { ledgertest.Main(m) }

const config = `
kinds:
  reminder:
    channel: go
`

// start runs the program in this process until the test ends.
func start(t *testing.T, databaseURL, busURL string, output io.Writer) (exit func() int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "duly.yaml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	ctx, cancel := context.WithCancel(context.Background())
	code := make(chan int, 1)
	go func() {
		program := app.Program{Name: "duly-dispatcher", Grammar: &grammar{}}
		code <- app.Exec(ctx, program, []string{"--database-url", databaseURL, "--bus-url", busURL, "--config", file}, io.Discard, output)
	}()
	exit = sync.OnceValue(func() int { cancel(); return <-code })
	t.Cleanup(func() { exit() })
	return exit
}

// syncBuffer is a buffer that is read while it is written.
type syncBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

var adminAddr = regexp.MustCompile(`"admin":"([^"]+)"`)

func TestWhatIsEnqueuedReachesTheBus(t *testing.T) {
	t.Parallel()
	nats, err := devstack.StartNATS(devstack.NATSOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, nats.Stop()) })
	databaseURL := ledgertest.URL(t)
	pool := ledgertest.Pool(t, databaseURL)
	l := ledger.New(pool)
	parsed, err := app.ParseConfig("duly.yaml", []byte(config))
	require.NoError(t, err)
	require.NoError(t, l.SyncKinds(t.Context(), parsed.Kinds()))
	made, err := l.Enqueue(t.Context(), pool, []job.Spec{{Kind: "reminder", Key: "a", Payload: []byte(`{}`)}})
	require.NoError(t, err)

	output := &syncBuffer{}
	exit := start(t, databaseURL, nats.URL(), output)
	b, err := natsbus.Connect(t.Context(), nats.URL(), natsbus.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	require.NoError(t, b.Ensure(t.Context(), parsed.LaneNames()))
	consumer, err := b.Consume(t.Context(), app.DefaultLane)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := consumer.Receive(ctx, 1)
	require.NoError(t, err, output.String())
	envelope, err := bus.DecodeEnvelope(got[0].Message().Body)
	require.NoError(t, err)
	require.Equal(t, []job.Ref{{Job: made[0].Job, Generation: 1, Emission: 1}}, envelope.Refs)
	require.NoError(t, got[0].Ack())

	address := adminAddr.FindStringSubmatch(output.String())
	require.NotEmpty(t, address, output.String())
	require.Eventually(t, func() bool { return status(t, "http://"+address[1]+"/readyz") == http.StatusOK }, time.Minute, 20*time.Millisecond)
	require.Zero(t, exit(), output.String())
	ok, err := l.ClaimTopic(t.Context(), app.DefaultLane, "00000000-0000-0000-0000-000000000001", time.Second)
	require.NoError(t, err)
	require.True(t, ok, "the topic was given up")
}

func status(t *testing.T, url string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode
}

func TestBusOfAnUnknownSchemeIsRefused(t *testing.T) {
	t.Parallel()
	output := &syncBuffer{}
	exit := start(t, ledgertest.URL(t), "amqp://127.0.0.1", output)
	require.Eventually(t, func() bool { return strings.Contains(output.String(), "amqp") }, time.Minute, 10*time.Millisecond)
	require.Equal(t, app.ExitUsage, exit(), output.String())
}
