package httpchan_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/channel/httpchan"
	"duly.dev/duly/pkg/job"
)

// The trap that the package documents: a receiver that acts and then closes a
// connection that was used before. net/http would send a request with an
// Idempotency-Key again by itself.
func TestC43AReceiverThatActsAndClosesAUsedConnectionSeesOneRequest(t *testing.T) {
	t.Parallel()
	for name, window := range map[string]time.Duration{"no window": 0, "window": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var effects, connections atomic.Int32
			address := raw(t, func(c net.Conn, r *bufio.Reader) {
				connections.Add(1)
				for readRequest(r) {
					if effects.Add(1) == 2 {
						return
					}
					_, _ = io.WriteString(c, okAnswer)
				}
			})
			c := newChannel(t, local(), window)
			var n begun
			require.Equal(t, job.OutcomeDelivered, deliver(t, c, effect("http://"+address, &n)).Outcome)
			r := deliver(t, c, effect("http://"+address, &n))
			require.EqualValues(t, 1, connections.Load(), "the second request must have used the first one's connection")
			require.Equal(t, job.OutcomeUnknown, r.Outcome)
			require.Equal(t, job.CodeConnectionLost, r.Code)
			require.EqualValues(t, 2, effects.Load(), "one effect an attempt")
			require.EqualValues(t, 2, n.Load())
		})
	}
}

func TestAReceiverThatActsAndResetsIsUnknown(t *testing.T) {
	t.Parallel()
	var effects atomic.Int32
	address := raw(t, func(c net.Conn, r *bufio.Reader) {
		if readRequest(r) {
			effects.Add(1)
			_ = c.(*net.TCPConn).SetLinger(0)
		}
	})
	r := deliver(t, newChannel(t, local(), 0), effect("http://"+address, new(begun)))
	require.Equal(t, job.OutcomeUnknown, r.Outcome)
	require.Equal(t, job.CodeConnectionLost, r.Code)
	require.EqualValues(t, 1, effects.Load())
}

// dying is a receiver that resets its first connection, which served one request
// before, when it is told to; later ones live.
type dying struct {
	address              string
	connections, effects atomic.Int32
	die, dead            chan struct{}
}

func newDying(t *testing.T) *dying {
	t.Helper()
	d := &dying{die: make(chan struct{}), dead: make(chan struct{})}
	d.address = raw(t, func(c net.Conn, r *bufio.Reader) {
		first := d.connections.Add(1) == 1
		for readRequest(r) {
			d.effects.Add(1)
			_, _ = io.WriteString(c, okAnswer)
			if first {
				<-d.die
				_ = c.(*net.TCPConn).SetLinger(0)
				_ = c.Close()
				close(d.dead)
				return
			}
		}
	})
	return d
}

// kill makes sure that nothing more can be written to the first connection.
func (d *dying) kill() {
	close(d.die)
	<-d.dead
}

func TestAConnectionThatIsFoundDeadBeforeItsFirstByteIsReplacedOnce(t *testing.T) {
	t.Parallel()
	d := newDying(t)
	c := newChannel(t, local(), time.Hour)
	require.Equal(t, job.OutcomeDelivered, deliver(t, c, effect("http://"+d.address, new(begun))).Outcome)

	// It dies after it was chosen and before its first byte.
	var n begun
	e := effect("http://"+d.address, &n)
	e.Begin = func() error {
		if n.Add(1) == 1 {
			d.kill()
		}
		return nil
	}
	r := deliver(t, c, e)
	require.Equal(t, job.OutcomeDelivered, r.Outcome, r.Detail)
	require.EqualValues(t, 2, n.Load(), "Begin is asked again: the first byte has yet to come")
	require.EqualValues(t, 2, d.connections.Load())
	require.EqualValues(t, 2, d.effects.Load())
}

