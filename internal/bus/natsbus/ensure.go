package natsbus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"duly.dev/duly/internal/bus"
)

// minServer is the oldest server whose message schedules can be relied on.
var minServer = [3]int{2, 12, 5}

// Ensure creates the streams and consumers of the lanes and the stream of notices, or
// verifies those that exist. All that is unsafe is reported at once, each with
// bus.ErrUnsafe, the name of the setting, and what it must be.
func (b *Bus) Ensure(ctx context.Context, lanes []string) error {
	if err := checkServer(b.conn.ConnectedServerVersion()); err != nil {
		return err
	}
	var errs []error
	topics := []topic{deadTopic(b.options.Prefix)}
	for _, lane := range lanes {
		t, err := workTopic(b.options.Prefix, lane)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		topics = append(topics, t)
	}
	for _, t := range topics {
		if _, err := b.ensure(ctx, t, b.closed); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// place is where a topic's messages are received: its stream's consumer.
type place struct{ consumer *jetstream.ConsumerInfo }

// ensure finds or makes the stream and the consumer of the topic. Callers that want
// the same at the same time share one answer; each waits until its ctx ends or quit
// is closed.
func (b *Bus) ensure(ctx context.Context, t topic, quit <-chan struct{}) (place, error) {
	if err := b.Healthy(); err != nil {
		return place{}, err
	}
	answer := b.ensuring.DoChan(t.stream, func() (any, error) {
		asked, cancel := b.untilReconnect(apiTimeout)
		defer cancel()
		return b.findOrMake(asked, t)
	})
	select {
	case r := <-answer:
		return r.Val.(place), r.Err
	case <-ctx.Done():
		return place{}, ctx.Err()
	case <-quit:
		return place{}, bus.ErrClosed
	}
}

func (b *Bus) findOrMake(ctx context.Context, t topic) (place, error) {
	stream, err := b.findOrMakeStream(ctx, t)
	if err != nil {
		return place{}, fmt.Errorf("stream %s: %w", t.stream, err)
	}
	info, err := b.findOrMakeConsumer(ctx, t, stream)
	if err != nil {
		return place{}, fmt.Errorf("consumer of stream %s: %w", t.stream, err)
	}
	b.setKnownConsumer(t, info.Name)
	return place{consumer: info}, nil
}

func (b *Bus) findOrMakeStream(ctx context.Context, t topic) (jetstream.Stream, error) {
	stream, err := b.js.Stream(ctx, t.stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = b.makeStream(ctx, t)
	}
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // made by another process just now
		stream, err = b.js.Stream(ctx, t.stream)
	}
	if err != nil {
		return nil, err
	}
	if err := checkStream(t, stream.CachedInfo().Config); err != nil {
		return nil, err
	}
	return stream, nil
}

func (b *Bus) makeStream(ctx context.Context, t topic) (jetstream.Stream, error) {
	stream, err := b.js.CreateStream(ctx, b.streamConfig(t))
	if err != nil {
		return nil, err
	}
	if b.knownConsumer(t) != "" {
		b.metrics.recreated.WithLabelValues(t.label).Inc()
		b.options.Log.ErrorContext(ctx, "a stream was gone and was made anew; the ledger will find what was lost with it", "stream", t.stream)
	} else {
		b.options.Log.InfoContext(ctx, "made a stream", "stream", t.stream)
	}
	return stream, nil
}

// knownConsumer is the name of the topic's consumer when it was last seen, "" if it never
// was: what was seen and is gone was lost.
func (b *Bus) knownConsumer(t topic) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.known[t.stream]
}

func (b *Bus) setKnownConsumer(t topic, name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known[t.stream] = name
}

func (b *Bus) streamConfig(t topic) jetstream.StreamConfig {
	config := jetstream.StreamConfig{
		Name:       t.stream,
		Subjects:   t.subjects,
		Storage:    jetstream.FileStorage,
		Replicas:   b.options.Replicas,
		Discard:    jetstream.DiscardOld, // without a limit it discards nothing
		MaxMsgs:    -1,
		MaxBytes:   -1,
		Duplicates: b.options.DuplicateWindow,
	}
	if t.dead {
		config.Description = "Duly: notices of work that needs a person"
		config.Retention = jetstream.LimitsPolicy
		config.MaxAge = b.options.DeadMaxAge
		return config
	}
	config.Description = "Duly: references to work of one lane, and delayed ones"
	config.Retention = jetstream.WorkQueuePolicy
	config.AllowMsgSchedules = true
	config.AllowRollup = true // schedules need it
	config.AllowAtomicPublish = b.options.AtomicBatches
	return config
}

