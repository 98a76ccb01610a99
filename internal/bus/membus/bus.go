package membus

import (
	"context"
	"fmt"
	"sync"
	"time"

	"duly.dev/duly/internal/bus"
)

// Bus is one connection to a Broker. It implements bus.Bus.
type Bus struct {
	broker *Broker
	ending sync.Once
	closed chan struct{}
}

var _ bus.Bus = (*Bus)(nil)

// New makes a broker with the defaults and connects to it: for whoever needs one bus and no
// faults.
func New() *Bus { return NewBroker(Options{}).Connect() }

// Connect makes a connection.
func (b *Broker) Connect() *Bus { return &Bus{broker: b, closed: make(chan struct{})} }

// Publish stores the messages.
func (c *Bus) Publish(ctx context.Context, messages []bus.Message) []error {
	errs := make([]error, len(messages))
	for i, m := range messages {
		err := c.ended()
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = c.broker.publish(m)
		}
		if err != nil {
			errs[i] = fmt.Errorf("publishing message %q: %w", m.ID, err)
		}
	}
	return errs
}

// Partitions is always partition 0.
func (c *Bus) Partitions(context.Context, string) ([]int32, error) { return []int32{0}, c.ended() }

// Ensure has nothing to create and nothing to refuse, but lanes that are not names.
func (c *Bus) Ensure(_ context.Context, lanes []string) error {
	for _, lane := range lanes {
		if _, err := c.broker.check(bus.Message{Type: bus.TypeWork, Lane: lane}); err != nil {
			return err
		}
	}
	return c.ended()
}

// Consume starts receiving the lane's messages.
func (c *Bus) Consume(_ context.Context, lane string) (bus.Consumer, error) {
	if _, err := c.broker.check(bus.Message{Type: bus.TypeWork, Lane: lane}); err != nil {
		return nil, err
	}
	return c.consume(lane)
}

// ConsumeDead starts receiving notices.
func (c *Bus) ConsumeDead(context.Context) (bus.Consumer, error) { return c.consume(deadQueue) }

func (c *Bus) consume(queue string) (bus.Consumer, error) {
	if err := c.ended(); err != nil {
		return nil, err
	}
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	c.broker.heard++
	return &consumer{bus: c, queue: queue, number: c.broker.heard, closed: make(chan struct{})}, nil
}

// MaxMessage is the largest body.
func (c *Bus) MaxMessage() int { return c.broker.options.MaxMessage }

// Healthy is nil while the broker is up and the connection open.
func (c *Bus) Healthy() error {
	if err := c.ended(); err != nil {
		return err
	}
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	if c.broker.down {
		return errDown
	}
	return nil
}

// Close gives back what was neither acknowledged nor released.
func (c *Bus) Close() error {
	c.end(func(q *queue, held []*item) { q.giveBack(held...) })
	return nil
}

// Crash ends the connection as the death of a process would: what it holds comes again
// after Options.Visibility.
func (c *Bus) Crash() {
	until := time.Now().Add(c.broker.options.Visibility)
	c.end(func(q *queue, held []*item) { q.hide(held, until) })
}

// Lapse is a client that was not heard of for longer than the broker waits: what it holds
// comes again now, and what it says of it later is not heard. It returns how many messages
// that were.
func (c *Bus) Lapse() (n int) {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	for _, q := range c.broker.queues {
		held := q.heldBy(c)
		q.giveBack(held...)
		n += len(held)
	}
	return n
}

// end closes the connection and does to what it holds of each queue what is asked.
func (c *Bus) end(dispose func(q *queue, held []*item)) {
	c.ending.Do(func() {
		close(c.closed) // before the lock: who takes later sees it
		c.broker.mu.Lock()
		defer c.broker.mu.Unlock()
		for _, q := range c.broker.queues {
			dispose(q, q.heldBy(c))
		}
	})
}

func (c *Bus) ended() error {
	select {
	case <-c.closed:
		return bus.ErrClosed
	default:
		return nil
	}
}

// consumer receives from one queue.
type consumer struct {
	bus    *Bus
	queue  string
	number int
	ending sync.Once
	closed chan struct{}
}

// Receive waits for at least one message and returns at most limit.
func (c *consumer) Receive(ctx context.Context, limit int) ([]bus.Delivery, error) {
	if limit < 1 {
		return nil, fmt.Errorf("receiving at most %d messages: it must be at least 1", limit)
	}
	for {
		if err := c.ended(ctx); err != nil {
			return nil, err
		}
		taken, changed, next := c.take(limit)
		if len(taken) > 0 {
			return taken, nil
		}
		c.wait(ctx, changed, next)
	}
}

func (c *consumer) ended(ctx context.Context) error {
	select {
	case <-c.closed:
		return bus.ErrClosed
	default:
	}
	if err := c.bus.ended(); err != nil {
		return err
	}
	return ctx.Err()
}

// take takes what is there. If there is nothing, it says when to look again: when changed
// is closed, or at next, if that is not zero.
func (c *consumer) take(limit int) (taken []bus.Delivery, changed <-chan struct{}, next time.Time) {
	b := c.bus.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queue(c.queue)
	if b.down || c.bus.ended() != nil {
		return nil, q.changed, time.Time{}
	}
	for _, it := range q.take(c.bus, limit, time.Now()) {
		taken = append(taken, &delivery{bus: c.bus, queue: c.queue, item: it, message: it.message})
	}
	return taken, q.changed, q.next()
}

func (c *consumer) wait(ctx context.Context, changed <-chan struct{}, next time.Time) {
	var due <-chan time.Time
	if !next.IsZero() {
		timer := time.NewTimer(time.Until(next))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-changed:
	case <-due:
	case <-ctx.Done():
		return
	case <-c.closed:
		return
	case <-c.bus.closed:
		return
	}
	if hear := c.bus.broker.options.Hear; hear != nil {
		<-time.After(hear(c.number))
	}
}

// Close stops receiving.
func (c *consumer) Close() error {
	c.ending.Do(func() { close(c.closed) })
	return nil
}

// delivery is a message in hand.
type delivery struct {
	bus     *Bus
	queue   string
	item    *item
	message bus.Message
}

// Message is the message as it was published.
func (d *delivery) Message() bus.Message { return d.message }

// Ack removes the message.
func (d *delivery) Ack() error {
	return d.settle(func(q *queue) { delete(q.out, d.item) })
}

// Release puts the message at the head of the queue.
func (d *delivery) Release() error {
	return d.settle(func(q *queue) { q.giveBack(d.item) })
}

// settle does what is asked if the message is still out with this connection.
func (d *delivery) settle(do func(*queue)) error {
	if err := d.bus.ended(); err != nil {
		return err
	}
	b := d.bus.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return errDown
	}
	q := b.queue(d.queue)
	if _, out := q.out[d.item]; out && d.item.owner == d.bus {
		do(q)
	}
	return nil
}
