package eval

import (
	"context"
	"errors"

	"duly.dev/duly/internal/bus"
)

// fate is what becomes of a message that is published.
type fate int

const (
	keep  fate = iota
	lose       // the broker says that it has it, and has not
	twice      // it stores a copy besides
)

// publishing has a function decide over the fate of every message of work that a dispatcher
// publishes.
func (w *world) publishing(decide func(bus.Message) fate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fates = decide
}

// Publish publishes the messages, each as its fate has it.
func (l *link) Publish(ctx context.Context, messages []bus.Message) []error {
	errs := make([]error, len(messages))
	if l.proc.dead() {
		for i := range errs {
			errs[i] = errDead
		}
		return errs
	}
	w := l.proc.world
	w.mu.Lock()
	decide := w.fates
	w.mu.Unlock()
	if decide == nil {
		return l.Bus.Publish(ctx, messages)
	}
	var kept []bus.Message
	var of []int // which message each is
	for i, m := range messages {
		f := keep
		if m.Type == bus.TypeWork {
			f = decide(m)
		}
		if f == lose {
			continue
		}
		kept, of = append(kept, m), append(of, i)
		if f == twice {
			kept, of = append(kept, copyOf(m)), append(of, i)
		}
	}
	for n, err := range l.Bus.Publish(ctx, kept) {
		errs[of[n]] = errors.Join(errs[of[n]], err)
	}
	return errs
}

// copyOf is the message under an id of its own, so that no broker takes it for what it is.
func copyOf(m bus.Message) bus.Message {
	if m.ID != "" {
		m.ID += "-again"
	}
	return m
}

// Consume starts receiving a lane's messages.
func (l *link) Consume(ctx context.Context, lane string) (bus.Consumer, error) {
	c, err := l.Bus.Consume(ctx, lane)
	if err != nil {
		return nil, err
	}
	return &consumer{Consumer: c, lane: lane, proc: l.proc}, nil
}

// consumer receives a lane's messages.
type consumer struct {
	bus.Consumer

	lane string
	proc *proc
}

// Receive receives messages, which pass a moment on their way.
func (c *consumer) Receive(ctx context.Context, limit int) ([]bus.Delivery, error) {
	all, err := c.Consumer.Receive(ctx, limit)
	if len(all) > 0 {
		_ = c.proc.at(moment{point: received, kind: c.lane}) // where it is ended the lease fails
	}
	for i, d := range all {
		all[i] = &delivery{Delivery: d, proc: c.proc}
	}
	return all, err
}

// delivery is a message in a process's hands.
type delivery struct {
	bus.Delivery

	proc *proc
}

// Ack acknowledges the message, unless the bus is not to hear it.
func (d *delivery) Ack() error {
	if d.Message().Type != bus.TypeWork {
		return d.Delivery.Ack()
	}
	switch err := d.proc.at(moment{point: acknowledging}); {
	case errors.Is(err, errUnheard):
		return d.Release()
	case errors.Is(err, errSwallowed):
		return nil
	case err != nil:
		return err
	}
	return d.Delivery.Ack()
}

// Release gives the message back; one of a process that was ended stays where it is.
func (d *delivery) Release() error {
	if d.proc.dead() {
		return errDead
	}
	return d.Delivery.Release()
}

// Move moves delayed messages on, where the bus needs that.
func (l *link) Move(ctx context.Context, aside bus.SetAside) error {
	if m, ok := l.Bus.(bus.Mover); ok {
		return m.Move(ctx, aside)
	}
	<-ctx.Done()
	return ctx.Err()
}
