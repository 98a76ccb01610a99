package natsbus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/singleflight"

	"duly.dev/duly/internal/bus"
)

const (
	dialTimeout  = 5 * time.Second
	apiTimeout   = 10 * time.Second // one question to the server about streams and consumers
	ackTimeout   = 5 * time.Second  // the server's acknowledgement of a publish
	flushTimeout = 2 * time.Second  // acknowledgements on their way at Close
	pingInterval = 10 * time.Second // a dead connection is noticed after two
	maxRetryWait = 10 * time.Second // the longest pause between two tries of anything
	maxUnacked   = 4096             // messages on their way to the server, of all publishers of a Bus
)

// Bus is a connection to a NATS server. It implements bus.Bus.
type Bus struct {
	options Options
	conn    *nats.Conn
	js      jetstream.JetStream
	metrics *metrics
	out     *keeper

	ensuring singleflight.Group
	work     sync.WaitGroup // goroutines that Close waits for
	closing  sync.Once
	closed   chan struct{}

	mu          sync.Mutex
	reconnected chan struct{}     // closed, and replaced, at every reconnection
	known       map[string]string // the consumer that a stream had when it was last seen
	consumers   map[*consumer]struct{}
}

var _ bus.Bus = (*Bus)(nil)

// Connect connects to a NATS server or cluster:
//
//	nats://[user:password@]host:port[,nats://host:port…]    (tls:// for TLS)
//
// While no server answers, it tries again, with growing pauses, until ctx ends, and
// logs that it waits. Later losses of the connection are repaired by themselves.
// Settings that can never work fail at once.
func Connect(ctx context.Context, serverURL string, options Options) (*Bus, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("connecting to NATS: %w", err)
	}
	hosts, err := checkURL(serverURL)
	if err != nil {
		return nil, fmt.Errorf("connecting to NATS: %w", err)
	}
	b := &Bus{
		options:     options,
		metrics:     newMetrics(options.Metrics),
		closed:      make(chan struct{}),
		reconnected: make(chan struct{}),
		known:       map[string]string{},
		consumers:   map[*consumer]struct{}{},
	}
	if b.conn, err = b.dial(ctx, serverURL, hosts); err != nil {
		return nil, fmt.Errorf("connecting to NATS at %s: %w", hosts, err)
	}
	b.js, err = jetstream.New(b.conn,
		jetstream.WithPublishAsyncMaxPending(maxUnacked),
		jetstream.WithPublishAsyncTimeout(ackTimeout),
		jetstream.WithDefaultTimeout(apiTimeout))
	if err != nil {
		b.conn.Close()
		return nil, fmt.Errorf("connecting to NATS at %s: %w", hosts, err)
	}
	b.out = newKeeper(b.conn, options.AckWait)
	b.work.Go(b.out.run)
	return b, nil
}

// checkURL returns the hosts of the URL, without credentials.
func checkURL(serverURL string) (hosts string, err error) {
	var list []string
	for part := range strings.SplitSeq(serverURL, ",") {
		u, err := url.Parse(strings.TrimSpace(part))
		if err != nil {
			// The parse error repeats the text, which may hold a password.
			return "", errors.New("the URL is not well-formed: nats://[user:password@]host:port[,…] is expected")
		}
		if u.Scheme != "nats" && u.Scheme != "tls" || u.Hostname() == "" {
			return "", fmt.Errorf("scheme %q, host %q: nats://host:port or tls://host:port is expected", u.Scheme, u.Host)
		}
		list = append(list, u.Host)
	}
	return strings.Join(list, ","), nil
}

// dial connects, with patience.
func (b *Bus) dial(ctx context.Context, serverURL, hosts string) (*nats.Conn, error) {
	var conn *nats.Conn
	try := func() error {
		var err error
		conn, err = nats.Connect(serverURL, b.connOptions()...)
		return err
	}
	waiting := func(err error, wait time.Duration) {
		b.options.Log.WarnContext(ctx, "waiting for NATS", "hosts", hosts, "error", err, "next_in", wait)
	}
	if err := backoff.RetryNotify(try, backoff.WithContext(newBackoff(), ctx), waiting); err != nil {
		return nil, err
	}
	return conn, nil
}

// newBackoff is for everything that is tried until it works.
func newBackoff() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(100*time.Millisecond),
		backoff.WithMaxInterval(maxRetryWait),
		backoff.WithMaxElapsedTime(0))
}

func (b *Bus) connOptions() []nats.Option {
	log := b.options.Log
	options := []nats.Option{
		nats.Name(b.options.Name),
		nats.Timeout(dialTimeout),
		nats.PingInterval(pingInterval),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // credentials may be repaired at the server
		nats.CustomReconnectDelay(reconnectDelay),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("lost the connection to NATS", "error", err)
			}
		}),
		nats.ReconnectHandler(func(c *nats.Conn) {
			log.Info("connected to NATS again", "server", c.ConnectedServerName())
			b.announceReconnect()
		}),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) {
			log.Error("NATS reported an error", "error", err, "subscribed", s != nil)
		}),
	}
	if b.options.CredsFile != "" {
		options = append(options, nats.UserCredentials(b.options.CredsFile))
	}
	if b.options.TLS != nil {
		options = append(options, nats.Secure(b.options.TLS))
	}
	return options
}

// reconnectDelay is the pause after all servers of the list were tried once more;
// random, so that a fleet does not come back as one.
func reconnectDelay(attempts int) time.Duration {
	wait := min(time.Duration(attempts)*200*time.Millisecond, 5*time.Second)
	return wait/2 + rand.N(wait/2+time.Millisecond)
}

func (b *Bus) announceReconnect() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.reconnected)
	b.reconnected = make(chan struct{})
}

// nextReconnect is closed at the next reconnection.
func (b *Bus) nextReconnect() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reconnected
}

// untilReconnect is the context of questions to the server: what was asked before a
// reconnection may never be answered.
func (b *Bus) untilReconnect(limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	reconnected := b.nextReconnect()
	go func() {
		select {
		case <-reconnected:
			cancel()
		case <-b.closed:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// MaxMessage is the largest body that the server takes, beside Duly's headers.
func (b *Bus) MaxMessage() int { return int(b.conn.MaxPayload()) - headerAllowance }

// Healthy is nil while the connection is up.
func (b *Bus) Healthy() error {
	if status := b.conn.Status(); status != nats.CONNECTED {
		return fmt.Errorf("the connection to NATS is %s", strings.ToLower(status.String()))
	}
	return nil
}

// Close ends consumers, gives back what was neither acknowledged nor released, and
// closes the connection once the server has heard all of it (at most 2 s).
func (b *Bus) Close() error {
	b.closing.Do(func() {
		close(b.closed)
		b.mu.Lock()
		consumers := make([]*consumer, 0, len(b.consumers))
		for c := range b.consumers {
			consumers = append(consumers, c)
		}
		b.mu.Unlock()
		for _, c := range consumers {
			c.end()
		}
		b.out.stop()
		b.work.Wait()
		if b.conn.IsConnected() {
			_ = b.conn.FlushTimeout(flushTimeout) // what is not heard comes again after AckWait
		}
		b.conn.Close()
	})
	return nil
}