func TestAnAttemptThatBeganAndWroteNothingDidNotHappen(t *testing.T) {
	t.Parallel()
	d := newDying(t)
	c := newChannel(t, local(), time.Hour)
	require.Equal(t, job.OutcomeDelivered, deliver(t, c, effect("http://"+d.address, new(begun))).Outcome)

	var n begun
	e := effect("http://"+d.address, &n)
	e.Begin = func() error {
		if n.Add(1) == 1 {
			d.kill()
			return nil
		}
		return errors.New("the deadline has passed")
	}
	r := deliver(t, c, e)
	require.Equal(t, job.OutcomeFailed, r.Outcome, r.Detail)
	require.Equal(t, job.ClassTransient, r.Class)
	require.Contains(t, r.Detail, "the deadline has passed")
	require.EqualValues(t, 1, d.effects.Load())
}

func TestASlowReceiverIsUnknownAtTheLimit(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	ctx := newLimit(t)
	address := raw(t, func(_ net.Conn, r *bufio.Reader) {
		if readRequest(r) {
			ctx.end()
			<-release
		}
	})
	r := newChannel(t, local(), 0).Deliver(ctx, effect("http://"+address, new(begun)))
	require.Equal(t, job.OutcomeUnknown, r.Outcome)
	require.Equal(t, job.CodeTimeout, r.Code)
}

func TestALimitThatEndsInTheMiddleOfTheUploadIsUnknown(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	ctx := newLimit(t)
	address := raw(t, func(_ net.Conn, r *bufio.Reader) {
		_, _ = r.ReadByte()
		ctx.end()
		<-release
	})
	e := effect("http://"+address, new(begun))
	e.Payload = append(append([]byte(`"`), bytes.Repeat([]byte("a"), 32<<20)...), '"')
	r := newChannel(t, local(), 0).Deliver(ctx, e)
	require.Equal(t, job.OutcomeUnknown, r.Outcome)
	require.Equal(t, job.CodeTimeout, r.Code)
}

func TestALimitThatEndsBeforeTheFirstByteDidNotHappen(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	// It takes the connection and never answers the TLS handshake.
	address := raw(t, func(net.Conn, *bufio.Reader) { <-release })
	var n begun
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	r := newChannel(t, local(), 0).Deliver(ctx, effect("https://"+address, &n))
	require.Equal(t, job.OutcomeFailed, r.Outcome)
	require.Equal(t, job.ClassTransient, r.Class)
	require.Equal(t, job.CodeUnreachable, r.Code)
	require.Zero(t, n.Load())
}

func TestAnAttemptThatIsStoppedBeforeItsFirstByteNeverBegan(t *testing.T) {
	t.Parallel()
	release, arrived := make(chan struct{}), make(chan struct{}, 1)
	defer close(release)
	address := raw(t, func(net.Conn, *bufio.Reader) { arrived <- struct{}{}; <-release })
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	var n begun
	r := newChannel(t, local(), 0).Deliver(ctx, effect("https://"+address, &n))
	require.Equal(t, job.OutcomeNotBegun, r.Outcome)
	require.Zero(t, n.Load())
}

