package kafkabus

import (
	"context"
	"fmt"

	"duly.dev/duly/internal/bus"
)

// consumer receives the messages of one topic, through the membership that all consumers
// of a process share.
type consumer struct {
	member *member
	topic  string
	turns  *bus.Turns // of Receive
}

var _ bus.Consumer = (*consumer)(nil)

// Consume starts receiving the lane's messages. The group is joined by the first Receive.
func (b *Bus) Consume(_ context.Context, lane string) (bus.Consumer, error) {
	t, err := workTopic(b.options.Prefix, lane)
	if err != nil {
		return nil, err
	}
	return b.consume(t, t.name, t.label, t)
}

// ConsumeDead starts receiving notices, shared with all who do.
func (b *Bus) ConsumeDead(context.Context) (bus.Consumer, error) {
	t := deadTopic(b.options.Prefix)
	return b.consume(t, t.name, t.label, t)
}

// consume makes a consumer of one topic out of those that the group reads.
func (b *Bus) consume(one topic, group, label string, topics ...topic) (*consumer, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended() {
		return nil, bus.ErrClosed
	}
	m := b.members[group]
	if m == nil {
		m = newMember(b, group, label, topics)
		b.members[group] = m
	}
	c := &consumer{member: m, topic: one.name, turns: bus.NewTurns()}
	m.join()
	return c, nil
}

// Receive hands out what has been polled, at most limit messages, and waits where there is
// nothing.
func (c *consumer) Receive(ctx context.Context, limit int) ([]bus.Delivery, error) {
	if limit < 1 {
		return nil, fmt.Errorf("receiving at most %d messages: it must be at least 1", limit)
	}
	if err := c.turns.Take(ctx, c.member.bus.closed); err != nil {
		return nil, err
	}
	defer c.turns.Give()
	for {
		if err := c.ended(ctx); err != nil {
			return nil, err
		}
		taken, changed, away := c.member.take(c, limit)
		switch {
		case len(taken) > 0:
			return taken, nil
		case away:
			c.member.open(ctx, c)
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
		case <-c.turns.Closed():
		case <-c.member.bus.closed:
		}
	}
}

// ended is the error with which Receive ends, if it is to end.
func (c *consumer) ended(ctx context.Context) error { return c.turns.Ended(ctx, c.member.bus.closed) }

// Close stops receiving. What is out can be acknowledged for a moment: the last consumer of
// a group leaves it when nothing is out, or after 3 s (a third of a shorter session).
// Effects may take longer than that, and what waits behind them in their partitions should
// not have to.
func (c *consumer) Close() error {
	if c.turns.Close() {
		c.member.leave()
	}
	return nil
}