// findOrMakeConsumer returns the one consumer that the fleet shares. It is looked up,
// not named: what is there belongs to this stream, whatever creation time the server
// remembers for it.
func (b *Bus) findOrMakeConsumer(ctx context.Context, t topic, stream jetstream.Stream) (*jetstream.ConsumerInfo, error) {
	ours, others, err := listConsumers(ctx, t, stream)
	if err != nil {
		return nil, err
	}
	var floor uint64
	if ours != nil {
		if floor, err = aheadOf(ctx, stream, ours); err != nil {
			return nil, err
		}
		if floor == 0 {
			return ours, checkConsumer(ours.Name, ours.Config)
		}
		b.metrics.recreated.WithLabelValues(t.label).Inc()
		b.options.Log.ErrorContext(ctx, "a consumer is ahead of its stream, which lost its newest messages; it is made anew",
			"stream", t.stream, "consumer", ours.Name, "delivered", ours.Delivered.Stream, "last", floor)
		if err := stream.DeleteConsumer(ctx, ours.Name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return nil, err
		}
	}
	return b.makeConsumer(ctx, t, stream, floor, others)
}

func (b *Bus) makeConsumer(ctx context.Context, t topic, stream jetstream.Stream, floor uint64, others []string) (*jetstream.ConsumerInfo, error) {
	created, err := stream.CreateConsumer(ctx, b.consumerConfig(t, consumerName(stream.CachedInfo().Created, floor)))
	if err == nil {
		if info := created.CachedInfo(); info.Name == b.knownConsumer(t) {
			b.metrics.recreated.WithLabelValues(t.label).Inc()
			b.options.Log.WarnContext(ctx, "a consumer was gone and was made anew", "stream", t.stream, "consumer", info.Name)
		}
		return created.CachedInfo(), nil
	}
	// Another process, with other settings, may have been faster.
	if ours, _, listErr := listConsumers(ctx, t, stream); listErr == nil && ours != nil {
		return ours, checkConsumer(ours.Name, ours.Config)
	}
	if len(others) > 0 && !t.dead {
		err = fmt.Errorf("%w: consumers %s may take messages of %s away: delete them (%w)", bus.ErrUnsafe, strings.Join(others, ", "), t.subject, err)
	}
	return nil, err
}

func (b *Bus) consumerConfig(t topic, name string) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       name,
		Description:   "Duly: shared by all workers",
		FilterSubject: t.subject,
		DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       b.options.AckWait,
		MaxDeliver:    -1, // the ledger counts attempts
		MaxAckPending: -1, // the workers' slots are the limit
		MaxWaiting:    8192,
	}
}

// listConsumers returns Duly's consumer of the topic, if there is one, and the names of
// all others.
func listConsumers(ctx context.Context, t topic, stream jetstream.Stream) (ours *jetstream.ConsumerInfo, others []string, err error) {
	list := stream.ListConsumers(ctx)
	for info := range list.Info() {
		if strings.HasPrefix(info.Name, consumerPrefix) && info.Config.FilterSubject == t.subject {
			ours = info
		} else {
			others = append(others, info.Name)
		}
	}
	return ours, others, list.Err()
}

// aheadOf returns 0, or the stream's last sequence number if the consumer is past it. The
// server deals with that only in some cases; elsewhere the consumer would pass over
// whatever is published up to there.
func aheadOf(ctx context.Context, stream jetstream.Stream, c *jetstream.ConsumerInfo) (uint64, error) {
	if c.Delivered.Stream <= stream.CachedInfo().State.LastSeq {
		return 0, nil
	}
	// What is cached is older than the consumer's figure; only a newer one proves it.
	info, err := stream.Info(ctx)
	if err != nil || c.Delivered.Stream <= info.State.LastSeq {
		return 0, err
	}
	return max(1, info.State.LastSeq), nil
}

// checkServer refuses servers that are too old; what is after a hyphen is ignored.
func checkServer(version string) error {
	base, _, _ := strings.Cut(version, "-")
	parts := strings.Split(base, ".")
	var have [3]int
	for i := range min(len(parts), len(have)) {
		n, err := strconv.Atoi(parts[i])
		if err != nil {
			return fmt.Errorf("server version %q is not understood: 2.12.5 or newer is needed", version)
		}
		have[i] = n
	}
	if slices.Compare(have[:], minServer[:]) < 0 {
		return fmt.Errorf("%w: server version is %s, must be 2.12.5 or newer: message schedules, which delay retries, are not reliable before", bus.ErrUnsafe, version)
	}
	return nil
}
