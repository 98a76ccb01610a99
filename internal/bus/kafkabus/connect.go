package kafkabus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/singleflight"

	"duly.dev/duly/internal/bus"
)

const (
	dialTimeout  = 5 * time.Second
	apiTimeout   = 10 * time.Second // one question about topics, settings or offsets
	ackTimeout   = 5 * time.Second  // the acknowledgement of a publish
	leaveTimeout = 2 * time.Second  // leaving a group, and the last commit before it
	pingEvery    = 5 * time.Second  // while the brokers answer
	pingSoon     = time.Second      // while they do not
	maxRetryWait = 10 * time.Second // the longest pause between two tries of anything
)

// Bus is a connection to a Kafka cluster. It implements bus.Bus and bus.Mover.
type Bus struct {
	options Options
	hosts   string // without credentials
	brokers []string
	client  *kgo.Client // produces and asks; consumers have clients of their own
	admin   *kadm.Client
	spread  *spread
	metrics *metrics
	tiers   []topic

	ensuring singleflight.Group
	work     sync.WaitGroup // goroutines that Close waits for
	closing  sync.Once
	closed   chan struct{}
	ctx      context.Context //nolint:containedctx // of what outlasts its callers; ends with the bus
	cancel   context.CancelFunc

	mu      sync.Mutex
	down    error // why the brokers cannot be reached, nil while they can
	known   map[string]kadm.TopicID
	topics  map[string]topic
	members map[string]*member
	sent    uint64 // numbers what has no id
}

var (
	_ bus.Bus   = (*Bus)(nil)
	_ bus.Mover = (*Bus)(nil)
)

// Connect connects to a Kafka cluster of version 2.8 or newer:
//
//	kafka://[user:password@]host:port[,host:port…][?tls=true&sasl=scram-sha-512&…]
//
// The settings behind the question mark are sasl (plain, scram-sha-256 or scram-sha-512,
// the default where there is a user), tls (true or false), ca_file, cert_file and
// key_file (PEM), partitions and replicas of topics that are created. Others are refused.
// While no broker answers, it tries again, with growing pauses, until ctx ends, and logs
// that it waits. Later losses of connections are repaired by themselves.
func Connect(ctx context.Context, address string, options Options) (*Bus, error) {
	brokers, options, err := parseURL(address, options)
	if err == nil {
		options, err = options.withDefaults()
	}
	if err != nil {
		return nil, fmt.Errorf("connecting to Kafka: %w: %w", ErrSettings, err)
	}
	b := &Bus{
		options: options,
		hosts:   strings.Join(brokers, ","),
		brokers: brokers,
		spread:  newSpread(),
		metrics: newMetrics(options.Metrics),
		tiers:   delayTopics(options.Prefix),
		closed:  make(chan struct{}),
		known:   map[string]kadm.TopicID{},
		topics:  map[string]topic{},
		members: map[string]*member{},
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	if b.client, err = kgo.NewClient(append(b.clientOptions(), b.producerOptions()...)...); err != nil {
		b.cancel()
		return nil, fmt.Errorf("connecting to Kafka at %s: %w", b.hosts, err)
	}
	b.admin = kadm.NewClient(b.client)
	if err := b.reach(ctx); err != nil {
		b.cancel()
		b.client.Close()
		return nil, fmt.Errorf("connecting to Kafka at %s: %w", b.hosts, err)
	}
	b.work.Go(b.watch)
	return b, nil
}

// clientOptions are those of every client.
func (b *Bus) clientOptions() []kgo.Opt {
	o := b.options
	options := []kgo.Opt{
		kgo.SeedBrokers(b.brokers...),
		kgo.ClientID(o.Name),
		kgo.WithLogger(logger{o.Log}),
		kgo.DialTimeout(dialTimeout),
		kgo.MetadataMaxAge(o.tune.look),
		kgo.MetadataMinAge(min(500*time.Millisecond, o.tune.look)),
		kgo.DisableClientMetrics(),
		kgo.MaxDecompressBatchBytes(maxInflated),
		kgo.AlwaysRetryEOF(),
	}
	if o.TLS != nil {
		options = append(options, kgo.DialTLSConfig(o.TLS.Clone()))
	}
	if o.sasl != nil {
		options = append(options, kgo.SASL(o.sasl))
	}
	return append(options, o.tune.extra...)
}

// reach waits until a broker answers.
func (b *Bus) reach(ctx context.Context) error {
	try := func() error {
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		return b.client.Ping(ctx)
	}
	waiting := func(err error, wait time.Duration) {
		b.options.Log.WarnContext(ctx, "waiting for Kafka", "hosts", b.hosts, "error", err, "next_in", wait)
	}
	return backoff.RetryNotify(try, backoff.WithContext(newBackoff(), ctx), waiting)
}

// newBackoff is for everything that is tried until it works.
func newBackoff() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(100*time.Millisecond),
		backoff.WithMaxInterval(maxRetryWait),
		backoff.WithMaxElapsedTime(0))
}

