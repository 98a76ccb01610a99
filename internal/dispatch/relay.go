package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/pause"
)

const (
	// firstRows and maxRows bound a page in rows, and aimRefs is how many references it
	// should have: rows of bulk transactions hold hundreds, and what a page costs to
	// repeat should not depend on that.
	firstRows, maxRows, aimRefs = 128, 1000, 8192
	// noticeRest is how many times longer the dead topic rests: its readers are people.
	noticeRest = 5
	// tendEvery is how often what was set aside is looked at.
	tendEvery = 2 * time.Second
	// measureEvery is how often the ledger is asked for figures, and depthMost is how
	// far it counts.
	measureEvery, depthMost = 10 * time.Second, 100_000
	// releaseBound is what giving a topic up may take at the end.
	releaseBound = 2 * time.Second
)

// relay is the loop of one topic.
type relay struct {
	topic, holder string
	dead          bool
	options       Options
	ledger        Ledger
	metrics       *metrics
	log           *slog.Logger
	route         Route // where the topic is relayed to while it is held
	publisher     publisher
	marker        *marker // nil for notices, which are copies of what the ledger keeps

	pace     pace
	failures pause.Backoff
	ensured  bool
	claimed  time.Time // when the claim was last renewed; zero unless held
	limit    int       // rows of the next page
	empty    time.Time // what was committed before is relayed
	tended   time.Time
	measured time.Time
}

func newRelay(d *Dispatcher, topic string) *relay {
	o := d.options
	r := &relay{
		topic: topic, holder: d.holder, dead: topic == machine.DeadTopic,
		options: o, ledger: o.Ledger, metrics: d.metrics, log: o.Log.With("topic", topic),
		pace: pace{rest: o.Rest}, limit: firstRows,
	}
	r.publisher = publisher{
		topic: topic, shelf: o.Ledger, metrics: d.metrics,
		// With what may have gone by since the last renewal, less than the claim.
		patience: o.Claim / 2,
		renew:    r.renew,
	}
	if r.dead {
		r.pace.rest *= noticeRest
	} else {
		r.marker = &marker{
			lane: topic, holder: d.holder, marks: o.Ledger, metrics: d.metrics,
			every: o.MarkEvery, most: o.MarkMost,
		}
	}
	return r
}

// run relays the topic until ctx ends.
func (r *relay) run(ctx context.Context) {
	defer r.giveUp(context.WithoutCancel(ctx))
	for {
		rest, err := r.step(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case lost(err):
			r.drop()
			rest = soon
		case err != nil:
			// Another dispatcher may reach the broker where this one does not; and what is
			// wrong may be that the topic is gone.
			r.giveUp(ctx)
			rest = r.failures.Next()
			r.metrics.failed(r.topic)
			r.log.WarnContext(ctx, "relaying", "error", err, "next_in", rest)
		default:
			r.failures.Reset()
			r.options.Succeeded()
		}
		if !pause.For(ctx, rest) {
			return
		}
	}
}

// step looks at the topic once and says how long to rest.
func (r *relay) step(ctx context.Context) (time.Duration, error) {
	if err := r.ensure(ctx); err != nil {
		return 0, err
	}
	held, err := r.claim(ctx)
	if err != nil || !held {
		return r.options.Claim / 5, err
	}
	saw, err := r.relay(ctx)
	if err != nil {
		return 0, err
	}
	if err := r.tend(ctx); err != nil {
		return 0, err
	}
	return r.pace.next(saw, time.Now()), nil
}

// ensure finds the bus that the lanes are on and creates or verifies the topic there,
// before the topic is taken and after failures.
func (r *relay) ensure(ctx context.Context) error {
	if r.ensured {
		return nil
	}
	route, err := r.options.route(ctx)
	if err != nil {
		return err
	}
	if route != r.route {
		r.turn(ctx, route)
	}
	var lanes []string
	if !r.dead {
		lanes = []string{r.topic}
	}
	if err := route.Bus.Ensure(ctx, lanes); err != nil {
		return fmt.Errorf("making topic %s ready on the bus: %w", r.topic, err)
	}
	r.ensured = true
	return nil
}

// turn relays to another bus from now on.
func (r *relay) turn(ctx context.Context, to Route) {
	if r.route.Bus != nil {
		r.log.WarnContext(ctx, "the lanes were moved: relaying to another bus", "from", r.route.Address, "to", to.Address)
	}
	r.route = to
	r.publisher.bus = to.Bus
	r.publisher.packing = newPacking(r.topic, r.options.Pack(r.topic), to.Bus.MaxMessage())
	if r.marker != nil {
		r.marker.bus = to.Bus
	}
}

