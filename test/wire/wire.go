// Package wire is the way between a process and a server, for tests that cut it, hold it,
// slow it down, or lose a reply on it.
//
// A Wire listens on this machine and passes everything on to one server, over as many links
// as clients ask for. It knows PostgreSQL's protocol as far as needed to see which statement
// a message carries, so that the reply to one exchange can be lost: the server does what it
// was told, and nobody hears of it.
package wire

import (
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"
)

// Wire is one way. It is safe for concurrent use.
type Wire struct {
	target   string
	listener net.Listener
	postgres bool // what it carries is PostgreSQL's protocol
	links    sync.WaitGroup

	mu      sync.Mutex
	open    map[net.Conn]struct{}
	closed  bool
	barred  bool          // new links are refused
	refused int           // since it was barred last
	delay   time.Duration // of everything, each way
	held    chan struct{} // not nil while nothing goes to the server; closed by Release
	holding int           // links that wait for that
	lose    func(statement string) Loss
}

// Loss is what is lost of one exchange with PostgreSQL.
type Loss int

const (
	// LoseNothing passes it on.
	LoseNothing Loss = iota
	// LoseRequest: the server never sees it.
	LoseRequest
	// LoseReply: the server does what it says, and nobody hears of it.
	LoseReply
)

// Anywhere is an address that the system chooses.
const Anywhere = "127.0.0.1:0"

// New makes a way, at the address, to the server at the URL. The caller must close it.
func New(serverURL, address string) (*Wire, error) {
	server, err := url.Parse(serverURL)
	if err != nil {
		return nil, fmt.Errorf("the URL of a server: %w", err)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("making a way to %s: %w", server.Host, err)
	}
	w := &Wire{target: server.Host, listener: listener, postgres: server.Scheme == "postgres", open: map[net.Conn]struct{}{}}
	w.links.Go(w.accept)
	return w, nil
}

// Address is where clients find it, as host:port.
func (w *Wire) Address() string { return w.listener.Addr().String() }

// Through is the server's URL with the wire's address in place of the server's own.
func (w *Wire) Through(serverURL string) (string, error) { return Through(serverURL, w.Address()) }

// Through is the server's URL with another address in place of its own.
func Through(serverURL, address string) (string, error) {
	parsed, err := url.Parse(serverURL)
	if err != nil {
		return "", fmt.Errorf("the URL of a server: %w", err)
	}
	parsed.Host = address
	return parsed.String(), nil
}

// Hold keeps back all that goes to the server, until Release. Nothing is closed: it is as if
// the network had swallowed it.
func (w *Wire) Hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held == nil {
		w.held = make(chan struct{})
	}
}

// Release lets everything through that was held, and returns how many links had something
// that was.
func (w *Wire) Release() (links int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	links, w.holding = w.holding, 0
	if w.held != nil {
		close(w.held)
		w.held = nil
	}
	return links
}

// Cut breaks every connection, and returns how many there were. New ones are made all the
// same.
func (w *Wire) Cut() (links int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.open {
		_ = c.Close()
	}
	return len(w.open) / 2
}

// Bar refuses new connections, or no longer.
func (w *Wire) Bar(barred bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if barred && !w.barred {
		w.refused = 0
	}
	w.barred = barred
}

// Refused is how many connections were refused since it was barred last.
func (w *Wire) Refused() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refused
}

// Delay slows everything down by d each way; 0 is no delay.
func (w *Wire) Delay(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delay = d
}

// Lose decides what is lost of exchanges with PostgreSQL, by the statement; nil loses
// nothing.
func (w *Wire) Lose(decide func(statement string) Loss) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lose = decide
}

// Close ends the wire and every link of it.
func (w *Wire) Close() {
	_ = w.listener.Close()
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.Release()
	w.Cut()
	w.links.Wait()
}

func (w *Wire) accept() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		server, err := w.dial()
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

func (w *Wire) dial() (net.Conn, error) {
	w.mu.Lock()
	barred := w.barred
	if barred {
		w.refused++
	}
	w.mu.Unlock()
	if barred {
		return nil, net.ErrClosed
	}
	return net.Dial("tcp", w.target)
}

// keep notes connections that the end of the wire closes.
func (w *Wire) keep(conns ...net.Conn) bool {
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

// pass waits while the wire is held, and for its delay.
func (w *Wire) pass() {
	w.mu.Lock()
	held := w.held
	if held != nil {
		w.holding++
	}
	w.mu.Unlock()
	if held != nil {
		<-held
	}
	w.linger()
}

// linger waits for the wire's delay.
func (w *Wire) linger() {
	w.mu.Lock()
	delay := w.delay
	w.mu.Unlock()
	if delay > 0 {
		<-time.After(delay)
	}
}

func (w *Wire) decide(statement string) Loss {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lose == nil {
		return LoseNothing
	}
	return w.lose(statement)
}
