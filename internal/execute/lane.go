package execute

import (
	"context"
	"errors"
	"fmt"
	"time"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/failpoint"
	"duly.dev/duly/internal/pause"
	"duly.dev/duly/pkg/job"
)

// Source is where messages come from.
type Source interface {
	// Consume starts receiving the lane's messages.
	Consume(ctx context.Context, lane string) (bus.Consumer, error)
	// Healthy says why the bus cannot be reached; nil when it can.
	Healthy() error
}

// Clerk takes what is no lease and no result.
type Clerk interface {
	// HoldRefs puts what is ready at its reference's emission back to scheduled for
	// the given time, without fence or attempt. What is not ready there is left. It
	// returns those whose rows somebody has locked, about which nothing was decided.
	HoldRefs(ctx context.Context, refs []job.Ref, hold job.Hold, d time.Duration) (locked []job.Ref, err error)
	// PassMark reports that a mark has passed a partition of the lane.
	PassMark(ctx context.Context, lane string, partition int32, number int64) error
	// Reject keeps a message that nobody understands.
	Reject(ctx context.Context, source, sourceID string, body []byte, cause error) error
}

// Lane is a lane to work on.
type Lane struct {
	Name string
	// Pack is the most references that one message of the lane holds; default 32.
	Pack int
}

// lane receives and leases the messages of one lane. It has two goroutines: one
// takes from the bus, the other leases everything that has come meanwhile.
type lane struct {
	worker   *Worker
	source   Source
	name     string
	need     int // free slots before a message is taken
	slots    *slots
	consumer bus.Consumer
	inbox    *inbox
	holds    holds
}

// parcel is what goes from the receiving to the leasing goroutine.
type parcel struct {
	kind string
	// claims hold a slot each; excess are those for which there was none.
	claims, excess []*claim
	// mark is set on a mark, which is passed on behind all that came before it.
	mark *passing
}

// passing is a mark that was delivered.
type passing struct {
	mark      bus.Mark
	partition int32
	delivery  bus.Delivery
}

// receive takes messages until ctx ends or the consumer fails for good.
func (l *lane) receive(ctx context.Context) error {
	for {
		if _, err := l.worker.board.fresh(ctx, 0); err != nil {
			return nil //nolint:nilerr // ctx ended: the order to drain
		}
		free, err := l.slots.wait(ctx, l.need)
		if err != nil {
			return nil //nolint:nilerr // as above
		}
		deliveries, err := l.consumer.Receive(ctx, free/l.need)
		for _, d := range deliveries {
			l.accept(ctx, d)
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("receiving from lane %s: %w", l.name, err)
		}
	}
}

// accept sorts a message by what it is.
func (l *lane) accept(ctx context.Context, d bus.Delivery) {
	failpoint.Pass(failpoint.WorkerReceived)
	switch m := d.Message(); m.Type {
	case bus.TypeWork:
		received, err := bus.DecodeEnvelope(m.Body)
		if err != nil {
			l.reject(ctx, d, err)
			return
		}
		claims := newMessage(l, d, received.Refs)
		n := l.slots.take(len(claims))
		l.inbox.put(parcel{kind: received.Kind, claims: claims[:n], excess: claims[n:]})
	case bus.TypeMark:
		mark, err := bus.DecodeMark(m.Body)
		if err == nil && mark.Lane != l.name {
			err = fmt.Errorf("mark %d is of lane %q", mark.Number, mark.Lane)
		}
		if err != nil {
			l.reject(ctx, d, err)
			return
		}
		l.inbox.put(parcel{mark: &passing{mark, m.Partition, d}})
	default:
		l.reject(ctx, d, fmt.Errorf("a message of type %q is not for workers", job.Storable(string(m.Type), job.MaxName)))
	}
}

