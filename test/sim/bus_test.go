package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/bus/membus"
)

// wire is the bus as one life of a process sees it.
type wire struct{ *life }

// errPublish is what a publication fails with that the broker never saw, or whose reply was lost.
var errPublish = errors.New("no acknowledgement came")

func (l wire) Ensure(ctx context.Context, lanes []string) error {
	_, err := glance(ctx, l.life, onlyErr(func(ctx context.Context) error { return l.bus.Ensure(ctx, lanes) }))
	return err
}

func (l wire) MaxMessage() int { return l.bus.MaxMessage() }

func (l wire) Healthy() error { return l.bus.Healthy() }

func (l wire) Partitions(ctx context.Context, lane string) ([]int32, error) {
	return l.bus.Partitions(ctx, lane)
}

// Publish sends what is given to it, unless it is lost on the way.
func (l wire) Publish(ctx context.Context, messages []bus.Message) []error {
	fail := func(err error) []error { return slices.Repeat([]error{err}, len(messages)) }
	if l.dead() {
		return fail(errGone)
	}
	about := digestOf(messages, func(m bus.Message) uint64 { return digest(m.Lane, m.ID, string(m.Body)) })
	c := l.w.dice.roll(l.name, "publish", about, l.w.elapsed())
	f := l.w.onWire(c, publishFails, publishUnclear)
	err := l.travel(ctx, place(l.p.slot, "Publish"), latency(c))
	if f != "" {
		l.w.happenedf(f, "%s, %d messages", l.name, len(messages))
	}
	if err != nil && c.of("arrives").below(0.5) || f == publishFails {
		return fail(cmp.Or(err, errPublish))
	}
	errs := l.bus.Publish(context.WithoutCancel(ctx), messages)
	if err != nil || f == publishUnclear {
		return fail(cmp.Or(err, errPublish))
	}
	return errs
}

// onWire is which of the faults happens, while faults happen at all.
func (w *world) onWire(c chance, all ...fault) fault {
	if w.calm.Load() {
		return ""
	}
	for _, f := range all {
		if c.of(string(f)).below(w.plan.rates[f]) {
			return f
		}
	}
	return ""
}

// Consume opens a lane.
func (l wire) Consume(ctx context.Context, lane string) (bus.Consumer, error) {
	c, err := l.bus.Consume(ctx, lane)
	return &consumer{c, l}, err
}

type consumer struct {
	bus.Consumer
	wire wire
}

// Receive takes one message at a time, each at an instant of its own: a loop that took two
// at once could have handed over one or both of them when the next loop looks.
func (c *consumer) Receive(ctx context.Context, _ int) ([]bus.Delivery, error) {
	l := c.wire.life
	if l.dead() {
		return nil, errGone
	}
	if err := l.travel(ctx, place(l.p.slot, "Receive"), latency(l.w.dice.roll(l.name, "receive", l.w.elapsed()))); err != nil {
		return nil, err
	}
	got, err := c.Consumer.Receive(ctx, 1)
	l.awake(place(l.p.slot, "Receive"), 0)
	if l.dead() {
		return nil, errGone
	}
	for i, d := range got {
		got[i] = &delivery{d, c.wire}
	}
	return got, err
}

type delivery struct {
	bus.Delivery
	wire wire
}

// Ack is held against the ledger: whatever the message speaks of must be settled there.
func (d *delivery) Ack() error {
	l := d.wire.life
	if l.dead() {
		return errGone
	}
	d.wire.mayAck(d.Message())
	c := l.w.dice.roll(l.name, "ack", string(d.Message().Body), l.w.elapsed())
	err := l.travel(context.Background(), place(l.p.slot, "Ack"), latency(c))
	switch f := l.w.onWire(c, ackLost); {
	case err != nil && c.of("arrives").below(0.5):
		return err
	case f != "":
		l.w.happenedf(f, "%s: %s", l.name, d.Message().Body)
		d.later()
		return nil
	}
	return d.Delivery.Ack()
}

// later lets the message come again, as the broker does that hears nothing of it.
func (d *delivery) later() {
	l := d.wire.life
	l.w.loose.Go(func() {
		_ = l.w.rest(context.Background(), place(l.p.slot, "Ack"), visibility)
		_ = d.Delivery.Release() // where the connection has ended the broker has it already
	})
}

// Release gives the message back.
func (d *delivery) Release() error {
	l := d.wire.life
	if l.dead() {
		return errGone
	}
	c := l.w.dice.roll(l.name, "release", string(d.Message().Body), l.w.elapsed())
	if err := l.travel(context.Background(), place(l.p.slot, "Release"), latency(c)); err != nil {
		return err
	}
	return d.Delivery.Release()
}

// mayAck notes an acknowledgement of what is not settled.
func (l wire) mayAck(m bus.Message) {
	switch m.Type {
	case bus.TypeMark:
		mark, err := bus.DecodeMark(m.Body)
		if err != nil {
			l.w.breaksf("G3", "a mark cannot be decoded: %v", err)
			return
		}
		l.mu.Lock()
		passed := l.passed[mark.Number]
		l.mu.Unlock()
		if !passed {
			l.w.breaksf("G3", "%s acknowledges mark %d, which it has not passed on", l.name, mark.Number)
		}
	case bus.TypeWork:
		work, err := bus.DecodeEnvelope(m.Body)
		if err != nil {
			l.w.breaksf("G3", "a message cannot be decoded: %v", err)
			return
		}
		if left := l.unanswered(work.Refs); len(left) > 0 {
			l.w.breaksf("G3", "%s acknowledges %v before the ledger has committed what became of it", l.name, left)
		}
	case bus.TypeDead, bus.TypeDamaged:
	}
}

// newBroker makes the broker with all that it may do to messages.
func (w *world) newBroker() *membus.Broker {
	b := membus.NewBroker(membus.Options{
		Visibility: visibility,
		Hear: func(n int) time.Duration {
			now := w.elapsed()
			return now.Truncate(grain) + grain + time.Duration(slotBroker*methods+n%(2*methods)) - now
		},
	})
	b.SetFaults(membus.Faults{Refuse: w.refuse, Fate: w.fateOfMessage})
	return b
}

func (w *world) refuse(m bus.Message) error {
	c := w.dice.roll("refuse", m.ID)
	if m.Type != bus.TypeWork || w.calm.Load() || !c.below(w.plan.rates[unsendable]) {
		return nil
	}
	w.happenedf(unsendable, "%s", m.Body)
	return fmt.Errorf("%w: it is told to", bus.ErrUnsendable)
}

func (w *world) fateOfMessage(m bus.Message) membus.Fate {
	c := w.dice.roll("fate", m.ID, string(m.Body), w.elapsed())
	f := w.onWire(c, dropped, duplicated, overtaken)
	if f != "" {
		w.happenedf(f, "%s", m.Body)
	}
	return map[fault]membus.Fate{dropped: membus.Lose, duplicated: membus.Duplicate, overtaken: membus.Overtake}[f]
}
