package kafkabus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/pkg/job"
)

// producerOptions are those of the client that publishes.
func (b *Bus) producerOptions() []kgo.Opt {
	return []kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()), // and idempotent, which is the default
		// A publish ends in time, whatever became of it: the outbox sends it again, and a
		// copy is stale to whoever receives it.
		kgo.AllowIdempotentProduceCancellation(),
		kgo.RecordDeliveryTimeout(2 * ackTimeout),
		kgo.ProduceRequestTimeout(ackTimeout),
		kgo.UnknownTopicRetries(1), // then the topic is made anew
		kgo.ProducerLinger(0),
		kgo.ProducerBatchMaxBytes(maxBatch),
		kgo.RecordPartitioner(b.spread),
	}
}

// parcel is a message on its way to the brokers.
type parcel struct {
	index   int // in the caller's messages and errors
	topic   topic
	message bus.Message
	id      string
}

// record is the parcel as it travels; each try needs its own.
func (p parcel) record(source string) *kgo.Record {
	return encodeRecord(p.message, p.topic, source, p.id)
}

// Publish sends the messages one behind the other, without waiting in between, and then
// waits until each is stored by all replicas that are in sync. Where a topic is gone, it
// is made anew and its messages are sent once more.
func (b *Bus) Publish(ctx context.Context, messages []bus.Message) []error {
	errs := make([]error, len(messages))
	parcels := make([]parcel, 0, len(messages))
	now := time.Now()
	for i, m := range messages {
		p, err := b.pack(m, now)
		if err != nil {
			errs[i] = fmt.Errorf("publishing message %q: %w", job.Storable(m.ID, bus.MaxID), err)
			b.metrics.publishErrors.WithLabelValues(labelOf(p.topic)).Inc()
			continue
		}
		p.index = i
		parcels = append(parcels, p)
	}
	b.send(ctx, parcels, errs)
	if again := b.restore(ctx, parcels, errs); len(again) > 0 {
		b.send(ctx, again, errs)
	}
	if again := tooLarge(parcels, errs); len(again) > 1 {
		for _, p := range again { // alone: a batch may have been too large, and not they
			b.send(ctx, []parcel{p}, errs)
		}
	}
	for _, p := range parcels {
		if errs[p.index] != nil {
			b.metrics.publishErrors.WithLabelValues(p.topic.label).Inc()
		} else {
			b.metrics.published.WithLabelValues(p.topic.label).Inc()
		}
	}
	return errs
}

func labelOf(t topic) string {
	if t.label == "" {
		return "none"
	}
	return t.label
}

// pack finds out where the message goes. The topic is returned with an error too.
func (b *Bus) pack(m bus.Message, now time.Time) (parcel, error) {
	t, err := b.route(m, now)
	if err != nil {
		return parcel{}, fmt.Errorf("%w: %w", bus.ErrUnsendable, err)
	}
	if len(m.ID) > bus.MaxID {
		return parcel{topic: t}, fmt.Errorf("%w: its id has %d bytes, at most %d are allowed", bus.ErrUnsendable, len(m.ID), bus.MaxID)
	}
	p := parcel{topic: t, message: m, id: m.ID}
	if p.id == "" {
		p.id = standIn(m, now, b.number())
	}
	if size := wireSize(p.record(b.options.Prefix)); size > maxBatch {
		return p, fmt.Errorf("%w: it has %d bytes with its headers, batches have at most %d", bus.ErrUnsendable, size, maxBatch)
	}
	return p, nil
}

func (b *Bus) number() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent++
	return b.sent
}

var errNoAnswer = fmt.Errorf("no acknowledgement came within %s", ackTimeout)

// send sends the parcels and sets the error of each, nil where it is stored.
func (b *Bus) send(ctx context.Context, parcels []parcel, errs []error) {
	ctx, cancel := context.WithTimeoutCause(ctx, ackTimeout, errNoAnswer)
	defer cancel()
	answers := newAnswers(len(parcels))
	for i, p := range parcels {
		err := ctx.Err()
		if b.ended() {
			err = bus.ErrClosed
		}
		if err != nil {
			answers.set(i, err)
			continue
		}
		b.client.Produce(ctx, p.record(b.options.Prefix), func(_ *kgo.Record, err error) { answers.set(i, err) })
	}
	select {
	case <-answers.complete:
	case <-ctx.Done():
	case <-b.closed:
	}
	for i, err := range answers.take() {
		if errors.Is(err, errOpen) {
			if err = context.Cause(ctx); err == nil {
				err = bus.ErrClosed
			}
		} else if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w (%w)", context.Cause(ctx), err)
		}
		errs[parcels[i].index] = publishError(parcels[i], err)
	}
}