// watch asks the brokers for a sign of life until the bus is closed: a client that has
// nothing to do would not notice that they are gone.
func (b *Bus) watch() {
	wait := pingEvery
	for bus.Pause(b.ctx, wait, b.closed) == nil {
		ctx, cancel := context.WithTimeout(b.ctx, dialTimeout)
		err := b.client.Ping(ctx)
		cancel()
		if b.ended() {
			return
		}
		wait = pingEvery
		if err != nil {
			wait = pingSoon
		}
		b.note(err)
	}
}

// note remembers whether the brokers can be reached, and logs a change.
func (b *Bus) note(err error) {
	b.mu.Lock()
	before := b.down
	b.down = err
	b.mu.Unlock()
	switch {
	case err != nil && before == nil:
		b.options.Log.Warn("no broker of Kafka answers", "hosts", b.hosts, "error", err)
	case err == nil && before != nil:
		b.options.Log.Info("Kafka answers again", "hosts", b.hosts)
	}
}

// MaxMessage is the largest body that goes into a batch, beside Duly's headers.
func (b *Bus) MaxMessage() int { return maxBatch - headerAllowance }

// Healthy is nil while a broker answers and the groups of all consumers can be joined.
func (b *Bus) Healthy() error {
	if b.ended() {
		return bus.ErrClosed
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down != nil {
		return fmt.Errorf("no broker of Kafka at %s answers: %w", b.hosts, b.down)
	}
	var errs []error
	for _, m := range b.members {
		errs = append(errs, m.healthy())
	}
	return errors.Join(errs...)
}

// Close ends consumers, commits what was acknowledged, leaves the consumer groups, so
// that what was not goes to others at once, and closes all connections. While brokers do
// not answer it takes a few seconds.
func (b *Bus) Close() error {
	b.end((*session).leave)
	return nil
}

// end closes the bus and ends each session as is asked.
func (b *Bus) end(how func(*session)) {
	b.closing.Do(func() {
		b.mu.Lock()
		close(b.closed)
		members := make([]*member, 0, len(b.members))
		for _, m := range b.members {
			members = append(members, m)
		}
		b.mu.Unlock()
		var ending sync.WaitGroup
		for _, m := range members {
			if s := m.detach(nil); s != nil {
				ending.Go(func() { how(s) })
			}
		}
		ending.Wait()
		b.cancel()
		b.client.Close()
		b.work.Wait()
	})
}

func (b *Bus) ended() bool {
	select {
	case <-b.closed:
		return true
	default:
		return false
	}
}

// logger passes on what the client library says. It tells of every step, which is of use
// only to who looks for a fault.
type logger struct{ log *slog.Logger }

// Level asks for all that is shown.
func (l logger) Level() kgo.LogLevel {
	switch ctx := context.Background(); {
	case l.log.Enabled(ctx, slog.LevelDebug):
		return kgo.LogLevelInfo
	case l.log.Enabled(ctx, slog.LevelWarn):
		return kgo.LogLevelWarn
	default:
		return kgo.LogLevelError
	}
}

// Log logs a line of the library; its errors are ours only if they last.
func (l logger) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	to := slog.LevelDebug
	if level == kgo.LogLevelError || level == kgo.LogLevelWarn {
		to = slog.LevelWarn
	}
	l.log.Log(context.Background(), to, "Kafka's client", append([]any{"says", msg}, keyvals...)...)
}
