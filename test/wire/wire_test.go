package wire_test

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"duly.dev/duly/test/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is far more than anything takes.
const patience = 10 * time.Second

// echo is a server that sends back what it gets, line by line; its URL, and each line that it heard.
func echo(t *testing.T) (string, chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", wire.Anywhere)
	require.NoError(t, err)
	heard := make(chan string, 100)
	t.Cleanup(func() { require.NoError(t, listener.Close()) })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					heard <- lines.Text()
					_, _ = io.WriteString(conn, lines.Text()+"\n")
				}
			}()
		}
	}()
	return "nats://" + listener.Addr().String(), heard
}

func newWire(t *testing.T, url string) *wire.Wire {
	t.Helper()
	w, err := wire.New(url, wire.Anywhere)
	require.NoError(t, err)
	t.Cleanup(w.Close)
	return w
}

// client is a connection over a wire.
type client struct {
	t *testing.T
	net.Conn
	lines *bufio.Reader
}

func dial(t *testing.T, w *wire.Wire) *client {
	t.Helper()
	conn, err := net.Dial("tcp", w.Address())
	require.NoError(t, err)
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	t.Cleanup(func() { _ = conn.Close() })
	return &client{t, conn, bufio.NewReader(conn)}
}

func (c *client) say(line string) { _, _ = io.WriteString(c, line+"\n") }

func (c *client) hears(line string) {
	c.t.Helper()
	got, err := c.lines.ReadString('\n')
	require.NoError(c.t, err)
	require.Equal(c.t, line+"\n", got)
}

func (c *client) ends() {
	c.t.Helper()
	_, err := c.lines.ReadString('\n')
	require.Error(c.t, err)
	require.NotErrorIs(c.t, err, net.ErrClosed)
	var timeout net.Error
	require.False(c.t, isTimeout(err, &timeout), "%v", err)
}

func isTimeout(err error, as *net.Error) bool {
	netErr, ok := err.(net.Error) //nolint:errorlint // of the connection itself
	*as = netErr
	return ok && netErr.Timeout()
}

func TestWhatIsHeldArrivesLater(t *testing.T) {
	t.Parallel()
	url, heard := echo(t)
	w := newWire(t, url)
	c := dial(t, w)
	c.say("one")
	c.hears("one")
	<-heard
	w.Hold()
	c.say("two")
	select {
	case line := <-heard:
		require.Fail(t, "it was not held", line)
	case <-time.After(100 * time.Millisecond):
	}
	require.Equal(t, 1, w.Release())
	c.hears("two")
	require.Zero(t, w.Release(), "nothing was held since")
}

func TestABarredWireBreaksAndRefuses(t *testing.T) {
	t.Parallel()
	url, _ := echo(t)
	w := newWire(t, url)
	c := dial(t, w)
	c.say("one")
	c.hears("one")
	w.Bar(true)
	require.Equal(t, 1, w.Cut())
	c.ends()
	dial(t, w).ends()
	require.Equal(t, 1, w.Refused())
	w.Bar(false)
	c = dial(t, w)
	c.say("three")
	c.hears("three")
}

func TestASlowWireTakesLongerEachWay(t *testing.T) {
	t.Parallel()
	url, _ := echo(t)
	w := newWire(t, url)
	c := dial(t, w)
	const delay = 50 * time.Millisecond
	w.Delay(delay)
	began := time.Now()
	c.say("one")
	c.hears("one")
	require.GreaterOrEqual(t, time.Since(began), 2*delay)
}

// message is one of PostgreSQL's protocol.
func message(kind byte, body string) []byte {
	b := []byte{kind}
	b = binary.BigEndian.AppendUint32(b, uint32(4+len(body)))
	return append(b, body...)
}

// A server that answers each query with "ready", and tells of it.
func postgres(t *testing.T) (string, chan struct{}) {
	t.Helper()
	listener, err := net.Listen("tcp", wire.Anywhere)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, listener.Close()) })
	heard := make(chan struct{}, 100)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				buffer := make([]byte, 1024)
				for {
					if _, err := conn.Read(buffer); err != nil {
						return
					}
					heard <- struct{}{}
					if _, err := conn.Write(message('Z', "I")); err != nil {
						return
					}
				}
			}()
		}
	}()
	return "postgres://" + listener.Addr().String(), heard
}

func TestTheReplyToAStatementIsLostOrItsRequest(t *testing.T) {
	t.Parallel()
	url, heard := postgres(t)
	w := newWire(t, url)
	w.Lose(func(statement string) wire.Loss {
		switch statement {
		case "COMMIT":
			return wire.LoseReply
		case "DELETE":
			return wire.LoseRequest
		}
		return wire.LoseNothing
	})
	begin := func() *client {
		c := dial(t, w)
		_, err := c.Write(message('x', "start-up")[1:])
		require.NoError(t, err)
		<-heard
		_, err = io.ReadFull(c.lines, make([]byte, 6))
		require.NoError(t, err)
		return c
	}
	c := begin()
	_, err := c.Write(message('Q', "SELECT\x00"))
	require.NoError(t, err)
	<-heard
	_, err = io.ReadFull(c.lines, make([]byte, 6))
	require.NoError(t, err, "this is passed on")
	_, err = c.Write(append(message('P', "s1\x00COMMIT\x00"), message('B', "\x00s1\x00")...))
	require.NoError(t, err)
	<-heard
	_, err = c.lines.ReadByte()
	require.ErrorIs(t, err, io.EOF, "it was done, and nobody hears of it")

	c = begin()
	_, err = c.Write(message('Q', "DELETE\x00"))
	require.NoError(t, err)
	_, err = c.lines.ReadByte()
	require.ErrorIs(t, err, io.EOF)
	require.Empty(t, heard, "the server has not seen it")
}
