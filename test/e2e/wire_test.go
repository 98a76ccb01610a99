package e2e_test

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// wire is the way between a process and a server, which a test can cut or hold.
type wire struct {
	target   string
	address  string
	listener net.Listener
	postgres bool // what it carries is PostgreSQL's protocol
	links    sync.WaitGroup

	mu     sync.Mutex
	open   map[net.Conn]struct{}
	closed bool
	held   chan struct{} // not nil while nothing goes to the server; closed by release
	// lose decides about messages to PostgreSQL; nil passes everything on.
	lose func(statement string) loss
}

// loss is what is lost of one exchange with PostgreSQL.
type loss int

const (
	loseNothing loss = iota
	loseRequest      // the server never sees it
	loseReply        // the server does what it says, and nobody hears of it
)

// reserve returns an address on which nobody listens yet.
func reserve(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", anywhere)
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

// anywhere is an address that the system chooses.
const anywhere = "127.0.0.1:0"

// way makes a way, at the address, to the server at the URL. It ends with the rig.
func (r *rig) way(serverURL, address string) *wire {
	r.t.Helper()
	listener, err := net.Listen("tcp", address)
	require.NoError(r.t, err)
	server, err := url.Parse(serverURL)
	require.NoError(r.t, err)
	w := &wire{
		target: server.Host, address: listener.Addr().String(), listener: listener,
		postgres: server.Scheme == "postgres", open: map[net.Conn]struct{}{},
	}
	w.links.Go(w.accept)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wires = append(r.wires, w)
	return w
}

// through returns the server's URL with another address in place of its own.
func through(t *testing.T, serverURL, address string) string {
	t.Helper()
	parsed, err := url.Parse(serverURL)
	require.NoError(t, err)
	parsed.Host = address
	return parsed.String()
}

// hold keeps back all that goes to the server, until release. Nothing is closed: it is
// as if the network had swallowed it.
func (w *wire) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held == nil {
		w.held = make(chan struct{})
	}
}

func (w *wire) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held != nil {
		close(w.held)
		w.held = nil
	}
}

// loses decides what is lost of exchanges with PostgreSQL, by the statement.
func (w *wire) loses(decide func(statement string) loss) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lose = decide
}

// cut breaks every connection.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.open {
		_ = c.Close()
	}
}

func (w *wire) close() {
	_ = w.listener.Close()
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.release()
	w.cut()
	w.links.Wait()
}

func (w *wire) accept() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", w.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !w.keep(client, server) {
			continue
		}
		l := &link{wire: w, client: client, server: server, statements: map[string]string{}}
		w.links.Go(func() { defer l.close(); l.forward() })
		w.links.Go(func() { defer l.close(); l.back() })
	}
}

// keep notes connections that the end of the wire closes.
func (w *wire) keep(conns ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range conns {
		if w.closed {
			_ = c.Close()
			continue
		}
		w.open[c] = struct{}{}
	}
	return !w.closed
}

// pass waits while the wire is held.
func (w *wire) pass() {
	w.mu.Lock()
	held := w.held
	w.mu.Unlock()
	if held != nil {
		<-held
	}
}

func (w *wire) decide(statement string) loss {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lose == nil {
		return loseNothing
	}
	return w.lose(statement)
}

// link is one connection over the wire.
type link struct {
	wire           *wire
	client, server net.Conn
	started        bool              // PostgreSQL's start-up message has passed
	statements     map[string]string // prepared ones, by name

	mu      sync.Mutex
	mute    bool // what the server answers is lost from here on
	pending []byte
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
	l.wire.mu.Lock()
	defer l.wire.mu.Unlock()
	delete(l.wire.open, l.client)
	delete(l.wire.open, l.server)
}

// forward passes on what the client sends.
func (l *link) forward() {
	buffer := make([]byte, 64<<10)
	for {
		n, err := l.client.Read(buffer)
		if n > 0 {
			l.wire.pass()
			if !l.deliver(buffer[:n]) {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// deliver sends bytes to the server, unless the exchange that they belong to is to be
// lost. It is false when the link has ended.
func (l *link) deliver(b []byte) bool {
	switch l.judge(b) {
	case loseRequest:
		return false
	case loseReply:
		l.mu.Lock()
		l.mute = true
		l.mu.Unlock()
	case loseNothing:
	}
	_, err := l.server.Write(b)
	return err == nil
}

// judge reads PostgreSQL's messages out of the bytes and asks what is to be lost.
func (l *link) judge(b []byte) loss {
	if !l.wire.postgres {
		return loseNothing
	}
	worst := loseNothing
	l.pending = append(l.pending, b...)
	for {
		kind, body, rest, ok := l.message(l.pending)
		if !ok {
			return worst
		}
		l.pending = rest
		statement, _, _ := bytes.Cut(body, []byte{0})
		_, second, _ := bytes.Cut(body, []byte{0})
		second, _, _ = bytes.Cut(second, []byte{0})
		switch kind {
		case 'P': // Parse: the statement's name and text
			l.statements[string(statement)] = string(second)
		case 'B': // Bind: the portal, the statement's name
			worst = max(worst, l.wire.decide(l.statements[string(second)]))
		case 'Q': // Query: the text
			worst = max(worst, l.wire.decide(string(statement)))
		}
	}
}

// message cuts the first message off; the start-up message has no kind.
func (l *link) message(b []byte) (kind byte, body, rest []byte, ok bool) {
	head := 5
	if !l.started {
		head = 4
	}
	if len(b) < head {
		return 0, nil, nil, false
	}
	end := head - 4 + int(binary.BigEndian.Uint32(b[head-4:]))
	if end < head || len(b) < end {
		return 0, nil, nil, false
	}
	if l.started {
		kind = b[0]
	}
	l.started = true
	return kind, b[head:end], b[end:], true
}

// back passes on what the server sends. Once the link is mute it swallows the answer,
// to its end, and then breaks: what the answer speaks of is done.
func (l *link) back() {
	buffer := make([]byte, 64<<10)
	var swallowed []byte
	for {
		n, err := l.server.Read(buffer)
		l.mu.Lock()
		mute := l.mute
		l.mu.Unlock()
		switch {
		case mute:
			swallowed = append(swallowed, buffer[:n]...)
			if len(swallowed) >= 6 && bytes.HasSuffix(swallowed, []byte{'Z', 0, 0, 0, 5, 'I'}) {
				return
			}
		case n > 0:
			if _, err := l.client.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