func TestAnAttemptThatIsStoppedAfterItsFirstByteIsUnknown(t *testing.T) {
	t.Parallel()
	release, acted := make(chan struct{}), make(chan struct{}, 1)
	defer close(release)
	address := raw(t, func(_ net.Conn, r *bufio.Reader) {
		if readRequest(r) {
			acted <- struct{}{}
			<-release
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-acted; cancel() }()
	r := newChannel(t, local(), 0).Deliver(ctx, effect("http://"+address, new(begun)))
	require.Equal(t, job.OutcomeUnknown, r.Outcome)
	require.Equal(t, job.CodeConnectionLost, r.Code)
}

// Begin may end the attempt itself: then nothing must follow, whatever the
// transport still had to write.
func TestNothingIsWrittenAfterTheAttemptIsOver(t *testing.T) {
	t.Parallel()
	got := make(chan int64, 1)
	address := raw(t, func(_ net.Conn, r *bufio.Reader) {
		n, _ := io.Copy(io.Discard, r)
		got <- n
	})
	ctx, cancel := context.WithCancel(t.Context())
	e := effect("http://"+address, new(begun))
	e.Begin = func() error { cancel(); return errors.New("the lease is over") }
	r := newChannel(t, local(), 0).Deliver(ctx, e)
	require.Equal(t, job.NotBegun("the lease is over"), r)
	require.Zero(t, <-got)
}

func TestBeginComesAfterTheConnectionAndBeforeTheFirstByte(t *testing.T) {
	t.Parallel()
	accepted, first := make(chan struct{}), make(chan struct{})
	address := raw(t, func(c net.Conn, r *bufio.Reader) {
		close(accepted)
		_, _ = r.Peek(1)
		close(first)
		readRequest(r)
		_, _ = io.WriteString(c, okAnswer)
	})
	e := effect("http://"+address, new(begun))
	e.Begin = func() error {
		<-accepted
		select {
		case <-first:
			return errors.New("a byte was written before")
		default:
			return nil
		}
	}
	require.Equal(t, job.OutcomeDelivered, deliver(t, newChannel(t, local(), 0), e).Outcome)
}

func TestADeliveryStandsOnItsStatusLineAlone(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"body breaks off":  "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nok",
		"body is garbage":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n",
		"no length at all": "HTTP/1.0 200 OK\r\n\r\nok",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := raw(t, func(c net.Conn, r *bufio.Reader) {
				readRequest(r)
				_, _ = io.WriteString(c, answer)
			})
			require.Equal(t, job.OutcomeDelivered, deliver(t, newChannel(t, local(), 0), effect("http://"+address, new(begun))).Outcome)
		})
	}
}

func TestAResponseThatNeverEndsIsADeliveryAtTheLimit(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	ctx := newLimit(t)
	// More than any buffer between the two holds: it has been read when it is written.
	const much = 32 << 20
	address := raw(t, func(c net.Conn, r *bufio.Reader) {
		readRequest(r)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
		_, _ = c.Write(make([]byte, much))
		ctx.end()
		<-release
	})
	cfg := local()
	cfg.MaxResponse = 2 * much
	r := newChannel(t, cfg, 0).Deliver(ctx, effect("http://"+address, new(begun)))
	require.Equal(t, job.OutcomeDelivered, r.Outcome, r.Detail)
}

func TestWithoutAWindowAnUnusedConnectionIsClosedSoon(t *testing.T) {
	t.Parallel()
	gone := make(chan error, 1)
	address := raw(t, func(c net.Conn, r *bufio.Reader) {
		readRequest(r)
		_, _ = io.WriteString(c, okAnswer)
		_, err := r.ReadByte()
		gone <- err
	})
	r := deliver(t, newChannel(t, local(), 0), effect("http://"+address, new(begun)))
	require.Equal(t, job.OutcomeDelivered, r.Outcome)
	require.ErrorIs(t, <-gone, io.EOF, "the channel is not closed yet; it hung up by itself")
}

func TestAnAnswerThatIsNotHTTPIsUnknown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer string
		code   job.Code
	}{
		"garbage":              {"\x00\xff no http at all\r\n\r\n", job.CodeUnexpectedAnswer},
		"headers break off":    {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n", job.CodeConnectionLost},
		"half a status line":   {"HTTP/1.1 2", job.CodeUnexpectedAnswer},
		"headers without end":  {"HTTP/1.1 200 OK\r\nX: " + string(bytes.Repeat([]byte("a"), 200<<10)) + "\r\n\r\n", job.CodeUnexpectedAnswer},
		"nothing":              {"", job.CodeConnectionLost},
		"switching protocols":  {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", job.CodeUnexpectedAnswer},
		"a status of its own":  {"HTTP/1.1 799 Odd\r\nContent-Length: 0\r\n\r\n", job.CodeUnexpectedAnswer},
		"a conflicting length": {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nok", job.CodeUnexpectedAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := raw(t, func(conn net.Conn, r *bufio.Reader) {
				readRequest(r)
				_, _ = io.WriteString(conn, c.answer)
			})
			r := deliver(t, newChannel(t, local(), 0), effect("http://"+address, new(begun)))
			require.Equal(t, job.OutcomeUnknown, r.Outcome)
			require.Equal(t, c.code, r.Code, r.Detail)
		})
	}
}

