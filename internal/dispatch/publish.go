package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/machine"
)

// poisonous is how often a message may fail while others, published together with
// it, are taken. Then it is not the broker that is to blame.
const poisonous = 5

// publisher sends the messages of one topic.
type publisher struct {
	topic   string
	bus     bus.Publisher
	shelf   Shelf
	packing packing
	metrics *metrics
	// patience is how long a page is tried before it is given up, to be read again.
	patience time.Duration
}

// publish sends the messages and returns when the broker has stored each or it was
// set aside. An error means that some may be stored and some not: the page is to be
// read and published again.
func (p publisher) publish(ctx context.Context, messages []packed) error {
	ctx, cancel := context.WithTimeout(ctx, p.patience)
	defer cancel()
	failures := backoff{}
	for pending := messages; len(pending) > 0; {
		sorted := p.send(ctx, pending)
		if err := p.setAside(ctx, sorted.never); err != nil {
			return err
		}
		pending = slices.Concat(sorted.again, sorted.failed)
		if len(sorted.failed) > 0 && !sleep(ctx, failures.next()) {
			return fmt.Errorf("publishing %d of %d messages of topic %s: %w", len(pending), len(messages), p.topic, sorted.err)
		}
	}
	return nil
}

// outcome is what became of messages that were sent and not stored.
type outcome struct {
	failed []packed // to be tried again after a pause
	again  []packed // parts of messages that cannot be sent whole
	never  map[string][]machine.OutboxRow
	err    error // of one that failed
}

// send publishes all at once.
func (p publisher) send(ctx context.Context, all []packed) outcome {
	messages := make([]bus.Message, len(all))
	for i := range all {
		messages[i] = all[i].message
	}
	began := time.Now()
	errs := p.bus.Publish(ctx, messages)
	p.metrics.published(p.topic, time.Since(began))
	taken := 0
	for _, err := range errs {
		if err == nil {
			taken++
		}
	}
	out := outcome{never: make(map[string][]machine.OutboxRow)}
	for i, err := range errs {
		if err == nil {
			p.metrics.relayed(p.topic, all[i].refs())
			continue
		}
		m := all[i]
		if taken > 0 {
			m.failures++
		}
		switch hopeless := errors.Is(err, bus.ErrUnsendable) || m.failures >= poisonous; {
		case !hopeless:
			out.failed, out.err = append(out.failed, m), err
		case m.refs() > 1:
			out.again = append(out.again, p.packing.halve(m)...)
		default:
			out.never[err.Error()] = append(out.never[err.Error()], m.rows...)
		}
	}
	return out
}

// setAside keeps rows for later, by what the broker said about them.
func (p publisher) setAside(ctx context.Context, never map[string][]machine.OutboxRow) error {
	for cause, rows := range never {
		if err := p.shelf.SetAside(ctx, p.topic, rows, errors.New(cause)); err != nil {
			return err
		}
		p.metrics.setAside(p.topic, len(rows))
	}
	return nil
}