// publishError says whether the message can ever be sent. Everything else may pass.
func publishError(p parcel, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.MessageTooLarge):
		err = fmt.Errorf("%w: %w", bus.ErrUnsendable, err)
	}
	return fmt.Errorf("publishing to %s: %w", p.topic.label, err)
}

// restore looks after the topics that are unknown, makes anew those that are gone, and
// returns the parcels to be sent again.
func (b *Bus) restore(ctx context.Context, parcels []parcel, errs []error) []parcel {
	var again []parcel
	looked := map[string]error{}
	for _, p := range parcels {
		if !isGone(errs[p.index]) {
			continue
		}
		err, seen := looked[p.topic.name]
		if !seen {
			_, err = b.ensure(ctx, b.closed, p.topic)
			looked[p.topic.name] = err
			b.client.PurgeTopicsFromClient(p.topic.name) // it would go on with the topic that it knew
		}
		if err != nil {
			errs[p.index] = publishError(p, err)
			continue
		}
		again = append(again, p)
	}
	return again
}

// isGone reports whether an error says that a topic, or one with this id, is not there.
func isGone(err error) bool {
	return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID)
}

// tooLarge are the parcels that a broker found too large.
func tooLarge(parcels []parcel, errs []error) []parcel {
	var found []parcel
	for _, p := range parcels {
		if errors.Is(errs[p.index], kerr.MessageTooLarge) {
			found = append(found, p)
		}
	}
	return found
}

// answers collect what became of records. What comes after take is not heard: the caller
// has gone.
type answers struct {
	complete chan struct{}

	mu   sync.Mutex
	errs []error
	open int
}

var errOpen = errors.New("not answered")

func newAnswers(n int) *answers {
	a := &answers{complete: make(chan struct{}), errs: make([]error, n), open: n}
	for i := range a.errs {
		a.errs[i] = errOpen
	}
	if n == 0 {
		close(a.complete)
	}
	return a
}

func (a *answers) set(i int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.errs == nil {
		return
	}
	a.errs[i] = err
	if a.open--; a.open == 0 {
		close(a.complete)
	}
}

func (a *answers) take() []error {
	a.mu.Lock()
	defer a.mu.Unlock()
	errs := a.errs
	a.errs = nil
	return errs
}

// Partitions are the partitions of the lane's topic: those that the brokers name now, and
// those that this client has published to, should an old answer lack them.
func (b *Bus) Partitions(ctx context.Context, lane string) ([]int32, error) {
	t, err := workTopic(b.options.Prefix, lane)
	if err != nil {
		return nil, err
	}
	if b.ended() {
		return nil, bus.ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	details, err := b.describe(ctx, []topic{t})
	if err == nil {
		err = details[t.name].Err
	}
	if err != nil {
		return nil, fmt.Errorf("asking for the partitions of topic %s: %w", t.name, err)
	}
	n := max(len(details[t.name].Partitions), b.spread.known(t.name))
	if err := b.learn(ctx, t, n); err != nil {
		return nil, err
	}
	partitions := make([]int32, n)
	for i := range partitions {
		partitions[i] = int32(i)
	}
	return partitions, nil
}

// learn waits until the client that publishes knows as many partitions, if it has
// published to the topic: it refuses a mark to one that it does not know.
func (b *Bus) learn(ctx context.Context, t topic, n int) error {
	knows := func(partition int) bool {
		leader, _, err := b.client.PartitionLeader(t.name, int32(partition)) //nolint:gosec // small
		return leader >= 0 || err != nil
	}
	for wait := settlePause; knows(0) && !knows(n-1); wait = min(2*wait, time.Second) {
		b.client.ForceMetadataRefresh()
		if err := bus.Pause(ctx, wait, b.closed); err != nil {
			return fmt.Errorf("learning of new partitions of topic %s: %w", t.name, err)
		}
	}
	return nil
}
