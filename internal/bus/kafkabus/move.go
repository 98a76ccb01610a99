package kafkabus

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/pkg/job"
)

const (
	// mostWaiting is how many messages of the shortest tier the mover holds until each
	// one's own time, and of a longer one until the tier's, which they reach in order.
	mostWaiting, mostInOrder = 8192, 512
	// mostMoved is how many are published at once.
	mostMoved = 512
	// moveAgain is when what could not be published is tried again.
	moveAgain = 500 * time.Millisecond
)

// Move moves delayed messages on, each from tier to tier and at its time to its lane, and
// removes from the brokers what is acknowledged, until ctx ends. It returns ctx's error, or
// bus.ErrClosed after Close. What lies on a delay topic and can never be moved on goes to
// aside.
func (b *Bus) Move(ctx context.Context, aside bus.SetAside) error {
	moving, ctx := errgroup.WithContext(ctx)
	for _, t := range b.tiers {
		c, err := b.consume(t, b.options.Prefix+".retry", t.label, b.tiers...)
		if err != nil {
			return errors.Join(err, moving.Wait())
		}
		q := &queue{bus: b, tier: t, consumer: c, aside: aside}
		moving.Go(func() error {
			defer c.Close()
			return q.run(ctx)
		})
	}
	moving.Go(func() error { return b.truncating(ctx) })
	return moving.Wait()
}

// queue holds messages of one tier until they are to be moved on.
type queue struct {
	bus      *Bus
	tier     topic
	consumer *consumer
	aside    bus.SetAside
	waiting  waiting
}

func (q *queue) run(ctx context.Context) error {
	for {
		if err := q.receive(ctx); err != nil {
			return err
		}
		q.move(ctx)
	}
}

// receive takes messages in until the first is due.
func (q *queue) receive(ctx context.Context) error {
	if len(q.waiting) > 0 {
		var cancel context.CancelFunc
		outer := ctx
		if ctx, cancel = context.WithDeadline(ctx, q.waiting[0].due); ctx.Err() != nil {
			cancel()
			return outer.Err()
		}
		defer cancel()
		if room := q.most() - len(q.waiting); room <= 0 {
			select {
			case <-ctx.Done():
			case <-q.bus.closed:
				return bus.ErrClosed
			}
			return outer.Err()
		}
		err := q.take(ctx)
		if err != nil && outer.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			return nil
		}
		return err
	}
	return q.take(ctx)
}

func (q *queue) take(ctx context.Context) error {
	deliveries, err := q.consumer.Receive(ctx, q.most()-len(q.waiting))
	now := time.Now()
	for _, d := range deliveries {
		d := d.(*delivery)
		heap.Push(&q.waiting, waiter{d, q.due(d, now)})
	}
	return err
}

// most is how many messages are held at once.
func (q *queue) most() int {
	if q.tier.delay == shortestTier {
		return mostWaiting
	}
	return mostInOrder
}

// due is when a message is to be moved on: out of the shortest tier when its own time has
// come, out of another when it has been there for the tier's delay, which is in the order
// in which it came. When that began is what its record says, but not the future: the
// clock of another process may be wrong.
func (q *queue) due(d *delivery, now time.Time) time.Time {
	at := d.message.At
	if q.tier.delay == shortestTier {
		return at
	}
	since := d.place.record.Timestamp
	if since.After(now) {
		since = now
	}
	if over := since.Add(q.tier.delay); over.Before(at) {
		return over
	}
	return at
}

// move publishes what is due, and acknowledges each message when its successor is stored.
func (q *queue) move(ctx context.Context) {
	now := time.Now()
	var due []*delivery
	var messages []bus.Message
	for len(q.waiting) > 0 && !q.waiting[0].due.After(now) && len(due) < mostMoved {
		d := heap.Pop(&q.waiting).(waiter).delivery
		switch {
		case d.gone():
		case d.message.Type != bus.TypeWork:
			q.passOver(ctx, d, fmt.Errorf("a message of type %q is not delayed", job.Storable(string(d.message.Type), job.MaxName)))
		default:
			due, messages = append(due, d), append(messages, d.message)
		}
	}
	if len(due) == 0 {
		return
	}
	for i, err := range q.bus.Publish(ctx, messages) {
		switch {
		case err == nil:
			q.bus.metrics.moved.WithLabelValues(q.tier.label).Inc()
			_ = due[i].Ack() // at worst it is moved on twice
		case errors.Is(err, bus.ErrUnsendable):
			q.passOver(ctx, due[i], err)
		default:
			if ctx.Err() == nil {
				q.bus.options.Log.WarnContext(ctx, "moving a delayed message on; trying again", "topic", q.tier.name, "error", err)
			}
			heap.Push(&q.waiting, waiter{due[i], now.Add(moveAgain)})
		}
	}
}

// passOver sets a record aside that can never be moved on.
func (q *queue) passOver(ctx context.Context, d *delivery, cause error) {
	if err := q.aside(ctx, "topic "+q.tier.name, d.message, cause); err != nil {
		if ctx.Err() == nil {
			q.bus.options.Log.WarnContext(ctx, "setting a record aside; trying again", "topic", q.tier.name, "error", err)
		}
		heap.Push(&q.waiting, waiter{d, time.Now().Add(moveAgain)})
		return
	}
	q.bus.metrics.unmovable.WithLabelValues(q.tier.label).Inc()
	q.bus.options.Log.ErrorContext(ctx, "a record on a delay topic can never be moved on and was set aside",
		"topic", q.tier.name, "bytes", len(d.message.Body), "error", cause)
	_ = d.Ack() // at worst it is set aside again, which keeps it once
}

// waiter is a message that waits for its time.
type waiter struct {
	delivery *delivery
	due      time.Time
}

// waiting is a heap by time.
type waiting []waiter

// Len, Less, Swap, Push and Pop are the heap's.
func (w waiting) Len() int { return len(w) }

// Less orders by time.
func (w waiting) Less(i, j int) bool { return w[i].due.Before(w[j].due) }

// Swap swaps two.
func (w waiting) Swap(i, j int) { w[i], w[j] = w[j], w[i] }

// Push adds one.
func (w *waiting) Push(x any) { *w = append(*w, x.(waiter)) }

// Pop removes the last.
func (w *waiting) Pop() any {
	last := len(*w) - 1
	x := (*w)[last]
	(*w)[last] = waiter{}
	*w = (*w)[:last]
	return x
}
