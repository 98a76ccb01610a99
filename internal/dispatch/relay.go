package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"duly.dev/duly/internal/failpoint"
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
	// doubtful is for how long a topic that failed here does not count as looked at while
	// another holds it: that one may fare no better.
	doubtful = 30 * time.Second
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
	// empty: what was committed before is relayed. It outlives a claim, since others may
	// fail as this one does; unless the cursor moved from version while they had the topic.
	empty     time.Time
	version   int64
	elsewhere bool // another was seen to hold the topic

	failed   time.Time // when it failed last; zero once it succeeded
	tended   time.Time
	measured time.Time
	// succeeded is told of every look that succeeded.
	succeeded func()
}

func newRelay(d *Dispatcher, topic string) *relay {
	o := d.options
	r := &relay{
		topic: topic, holder: d.holder, dead: topic == machine.DeadTopic,
		options: o, ledger: o.Ledger, metrics: d.metrics, log: o.Log.With("topic", topic),
		pace: pace{rest: o.Rest}, limit: firstRows,
		succeeded: func() { d.succeeded(topic) },
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
			r.fail(ctx)
			rest = r.failures.Next()
			r.log.WarnContext(ctx, "relaying", "error", err, "next_in", rest)
		case r.claimed.IsZero() && time.Since(r.failed) < doubtful: // nobody knows yet whether the other succeeds
		default:
			r.succeed(ctx)
		}
		if !pause.For(ctx, rest) {
			return
		}
	}
}

// fail gives the topic up: another dispatcher may reach the broker where this one does
// not. What is wrong may be that the topic is gone, or not as it was, so it is looked at
// again. How far it lags is said as long as nobody else is known to relay it.
func (r *relay) fail(ctx context.Context) {
	r.failed, r.ensured = time.Now(), false
	r.metrics.failed(r.topic)
	if !r.claimed.IsZero() {
		r.metrics.behind(r.topic, time.Since(r.empty))
	}
	r.giveUp(ctx)
}

// succeed notes a look that succeeded.
func (r *relay) succeed(ctx context.Context) {
	if !r.failed.IsZero() {
		r.log.InfoContext(ctx, "the topic can be relayed again")
	}
	r.failures.Reset()
	r.failed = time.Time{}
	r.succeeded()
}

// step looks at the topic once and says how long to rest.
func (r *relay) step(ctx context.Context) (time.Duration, error) {
	if err := r.find(ctx); err != nil {
		return 0, err
	}
	held, err := r.claim(ctx)
	if err != nil {
		return 0, err
	}
	if held {
		r.measure(ctx)
	}
	// Also where another holds it: whoever waits for a topic must be able to take it over.
	if err := r.ensure(ctx); err != nil || !held {
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

// find finds the bus that the lanes are on, before the topic is taken and after failures.
func (r *relay) find(ctx context.Context) error {
	if r.ensured {
		return nil
	}
	route, err := r.options.route(ctx)
	if err == nil && route != r.route {
		r.turn(ctx, route)
	}
	return err
}

// ensure creates or verifies the topic on the bus, at first and after failures.
func (r *relay) ensure(ctx context.Context) error {
	if r.ensured {
		return nil
	}
	var lanes []string
	if !r.dead {
		lanes = []string{r.topic}
	}
	if err := r.route.Bus.Ensure(ctx, lanes); err != nil {
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
	if err := r.comeBack(ctx); err != nil {
		return false, err
	}
	if err := r.confirm(ctx); err != nil {
		return false, err
	}
	if taken {
		if r.failed.IsZero() {
			r.log.InfoContext(ctx, "relaying the topic from now on")
		}
		r.metrics.holds(r.topic, true)
		if r.marker != nil {
			r.marker.takeOver(now)
		}
	}
	return true, nil
}

// comeBack finds out whether another has relayed anything since this relay had the topic.
func (r *relay) comeBack(ctx context.Context) error {
	moved := r.empty.IsZero()
	if !moved && r.elsewhere {
		page, err := r.ledger.ReadOutbox(ctx, r.topic, r.holder, 1)
		if err != nil {
			return err
		}
		moved = len(page.Rows) == 0 || page.Cursor.Version != r.version
	}
	if r.elsewhere = false; moved {
		r.empty = r.claimed
	}
	return nil
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

// drop notes that another holds the topic, and says what there is to say of it.
func (r *relay) drop() {
	r.claimed, r.measured, r.elsewhere = time.Time{}, time.Time{}, true
	r.metrics.holds(r.topic, false)
	r.metrics.leave(r.topic)
}

// giveUp ends the claim, so that another need not wait for its end.
func (r *relay) giveUp(ctx context.Context) {
	if r.claimed.IsZero() {
		return
	}
	r.claimed = time.Time{}
	r.metrics.holds(r.topic, false)
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
	r.version = page.Cursor.Version
	if len(page.Rows) == 0 {
		r.empty = began
		r.metrics.behind(r.topic, 0)
		return sawNothing, nil
	}
	r.metrics.behind(r.topic, began.Sub(r.empty))
	if err := failpoint.At(failpoint.RelayRead); err != nil {
		return sawNothing, err
	}
	messages, refs, err := r.messages(ctx, page.Rows)
	if err != nil {
		return sawNothing, err
	}
	if err := r.publisher.publish(ctx, messages); err != nil {
		return sawNothing, err
	}
	if err := failpoint.At(failpoint.RelayPublished); err != nil {
		return sawNothing, err
	}
	if err := r.ledger.Advance(ctx, r.topic, r.holder, page); err != nil {
		return sawNothing, err
	}
	r.version++
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

// tend does what is due besides: a mark, a further try of what was set aside.
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
	return errors.Join(errs...)
}