// claim takes the topic or renews the claim in time, and reports whether it is held.
func (r *relay) claim(ctx context.Context) (bool, error) {
	if !r.claimed.IsZero() && time.Since(r.claimed) < r.options.Claim/3 {
		return true, nil
	}
	now := time.Now()
	held, err := r.ledger.ClaimTopic(ctx, r.topic, r.holder, r.options.Claim)
	if err != nil {
		return false, err
	}
	if !held {
		r.drop()
		// Whoever waits for a topic must be able to take it over.
		_, err := r.options.route(ctx)
		return false, err
	}
	taken := r.claimed.IsZero()
	r.claimed = now
	if err := r.confirm(ctx); err != nil {
		return false, err
	}
	if taken {
		r.log.InfoContext(ctx, "relaying the topic from now on")
		r.metrics.holds(r.topic, true)
		r.empty, r.measured = now, time.Time{}
		if r.marker != nil {
			r.marker.takeOver(now)
		}
	}
	return true, nil
}

// confirm asks again, behind every claim, for the bus that the lanes are on. Whoever
// moves them ends every claim: so a move before this look is seen by it, and one after
// it makes void what this relay does.
func (r *relay) confirm(ctx context.Context) error {
	route, err := r.options.route(ctx)
	if err == nil && route != r.route {
		err = machine.ErrLostTopic
	}
	if err != nil {
		r.ensured = false // it is found anew before the topic is taken again
	}
	return err
}

// renew keeps the topic while a page takes long.
func (r *relay) renew(ctx context.Context) error {
	held, err := r.claim(ctx)
	if err == nil && !held {
		return machine.ErrLostTopic
	}
	return err
}

// drop notes that the topic is not held.
func (r *relay) drop() {
	r.claimed = time.Time{}
	r.metrics.holds(r.topic, false)
}

// giveUp ends the claim, so that another need not wait for its end.
func (r *relay) giveUp(ctx context.Context) {
	if r.claimed.IsZero() {
		return
	}
	r.drop()
	ctx, cancel := context.WithTimeout(ctx, releaseBound)
	defer cancel()
	if err := r.ledger.ReleaseTopic(ctx, r.topic, r.holder); err != nil {
		r.log.WarnContext(ctx, "giving the topic up; its claim ends by itself", "error", err)
	}
}

// relay announces one page and says what it saw.
func (r *relay) relay(ctx context.Context) (sight, error) {
	began := time.Now()
	page, err := r.ledger.ReadOutbox(ctx, r.topic, r.holder, r.limit)
	if err != nil {
		return sawNothing, err
	}
	if len(page.Rows) == 0 {
		r.empty = began
		r.metrics.behind(r.topic, 0)
		return sawNothing, nil
	}
	r.metrics.behind(r.topic, began.Sub(r.empty))
	messages, refs, err := r.messages(ctx, page.Rows)
	if err != nil {
		return sawNothing, err
	}
	if err := r.publisher.publish(ctx, messages); err != nil {
		return sawNothing, err
	}
	if err := r.ledger.Advance(ctx, r.topic, r.holder, page); err != nil {
		return sawNothing, err
	}
	saw := sawMore
	if page.Last {
		r.empty, saw = began, sawAll
	}
	if r.marker != nil {
		r.marker.moved = true
	}
	r.limit = max(1, min(aimRefs*len(page.Rows)/max(refs, 1), 2*r.limit, maxRows))
	return saw, nil
}

// messages makes messages of rows and counts their references.
func (r *relay) messages(ctx context.Context, rows []machine.OutboxRow) ([]packed, int, error) {
	refs := packed{rows: rows}.refs()
	if r.dead {
		messages, err := notices(ctx, r.ledger, rows)
		return messages, refs, err
	}
	return r.publisher.packing.pack(rows), refs, nil
}

// tend does what is due besides: a mark, a further try of what was set aside, figures.
func (r *relay) tend(ctx context.Context) error {
	now := time.Now()
	var errs []error
	if r.marker != nil {
		errs = append(errs, r.marker.tend(ctx, now))
	}
	if now.Sub(r.tended) >= tendEvery {
		r.tended = now
		_, err := r.ledger.RetryUnsendable(ctx, r.topic)
		errs = append(errs, err)
	}
	if now.Sub(r.measured) >= measureEvery {
		r.measured = now
		errs = append(errs, r.measure(ctx))
	}
	return errors.Join(errs...)
}

// measure asks the ledger for the figures of the topic.
func (r *relay) measure(ctx context.Context) error {
	depth, err := r.ledger.OutboxDepth(ctx, r.topic, depthMost)
	if err != nil {
		return err
	}
	aside, err := r.ledger.CountUnsendable(ctx)
	if err != nil {
		return err
	}
	r.metrics.depth.WithLabelValues(r.topic).Set(float64(depth))
	r.metrics.unsendable.WithLabelValues(r.topic).Set(float64(aside[r.topic]))
	if r.marker == nil {
		return nil
	}
	marks, err := r.ledger.StandingMarks(ctx)
	if err != nil {
		return err
	}
	age := time.Duration(0)
	for _, m := range marks {
		if m.Lane == r.topic {
			age = max(0, m.Age)
		}
	}
	r.metrics.standing.WithLabelValues(r.topic).Set(age.Seconds())
	return nil
}
