package httpchan

import (
	"errors"
	"net"
	"net/http/httptrace"
	"sync"
	"sync/atomic"

	"duly.dev/duly/internal/failpoint"
)

var (
	errRefused = errors.New("the effect may not begin")
	errOver    = errors.New("the attempt is over")
	errNobody  = errors.New("no attempt holds this connection")
)

// gate stands between one attempt and the connections that it is given. It calls
// begin before the first byte of the request, remembers whether any byte was
// written, and lets nothing through once the attempt is over.
type gate struct {
	begin func() error

	mu      sync.Mutex
	refused error
	writing bool
	written bool
	over    bool
	reused  bool
}

// passage is what came of an attempt at its gate.
type passage struct {
	// refused is why begin refused; nil if it did not.
	refused error
	// maybe is true if a byte of the request was written, or may have been.
	maybe bool
	// reused is true if the connection had served another request before.
	reused bool
}

// write writes p to the connection if the attempt may write.
func (g *gate) write(c net.Conn, p []byte) (int, error) {
	if err := g.enter(); err != nil {
		return 0, err
	}
	n, err := c.Write(p)
	failpoint.Pass(failpoint.HTTPSent)
	g.leave(n)
	return n, err
}

func (g *gate) enter() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over {
		return errOver
	}
	if !g.written {
		if g.refused = g.begin(); g.refused != nil {
			g.over = true
			return errRefused
		}
	}
	g.writing = true
	return nil
}

func (g *gate) leave(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.writing = false
	g.written = g.written || n > 0
}

// passed says what came of the attempt so far.
func (g *gate) passed() passage {
	g.mu.Lock()
	defer g.mu.Unlock()
	return passage{refused: g.refused, maybe: g.writing || g.written, reused: g.reused}
}

// close ends the attempt: what the transport still has to write stays unwritten.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
}

// trace binds each connection that the transport chooses for the attempt to its
// gate, before anything is written.
func (g *gate) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		g.mu.Lock()
		g.reused = info.Reused
		g.mu.Unlock()
		if c, ok := info.Conn.(*conn); ok {
			c.gate.Store(g)
		}
	}}
}

// conn is a connection whose writes pass the gate of the attempt that holds it. It
// is ready for requests: where there is TLS, it is inside.
type conn struct {
	net.Conn
	gate atomic.Pointer[gate]
}

// Write writes p at the gate of the attempt that holds the connection.
func (c *conn) Write(p []byte) (int, error) {
	g := c.gate.Load()
	if g == nil {
		return 0, errNobody
	}
	return g.write(c.Conn, p)
}
