package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
)

// proxy stands between clients and a server and counts what passes.
type proxy struct {
	listener net.Listener
	target   string
	// toServer and toClients are bytes.
	toServer, toClients atomic.Int64

	mu    sync.Mutex
	conns []net.Conn
	all   sync.WaitGroup
}

// startProxy makes one in front of the server at the URL, and returns the URL that leads
// through it.
func startProxy(ctx context.Context, target string) (*proxy, string, error) {
	address, err := url.Parse(target)
	if err != nil {
		return nil, "", fmt.Errorf("the server's address: %w", err)
	}
	p := &proxy{target: address.Host}
	var config net.ListenConfig
	if p.listener, err = config.Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return nil, "", fmt.Errorf("listening: %w", err)
	}
	address.Host = p.listener.Addr().String()
	p.all.Go(p.accept)
	return p, address.String(), nil
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // it was closed
		}
		server, err := net.Dial("tcp", p.target) //nolint:noctx // it ends with its client
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		p.all.Go(func() { pass(client, server, &p.toServer) })
		p.all.Go(func() { pass(server, client, &p.toClients) })
	}
}

// pass copies until either side ends, then ends both.
func pass(from, to net.Conn, passed *atomic.Int64) {
	_, _ = io.Copy(to, counting{from, passed})
	_, _ = from.Close(), to.Close()
}

// counting counts what is read.
type counting struct {
	io.Reader
	passed *atomic.Int64
}

// Read reads and counts.
func (c counting) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.passed.Add(int64(n))
	return n, err
}

// bytes is what has passed both ways.
func (p *proxy) bytes() int64 { return p.toServer.Load() + p.toClients.Load() }

// stop ends it and every connection.
func (p *proxy) stop() error {
	err := p.listener.Close()
	p.mu.Lock()
	for _, c := range p.conns {
		if e := c.Close(); e != nil && !errors.Is(e, net.ErrClosed) {
			err = errors.Join(err, e)
		}
	}
	p.mu.Unlock()
	p.all.Wait()
	return err
}
