package httpchan

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"
)

const (
	// idleSafe is how long an unused connection is kept where the receiver dedupes.
	idleSafe = 60 * time.Second
	// idleUnsafe is the same where it does not: each connection that the receiver
	// closes just as it is used again is an effect that nobody knows of.
	idleUnsafe = time.Second
	// maxIdle and maxIdlePerHost bound the connections that are kept unused.
	maxIdle, maxIdlePerHost = 2048, 512
	// maxDial bounds a dial whose attempt has gone; attempts have their limit.
	maxDial = 30 * time.Second
	// maxHeader is the largest header of a response, in bytes.
	maxHeader = 64 << 10
)

// tlsError says that no secure connection could be agreed on.
type tlsError struct{ err error }

func (e *tlsError) Error() string { return "agreeing on TLS: " + e.err.Error() }
func (e *tlsError) Unwrap() error { return e.err }

// dialer makes connections to addresses that the policy allows.
type dialer struct {
	net net.Dialer
	tls *tls.Config
}

func newDialer(p policy, cfg *tls.Config) *dialer {
	return &dialer{net: net.Dialer{Timeout: maxDial, Control: p.control}, tls: cfg}
}

func (d *dialer) plain(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := d.net.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c}, nil
}

func (d *dialer) secure(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("dialling %q: %w", address, err)
	}
	raw, err := d.net.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	cfg := d.tls.Clone()
	cfg.ServerName = host
	c := tls.Client(raw, cfg)
	if err := c.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, &tlsError{err}
	}
	return &conn{Conn: c}, nil
}

// newTransport speaks HTTP/1.1 and nothing else, through no proxy.
func newTransport(d *dialer, window time.Duration) *http.Transport {
	t := &http.Transport{
		DialContext:            d.plain,
		DialTLSContext:         d.secure,
		DisableCompression:     true,
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    maxIdlePerHost,
		MaxResponseHeaderBytes: maxHeader,
		IdleConnTimeout:        idleUnsafe,
		Protocols:              new(http.Protocols),
	}
	t.Protocols.SetHTTP1(true)
	if window > 0 {
		t.IdleConnTimeout = idleSafe
	}
	return t
}
