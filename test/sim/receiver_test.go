package sim

import (
	"context"
	"sync"
	"time"

	"duly.dev/duly/internal/channel"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// receiver is what lies behind all channels. It keeps what the kinds declare about it, to
// the instant, and nothing beyond: it acts as late as it may, forgets as soon as it may, says
// "no" as long as that is true, and does not answer when it does not feel like it.
type receiver struct {
	w *world

	mu   sync.Mutex
	done map[string]*deed // by effect key
}

// deed is what the receiver did for an effect key.
type deed struct {
	acts    int
	last    time.Duration
	pending int // requests that it works on
}

// act lets the receiver act on a request, unless it dedupes it.
func (r *receiver) act(k machine.Kind, effectKey string) {
	now := r.w.elapsed()
	keeps := k.Promises.Window
	if r.w.plan.clockSteps() {
		keeps += swing
	}
	r.mu.Lock()
	d := r.of(effectKey)
	d.pending--
	repeat := k.Promises.Window > 0 && d.acts > 0 && now < d.last+keeps
	if !repeat {
		d.acts++
		d.last = now
	}
	acts := d.acts
	r.mu.Unlock()
	if repeat {
		r.w.happenedf(repeated, "%s", effectKey)
		return
	}
	r.w.sayf("the receiver acts on %s", effectKey)
	r.w.history.acted(effectKey, acts)
}

// of is what was done for the key. The receiver is locked.
func (r *receiver) of(effectKey string) *deed {
	d := r.done[effectKey]
	if d == nil {
		d = &deed{}
		r.done[effectKey] = d
	}
	return d
}

// truth is whether it has happened, and whether it may yet.
func (r *receiver) truth(effectKey string) (happened, pending bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.of(effectKey)
	return d.acts > 0, d.pending > 0
}

// arrives begins to work on a request and ends after a while, by acting. Then it answers.
func (r *receiver) arrives(k machine.Kind, effectKey string, at int, takes time.Duration, answer chan<- none) {
	r.mu.Lock()
	r.of(effectKey).pending++
	r.mu.Unlock()
	_ = r.w.rest(context.Background(), at, takes)
	r.act(k, effectKey)
	answer <- none{}
}

// performer is the channel by which a life of a worker reaches the receiver.
type performer struct {
	*life
	kind machine.Kind
}

// Name is the channel's.
func (p *performer) Name() string { return p.kind.Channel }

// Check refuses nothing.
func (p *performer) Check(string, []byte) *job.Refusal { return nil }

// Close ends nothing.
func (p *performer) Close() error { return nil }

// scripts are what may become of an attempt; the first that is drawn.
var scripts = []fault{
	unreachable, refusesNow, refusesForGood, refusesOddly, silent, requestLost, connectionLost, connectionReset,
	answersLate, writesLate, panics, neverReturns,
}

// ambiguous are the scripts after which nobody here can know.
var ambiguous = map[fault]bool{
	silent: true, requestLost: true, connectionLost: true, connectionReset: true, answersLate: true, writesLate: true, panics: true, neverReturns: true,
}

// Deliver plays the script of an attempt.
func (p *performer) Deliver(ctx context.Context, e channel.Effect) job.Result {
	l, w := p.life, p.w
	at := placeAttempt + w.number(e.Key)
	c := w.dice.roll(l.name, e.EffectKey, e.Attempt, w.elapsed())
	script := w.onWire(c, scripts...)
	if err := l.travel(ctx, at, latency(c)); err != nil {
		return job.NotBegun("it ended before it began")
	}
	if script == unreachable {
		w.happenedf(script, "%s", e.EffectKey)
		return job.NotDone(job.ClassTransient, job.CodeUnreachable, "no route")
	}
	if err := e.Begin(); err != nil {
		w.sayf("%s does not begin %s: %v", l.name, e.EffectKey, err)
		_ = l.travel(context.Background(), at, latency(c.of("refused")))
		return job.NotBegun(err.Error())
	}
	w.history.begins(l, e, p.kind)
	if script != "" {
		w.happenedf(script, "%s", e.EffectKey)
	}
	if ambiguous[script] {
		w.history.ambiguous(l, e)
	}
	if p.kind.Name == kindLong {
		return p.handle(ctx, e, c, script)
	}
	return p.send(ctx, e, c, script)
}

// send sends a request and waits for its answer.
func (p *performer) send(ctx context.Context, e channel.Effect, c chance, script fault) job.Result {
	l, w := p.life, p.w
	at := placeAttempt + w.number(e.Key)
	answer := make(chan none, 1)
	soon := c.of("soon").between(time.Millisecond, time.Second)
	switch script {
	case refusesNow, refusesForGood, refusesOddly:
		_ = l.travel(ctx, at, soon)
		return p.refusal(c, script)
	case requestLost, connectionReset:
	default: // something is sent
		if (script != panics && script != neverReturns) || c.of("acts").below(0.5) {
			p.request(e, c, script, answer)
		}
	}
	switch script {
	case connectionLost, connectionReset:
		_ = l.travel(ctx, at, soon)
		return job.MayBeDone(job.CodeConnectionLost, "the connection ended")
	case panics:
		_ = l.travel(ctx, at, soon)
		panic("the handler has a fault")
	case answersLate:
		return p.outlive(at, c.of("late").between(limit, limit+pauseBound+3*time.Second), job.Done(&job.Receipt{ID: e.EffectKey}))
	case neverReturns:
		return p.outlive(at, c.of("late").between(limit+pauseBound+time.Second, limit+pauseBound+4*time.Second), job.MayBeDone(job.CodeTimeout, "it came back at last"))
	case silent:
		answer = nil
	default: // it is answered, sooner or later
	}
	select {
	case <-answer:
		if l.travel(context.Background(), at, latency(c.of("answer"))) == nil {
			return job.Done(&job.Receipt{ID: e.EffectKey})
		}
	case <-ctx.Done():
	case <-l.gone:
	}
	_ = l.travel(context.Background(), at, latency(c.of("timeout")))
	return job.MayBeDone(job.CodeTimeout, "no answer in time")
}

// outlive returns only after a while, whatever its context says.
func (p *performer) outlive(at int, d time.Duration, r job.Result) job.Result {
	if p.travel(context.Background(), at, d) != nil {
		return job.MayBeDone(job.CodeTimeout, "the process is gone")
	}
	return r
}

// refusal is the answer of a receiver that did not act.
func (p *performer) refusal(c chance, script fault) job.Result {
	class := map[fault]job.Class{refusesNow: job.ClassTransient, refusesForGood: job.ClassPermanent, refusesOddly: job.ClassUnclassified}[script]
	r := job.NotDone(class, job.CodeReceiverBusy, "not now")
	if p.w.onWire(c.of("wait"), asksToWait) != "" {
		p.w.happenedf(asksToWait, "%s", script)
		r.RetryAfter = c.of("for").between(time.Second, 20*time.Second)
	}
	return r
}

// request writes the request, at the latest at the attempt's last possible byte, and lets the
// receiver work on it for as long as it may.
func (p *performer) request(e channel.Effect, c chance, script fault, answer chan<- none) {
	l, w := p.life, p.w
	began := w.elapsed()
	last := began + p.kind.Policy.Limit + pauseBound
	write := c.of("write").between(100*time.Microsecond, 2*time.Millisecond)
	if script == writesLate {
		write = c.of("write").between(0, last-began)
	}
	takes := c.of("takes").between(time.Millisecond, time.Second)
	if (script == silent || script == writesLate) && w.onWire(c, actsLate) != "" {
		takes = c.of("takes").between(time.Second, w.settleWithin())
		w.happenedf(actsLate, "%s", e.EffectKey)
	}
	at := placeRequest + w.number(e.Key)
	w.loose.Go(func() {
		_ = w.rest(context.Background(), at, write)
		l.awake(at, 0)
		now := w.elapsed()
		if now > last || (l.dead() && c.of("sent").below(0.5)) {
			return // no process writes after that, and one that crashed may have written nothing
		}
		w.receiver.arrives(p.kind, e.EffectKey, at, takes, answer)
	})
}

// settleWithin is how long the receiver may go on working on a request.
func (w *world) settleWithin() time.Duration {
	if w.plan.clockSteps() {
		return settle - swing
	}
	return settle - time.Millisecond
}

// handle is a Go handler, which works for longer than a lease, writes at the end, and
// nothing once its context has ended.
func (p *performer) handle(ctx context.Context, e channel.Effect, c chance, script fault) job.Result {
	l, w := p.life, p.w
	at := placeAttempt + w.number(e.Key)
	err := l.travel(ctx, at, c.of("works").between(time.Second, longLimit-time.Second))
	if err != nil {
		w.history.ambiguous(l, e)
		return job.MayBeDone(job.CodeHandlerError, "it was cut short")
	}
	switch script {
	case refusesNow, refusesForGood, refusesOddly:
		return p.refusal(c, script)
	case requestLost, connectionReset:
		return job.MayBeDone(job.CodeHandlerError, "it does not know")
	default: // it acts
	}
	w.receiver.mu.Lock()
	w.receiver.of(e.EffectKey).pending++
	w.receiver.mu.Unlock()
	w.receiver.act(p.kind, e.EffectKey)
	switch script {
	case panics:
		panic("the handler has a fault")
	case "":
		return job.Done(&job.Receipt{ID: e.EffectKey})
	default:
		return job.MayBeDone(job.CodeHandlerError, "it does not know")
	}
}

// oracle asks the receiver for a life of a scheduler.
type oracle struct {
	*life
}

// Close ends nothing.
func (o *oracle) Close() error { return nil }

// Ask tells the truth as of one instant between question and answer, or nothing.
func (o *oracle) Ask(ctx context.Context, q channel.Inquiry) channel.Answer {
	w, at := o.w, placeInquiry+o.w.number(q.Key)
	c := w.dice.roll(o.name, "ask", q.EffectKey, w.elapsed())
	f := w.onWire(c, lookupSilent, lookupWorking)
	if err := o.travel(ctx, at, latency(c)); err != nil {
		return channel.NoAnswer("it was cut short")
	}
	if f != "" {
		w.happenedf(f, "%s", q.EffectKey)
	}
	happened, pending := w.receiver.truth(q.EffectKey)
	if err := o.travel(ctx, at, c.of("back").between(time.Millisecond, 3*time.Second)); err != nil {
		return channel.NoAnswer("it was cut short")
	}
	switch {
	case f == lookupSilent:
		return channel.NoAnswer("no answer")
	case f == lookupWorking, pending && c.of("working").below(0.5):
		return channel.Answer{Said: job.SaidWorking}
	case happened:
		return channel.Answer{Said: job.SaidYes, Receipt: &job.Receipt{ID: q.EffectKey}}
	}
	return channel.Answer{Said: job.SaidNo}
}