// reject sets a message aside that nobody understands and then acknowledges it. It
// takes a slot meanwhile, and nobody waits for it but the drain.
func (l *lane) reject(ctx context.Context, d bus.Delivery, cause error) {
	l.worker.metrics.rejected.Inc()
	l.worker.log.WarnContext(ctx, "a message is set aside", "lane", l.name, "error", cause)
	n := l.slots.take(1)
	go func() {
		defer l.slots.give(n)
		m := d.Message()
		err := l.worker.persist(ctx, "setting a message aside", func(ctx context.Context) error {
			return l.worker.o.Ledger.Reject(ctx, "lane "+l.name, m.Identity(), m.Body, cause)
		})
		if err != nil {
			l.release(d)
			return
		}
		l.ack(d)
	}()
}

// work leases what receive has taken, until the worker stops.
func (l *lane) work(ctx context.Context) {
	for {
		parcels, err := l.inbox.take(ctx)
		if err != nil {
			return
		}
		l.handle(ctx, parcels)
	}
}

// handle leases all claims of a kind together, and passes marks on behind them.
func (l *lane) handle(ctx context.Context, parcels []parcel) {
	var excess []*claim
	var order []string
	byKind := make(map[string][]*claim, 1)
	for _, p := range parcels {
		excess = append(excess, p.excess...)
		if len(p.claims) == 0 {
			continue
		}
		if _, ok := byKind[p.kind]; !ok {
			order = append(order, p.kind)
		}
		byKind[p.kind] = append(byKind[p.kind], p.claims...)
	}
	for _, name := range order {
		if k := l.worker.kinds[name]; k != nil {
			l.lease(ctx, k, byKind[name])
		} else {
			l.holdUnknown(name, byKind[name])
		}
	}
	l.hold(excess, job.HoldSlots, holdSlotsFor)
	for _, p := range parcels {
		if p.mark != nil {
			l.pass(p.mark)
		}
	}
}

// pass reports a mark behind all that was received before it, then acknowledges it.
func (l *lane) pass(p *passing) {
	failpoint.Pass(failpoint.MarkDelivered)
	err := l.worker.persist(l.worker.soft, "passing a mark on", func(ctx context.Context) error {
		return l.worker.o.Ledger.PassMark(ctx, l.name, p.partition, p.mark.Number)
	})
	if err != nil {
		l.release(p.delivery)
		return
	}
	l.worker.metrics.marks.Inc()
	l.ack(p.delivery)
}

func (l *lane) ack(d bus.Delivery) {
	if failpoint.At(failpoint.WorkerAck) != nil {
		l.release(d) // what was not acknowledged comes again
		return
	}
	l.done("acknowledge", d.Ack())
}

func (l *lane) release(d bus.Delivery) { l.done("give back", d.Release()) }

// done logs what the bus did not take. The message comes again, and what is settled
// is stale then.
func (l *lane) done(what string, err error) {
	if err != nil && !errors.Is(err, bus.ErrClosed) {
		l.worker.log.Warn("cannot "+what+" a message; it comes again", "lane", l.name, "error", err) //nolint:sloglint // two words of ours
	}
}

// persist calls do until it succeeds; it returns ctx's error when ctx ends first.
// Trouble costs time, never an attempt: the message stays in progress meanwhile.
func (w *Worker) persist(ctx context.Context, doing string, do func(context.Context) error) error {
	var wait pause.Backoff
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := w.call(do)
		if err == nil {
			return nil
		}
		w.log.WarnContext(ctx, "trouble with the ledger, trying again", "doing", doing, "error", err)
		w.metrics.trouble.Inc()
		pause.For(ctx, wait.Next())
	}
}

// call gives one call of the ledger its bound. A shutdown does not cut it: what was
// sent is worth an answer.
func (w *Worker) call(do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(w.work, w.callLimit())
	defer cancel()
	return do(ctx)
}

// callLimit bounds one call of the ledger: half a lease, so that a call that hangs
// is noticed while the lease is good.
func (w *Worker) callLimit() time.Duration { return w.o.LeaseTime / 2 }
