package natsbus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/pkg/job"
)

// parcel is a message on its way to the server.
type parcel struct {
	index int // in the caller's messages and errors
	topic topic
	msg   *nats.Msg
}

// Publish sends the messages one behind the other, without waiting in between, and then
// waits for the acknowledgements. Where a stream is gone, it is made anew and its
// messages are sent once more.
func (b *Bus) Publish(ctx context.Context, messages []bus.Message) []error {
	errs := make([]error, len(messages))
	parcels := make([]parcel, 0, len(messages))
	for i, m := range messages {
		p, err := b.pack(m)
		if err != nil {
			errs[i] = fmt.Errorf("publishing message %q: %w", job.Storable(m.ID, bus.MaxID), err)
			b.metrics.publishErrors.WithLabelValues(p.topic.label).Inc()
			continue
		}
		p.index = i
		parcels = append(parcels, p)
	}
	b.send(ctx, parcels, errs)
	if again := b.restore(ctx, parcels, errs); len(again) > 0 {
		b.send(ctx, again, errs)
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

// Partitions is always partition 0: a stream keeps one order.
func (b *Bus) Partitions(context.Context, string) ([]int32, error) { return []int32{0}, nil }

// pack makes the message as it travels. The topic is returned with an error too.
func (b *Bus) pack(m bus.Message) (parcel, error) {
	t, err := topicOf(b.options.Prefix, m)
	if err != nil {
		return parcel{topic: topic{label: "none"}}, fmt.Errorf("%w: %w", bus.ErrUnsendable, err)
	}
	if len(m.ID) > bus.MaxID {
		return parcel{topic: t}, fmt.Errorf("%w: its id has %d bytes, at most %d are allowed", bus.ErrUnsendable, len(m.ID), bus.MaxID)
	}
	id := m.ID
	if id == "" {
		id = nuid.Next()
	}
	msg := &nats.Msg{Subject: t.subject, Header: encodeHeader(m, b.options.Prefix, id), Data: m.Body}
	if m.ID != "" {
		msg.Header[jetstream.MsgIDHeader] = []string{encodeValue(m.ID)}
	}
	if m.Type == bus.TypeWork && m.At.After(time.Now()) {
		msg.Subject = t.scheduleSubject(id)
		msg.Header[scheduleHeader] = []string{"@at " + m.At.UTC().Format(time.RFC3339Nano)}
		msg.Header[scheduleTargetHeader] = []string{t.subject}
	}
	if size, most := wireSize(msg), int(b.conn.MaxPayload()); size > most {
		return parcel{topic: t}, fmt.Errorf("%w: it has %d bytes with its headers, the server takes at most %d", bus.ErrUnsendable, size, most)
	}
	return parcel{topic: t, msg: msg}, nil
}

const (
	scheduleHeader       = "Nats-Schedule"
	scheduleTargetHeader = "Nats-Schedule-Target"
)

// send sends the parcels and sets the error of each, nil where it is stored.
func (b *Bus) send(ctx context.Context, parcels []parcel, errs []error) {
	if err := b.Healthy(); err != nil {
		for _, p := range parcels {
			errs[p.index] = fmt.Errorf("publishing to %s: %w", p.topic.label, err)
		}
		return
	}
	if b.options.AtomicBatches {
		parcels = b.sendBatches(ctx, parcels, errs)
	}
	b.sendSingly(ctx, parcels, errs)
}

func (b *Bus) sendSingly(ctx context.Context, parcels []parcel, errs []error) {
	acks := make([]jetstream.PubAckFuture, len(parcels))
	for i, p := range parcels {
		var err error
		if err = ctx.Err(); err == nil {
			acks[i], err = b.js.PublishMsgAsync(p.msg, jetstream.WithRetryAttempts(0), jetstream.WithStallWait(ackTimeout))
		}
		if err != nil {
			errs[p.index] = publishError(p, err)
		}
	}
	for i, p := range parcels {
		if acks[i] == nil {
			continue
		}
		errs[p.index] = nil
		select {
		case ack := <-acks[i].Ok():
			b.countDuplicate(p, ack.Duplicate)
		case err := <-acks[i].Err():
			errs[p.index] = publishError(p, err)
		case <-ctx.Done():
			errs[p.index] = publishError(p, ctx.Err())
		}
	}
}

// countDuplicate counts what the server already had: it is stored, or was.
func (b *Bus) countDuplicate(p parcel, duplicate bool) {
	if duplicate {
		b.metrics.duplicates.WithLabelValues(p.topic.label).Inc()
	}
}

// restore looks after the streams that gave no answer, makes anew those that are gone,
// and returns the parcels to be sent again.
func (b *Bus) restore(ctx context.Context, parcels []parcel, errs []error) []parcel {
	var again []parcel
	looked := map[string]error{}
	for _, p := range parcels {
		if !errors.Is(errs[p.index], jetstream.ErrNoStreamResponse) {
			continue
		}
		err, seen := looked[p.topic.stream]
		if !seen {
			_, err = b.ensure(ctx, p.topic, b.closed)
			looked[p.topic.stream] = err
		}
		if err != nil {
			errs[p.index] = publishError(p, err)
			continue
		}
		again = append(again, p)
	}
	return again
}

// Codes of the server for messages that it will never take.
const (
	codeMessageTooLarge jetstream.ErrorCode = 10054
	codeHeaderTooLarge  jetstream.ErrorCode = 10097
)

// publishError says whether the message can ever be sent. Everything else may pass, also
// a quota that is full.
func publishError(p parcel, err error) error {
	var answer jetstream.JetStreamError
	if errors.As(err, &answer) && answer.APIError() != nil {
		switch answer.APIError().ErrorCode {
		case codeMessageTooLarge, codeHeaderTooLarge:
			err = fmt.Errorf("%w: %w", bus.ErrUnsendable, err)
		}
	}
	if errors.Is(err, nats.ErrMaxPayload) {
		err = fmt.Errorf("%w: %w", bus.ErrUnsendable, err)
	}
	return fmt.Errorf("publishing to %s: %w", p.topic.label, err)
}
