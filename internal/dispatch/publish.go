package dispatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/pause"
)

const (
	// burst is how many messages are published at once; between bursts the claim is
	// renewed.
	burst = 1024
	// poisonous is how often messages may fail while another, published together with
	// them, is taken. Then it is not the broker that is to blame.
	poisonous = 5
)

// publisher sends the messages of one topic.
type publisher struct {
	topic   string
	bus     bus.Publisher
	shelf   Shelf
	packing packing
	metrics *metrics
	// patience is how long it goes on while the broker takes nothing.
	patience time.Duration
	// renew keeps the topic while a page takes long.
	renew func(ctx context.Context) error
}

// publish sends the messages and returns when the broker has stored each or it was
// set aside. An error means that some may be stored and some not: the page is to be
// read and published again.
func (p publisher) publish(ctx context.Context, messages []packed) error {
	for some := range slices.Chunk(messages, burst) {
		if err := p.burst(ctx, some); err != nil {
			return fmt.Errorf("publishing %d messages of topic %s: %w", len(messages), p.topic, err)
		}
	}
	return nil
}

// burst sends a burst. Messages that fail while nothing else of it is there to tell
// whether the broker takes anything are sent again beside one that it took: a true
// copy, which is stale to whoever receives it.
func (p publisher) burst(ctx context.Context, pending []packed) error {
	failures, progress := pause.Backoff{}, time.Now()
	var probe []packed
	for len(pending) > 0 {
		if err := p.renew(ctx); err != nil {
			return err
		}
		sent := p.send(ctx, pending, probe)
		if err := p.setAside(ctx, sent.never); err != nil {
			return err
		}
		if sent.alive {
			progress = time.Now()
		}
		if len(sent.taken) > 0 {
			probe = sent.taken[:1]
		}
		pending = slices.Concat(sent.again, sent.failed)
		if len(sent.failed) == 0 {
			continue
		}
		if time.Since(progress) >= p.patience || !pause.For(ctx, min(failures.Next(), p.patience/5)) {
			return fmt.Errorf("%d of them: %w", len(pending), sent.err)
		}
	}
	return nil
}

// sent is what became of messages that were published together.
type sent struct {
	taken  []packed
	failed []packed // to be published again after a pause
	again  []packed // parts of messages that cannot be sent whole
	never  map[string][]machine.OutboxRow
	err    error // of one that failed
	// alive: the broker took something, were it only the probe.
	alive bool
}

// send publishes messages, and beside them the probe, at once.
func (p publisher) send(ctx context.Context, all, probe []packed) sent {
	ctx, cancel := context.WithTimeout(ctx, p.patience)
	defer cancel()
	messages := make([]bus.Message, 0, len(all)+len(probe))
	for _, m := range slices.Concat(all, probe) {
		messages = append(messages, m.message)
	}
	began := time.Now()
	errs := p.bus.Publish(ctx, messages)
	p.metrics.published(p.topic, time.Since(began))

	out := sent{never: make(map[string][]machine.OutboxRow)}
	for i := range all {
		if errs[i] == nil {
			out.taken = append(out.taken, all[i])
			p.metrics.relayed(p.topic, all[i].refs())
		}
	}
	out.alive = slices.Contains(errs, nil)
	// Where all failed but the probe was taken, they are to blame.
	blamed := len(out.taken) == 0 && out.alive
	for i, m := range all {
		if errs[i] == nil {
			continue
		}
		if blamed {
			m.failures++
		}
		switch hopeless := errors.Is(errs[i], bus.ErrUnsendable) || m.failures >= poisonous; {
		case !hopeless:
			out.failed, out.err = append(out.failed, m), errs[i]
		case m.refs() > 1:
			out.again = append(out.again, p.packing.halve(m)...)
		default:
			out.never[errs[i].Error()] = append(out.never[errs[i].Error()], m.rows...)
		}
	}
	return out
}

// setAside keeps rows for later, by what the broker said about them.
func (p publisher) setAside(ctx context.Context, never map[string][]machine.OutboxRow) error {
	for _, cause := range slices.Sorted(maps.Keys(never)) {
		rows := never[cause]
		if err := p.shelf.SetAside(ctx, p.topic, rows, errors.New(cause)); err != nil {
			return err
		}
		p.metrics.setAside(p.topic, len(rows))
	}
	return nil
}