func TestAReceiverThatCannotBeReachedDidNotHappen(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	for _, url := range []string{"http://" + l.Addr().String(), "http://receiver.invalid/"} {
		var n begun
		r := deliver(t, newChannel(t, local(), 0), effect(url, &n))
		require.Equal(t, job.OutcomeFailed, r.Outcome)
		require.Equal(t, job.ClassTransient, r.Class)
		require.Equal(t, job.CodeUnreachable, r.Code)
		require.Zero(t, n.Load())
	}
}

func TestNoTLSMeansThatItDidNotHappen(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = discard()
	s.StartTLS()
	t.Cleanup(s.Close)
	plain := serve(t, func(http.ResponseWriter, *http.Request) {})
	for name, url := range map[string]string{
		"unknown authority": s.URL,
		"plain HTTP":        "https://" + plain.Listener.Addr().String(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var n begun
			r := deliver(t, newChannel(t, local(), 0), effect(url, &n))
			require.Equal(t, job.OutcomeFailed, r.Outcome)
			require.Equal(t, job.ClassTransient, r.Class)
			require.Equal(t, job.CodeTLS, r.Code)
			require.Zero(t, n.Load(), "Begin comes after the handshake")
		})
	}
}

func TestAReceiverWithACertificateOfACAFileIsReached(t *testing.T) {
	t.Parallel()
	var proto string
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { proto = r.Proto }))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	cfg := local()
	cfg.TLS = httpchan.TLSConfig{CAFile: certificateFile(t, s), MinVersion: "1.3"}
	c := newChannel(t, cfg, time.Hour)
	for range 3 {
		var n begun
		r := deliver(t, c, effect(s.URL, &n))
		require.Equal(t, job.OutcomeDelivered, r.Outcome, r.Detail)
		require.EqualValues(t, 1, n.Load())
	}
	require.Equal(t, "HTTP/1.1", proto, "HTTP/2 is offered and not taken")
}

func TestNoProxyIsTakenFromTheEnvironment(t *testing.T) { //nolint:paralleltest // the environment is the process's
	var proxied atomic.Int32
	proxy := serve(t, func(http.ResponseWriter, *http.Request) { proxied.Add(1) })
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	r := deliver(t, newChannel(t, local(), 0), effect("http://receiver.invalid/", new(begun)))
	require.Equal(t, job.CodeUnreachable, r.Code)
	require.Zero(t, proxied.Load())
}

// A test of what the package relies on: with GetBody the transport sends twice.
// If this ever fails, net/http has changed and the trap is gone.
func TestNetHTTPStillSendsAKeyedRequestTwiceWhenItHasGetBody(t *testing.T) {
	t.Parallel()
	var effects atomic.Int32
	address := raw(t, func(c net.Conn, r *bufio.Reader) {
		for readRequest(r) {
			if effects.Add(1) == 2 {
				return
			}
			_, _ = io.WriteString(c, okAnswer)
		}
	})
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	for range 2 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address, bytes.NewReader([]byte("{}")))
		require.NoError(t, err)
		req.Header.Set("Idempotency-Key", "k")
		resp, err := transport.RoundTrip(req)
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, resp.Body)
		require.NoError(t, resp.Body.Close())
	}
	require.EqualValues(t, 3, effects.Load(), "two requests, three effects")
}
