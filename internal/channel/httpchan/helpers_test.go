package httpchan_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"duly.dev/duly/internal/channel"
	"duly.dev/duly/internal/channel/httpchan"
	"duly.dev/duly/pkg/job"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// generous is a limit that no healthy exchange of a test comes near.
const generous = 30 * time.Second

// local lets a channel reach the receivers of these tests.
func local() httpchan.Config {
	return httpchan.Config{AllowNetworks: []string{"127.0.0.0/8", "::1/128"}}
}

func newChannel(t testing.TB, cfg httpchan.Config, window time.Duration) *httpchan.Channel {
	t.Helper()
	c, err := httpchan.New(cfg, window)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// begun counts the calls of an effect's Begin.
type begun struct{ atomic.Int32 }

func effect(url string, n *begun) channel.Effect {
	return channel.Effect{
		Kind: "renewal-reminder", Key: "r-1", Destination: url, Payload: []byte(`{"customer": 1842}`),
		Generation: 1, Attempt: 3, EffectKey: job.WireEffectKey("renewal-reminder", "r-1", 1, httpchan.Name),
		TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		Begin:       func() error { n.Add(1); return nil },
	}
}

func deliver(t testing.TB, c *httpchan.Channel, e channel.Effect) job.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), generous)
	defer cancel()
	return c.Deliver(ctx, e)
}

// serve is an httptest server that is closed with the test, its connections too.
func serve(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// raw is a receiver that works on connections itself. handle is called for each,
// with a reader on it; the connection is closed when it returns.
func raw(t testing.TB, handle func(net.Conn, *bufio.Reader)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	open := make(chan net.Conn, 100)
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			open <- c
			go func() {
				defer func() { _ = c.Close() }()
				handle(c, bufio.NewReader(c))
			}()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
		close(open)
		for c := range open {
			_ = c.Close()
		}
	})
	return l.Addr().String()
}

// readRequest reads one whole request; the receiver has acted when it returns true.
func readRequest(r *bufio.Reader) bool {
	req, err := http.ReadRequest(r)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, req.Body)
	return err == nil
}

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// limit is a context that ends like one whose time is over, when a test says so.
type limit struct {
	context.Context
	over chan struct{}
	once sync.Once
}

func newLimit(t *testing.T) *limit { return &limit{Context: t.Context(), over: make(chan struct{})} }

func (l *limit) end() { l.once.Do(func() { close(l.over) }) }

func (l *limit) Done() <-chan struct{} { return l.over }

func (l *limit) Err() error {
	select {
	case <-l.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}
