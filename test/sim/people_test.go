package sim

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/redrive"
	"duly.dev/duly/pkg/job"
)

// person is an operator at the desk, who looks at what needs a person every few seconds and
// decides about some of it. Persons are honest: what they say about an effect was so when
// they looked; when they say it is another matter.
func (w *world) person(l *life) (func(context.Context) error, error) {
	far := &ledger{l, w.ledger}
	p := &person{life: l, far: far, desk: redrive.NewDesk(far, far, redrive.Options{})}
	return p.run, nil
}

type person struct {
	*life
	far  *ledger
	desk *redrive.Desk
}

func (p *person) run(ctx context.Context) error {
	for i := 0; ctx.Err() == nil && !p.w.calm.Load(); i++ {
		c := p.w.dice.roll(p.name, "look", i)
		if p.w.rest(ctx, place(p.p.slot, "List"), c.between(2*time.Second, 6*time.Second)) != nil {
			return ctx.Err()
		}
		listed, err := p.far.List(ctx, machine.ListRequest{})
		if err != nil {
			continue
		}
		for _, e := range listed.Entries {
			p.decide(ctx, e)
		}
		p.withdraw(ctx, c)
	}
	return nil
}

// decide may act on something that needs a person.
func (p *person) decide(ctx context.Context, e machine.Entry) {
	w := p.w
	c := w.dice.roll(p.name, e.Kind, e.Key, e.Generation, w.elapsed())
	switch e.State {
	case job.Quarantined:
		if f := w.onWire(c, redrives); f != "" && e.Generation < 3 {
			p.redrive(ctx, e, c, false)
		}
	case job.Unknown:
		switch w.onWire(c, forces, resolvesYes, resolvesNo, givesUp) {
		case forces:
			if e.Generation < 3 {
				p.redrive(ctx, e, c, true)
			}
		case givesUp:
			w.happenedf(givesUp, "%s, %s/%s", p.name, e.Kind, e.Key)
			_ = p.again(ctx, func() error {
				_, err := p.desk.Resolve(ctx, machine.Answer{Kind: e.Kind, Key: e.Key, Fence: e.Fence, Verdict: machine.VerdictGiveUp, Evidence: "nobody will ever know", Actor: p.name})
				return err
			})
		case resolvesYes, resolvesNo:
			p.resolve(ctx, e, c)
		default: // not today
		}
	default: // nothing else is listed
	}
}

// redrive opens the next generation, under a key that the other person may have drawn too.
func (p *person) redrive(ctx context.Context, e machine.Entry, c chance, force bool) {
	w := p.w
	key := fmt.Sprintf("incident %d", e.Generation)
	if !w.dice.roll(e.Kind, e.Key, "both").below(w.plan.rates[redrivesBoth]) {
		key += " of " + p.p.name
	}
	r := machine.RedriveRequest{
		Kind: e.Kind, Key: e.Key, Generation: e.Generation, RecoveryKey: key, Approver: "boss", Actor: p.name, Reason: "it is repaired",
		Forced: force,
	}
	if force {
		r.Evidence = "it is worth a second one"
	}
	if c.of("later").below(0.2) {
		r.NotBefore = w.now().Add(5 * time.Second).Truncate(time.Second) // both ask for the same
	}
	var made machine.Successor
	err := p.again(ctx, func() (err error) {
		made, err = p.desk.Redrive(ctx, r)
		return err
	})
	if err != nil {
		w.sayf("%s: redrive of %s/%s is refused: %v", p.name, e.Kind, e.Key, err)
		return
	}
	f := map[bool]fault{true: forces, false: redrives}[force]
	if made.Again {
		f = redrivesBoth
	}
	w.happenedf(f, "%s, %s/%s, generation %d", p.name, e.Kind, e.Key, made.Generation)
}

// resolve looks at the receiver and says what was there, perhaps later.
func (p *person) resolve(ctx context.Context, e machine.Entry, c chance) {
	w := p.w
	story, err := p.far.Find(ctx, e.Kind, e.Key)
	if err != nil {
		return
	}
	g, ok := story.Current()
	if !ok || g.State != job.Unknown {
		return
	}
	happened, _ := w.receiver.truth(job.WireEffectKey(e.Kind, e.Key, g.Generation, g.Channel))
	a := machine.Answer{Kind: e.Kind, Key: e.Key, Fence: g.Fence, Verdict: machine.VerdictNotDelivered, Evidence: "their log", Actor: p.name, LookedAt: w.now()}
	f := resolvesNo
	if happened {
		a.Verdict, f = machine.VerdictDelivered, resolvesYes
	}
	if w.rest(ctx, place(p.p.slot, "Find"), c.of("later").between(time.Millisecond, 10*time.Second)) != nil {
		return
	}
	err = p.again(ctx, func() error {
		_, err := p.desk.Resolve(ctx, a)
		return err
	})
	if err == nil {
		w.happenedf(f, "%s, %s/%s", p.name, e.Kind, e.Key)
	}
}

// withdraw may cancel any job.
func (p *person) withdraw(ctx context.Context, c chance) {
	w := p.w
	if w.onWire(c, cancels) == "" {
		return
	}
	s := w.spec(c.of("which").upTo(w.plan.jobs))
	err := p.again(ctx, func() error {
		_, err := p.desk.Cancel(ctx, machine.Cancellation{Kind: s.Kind, Key: s.Key, Actor: p.name, Reason: "not wanted any more"})
		return err
	})
	if err == nil {
		w.happenedf(cancels, "%s, %s/%s", p.name, s.Kind, s.Key)
	}
}

// again repeats what nobody answered.
func (p *person) again(ctx context.Context, do func() error) error {
	for {
		err := do()
		if !errors.Is(err, machine.ErrUnclear) && !errors.Is(err, machine.ErrAway) || ctx.Err() != nil || p.dead() {
			return err
		}
		if err := p.w.rest(ctx, place(p.p.slot, "look"), time.Second); err != nil {
			return err
		}
	}
}

// producer enqueues all jobs of the plan, each at its time, until each is accepted.
func (w *world) producer(l *life) (func(context.Context) error, error) {
	far := &ledger{l, w.ledger}
	return func(ctx context.Context) error {
		for i := range w.plan.jobs {
			w.enqueues(ctx, far, i)
		}
		return nil
	}, nil
}

// spec is the job of the number.
func (w *world) spec(i int) job.Spec {
	c := w.dice.roll("job", i)
	s := job.Spec{Kind: kindNames[c.of("kind").upTo(len(kindNames))], Key: keyOf(i), Subject: "s", Destination: "d", Payload: []byte(`1`)}
	if c.of("due").below(0.3) {
		s.Due = w.began.Add(c.of("at").between(0, stormy)).UTC().Truncate(time.Microsecond)
	}
	return s
}

func keyOf(i int) string { return fmt.Sprintf("job-%02d", i) }

// number is the number of a job by its key.
func (w *world) number(key string) int {
	i, err := strconv.Atoi(strings.TrimPrefix(key, "job-"))
	if err != nil {
		panic(err)
	}
	return i
}

// enqueues begins to enqueue a job, behind the one before.
func (w *world) enqueues(ctx context.Context, far *ledger, i int) {
	c := w.dice.roll("enqueue", i)
	if w.rest(ctx, place(slotProducer, "look"), c.between(0, 4*stormy/3/time.Duration(w.plan.jobs))) != nil {
		return
	}
	s := w.spec(i)
	if c.of("deadline").below(0.25) {
		soonest := time.Now().UTC()
		if s.Due.After(soonest) {
			soonest = s.Due
		}
		s.Deadline = soonest.Add(c.of("within").between(5*time.Second, stormy)).Truncate(time.Microsecond)
	}
	times := 1
	if w.onWire(c, enqueuesBoth) != "" {
		times = 2
		w.happenedf(enqueuesBoth, "%s/%s", s.Kind, s.Key)
	}
	for range times {
		w.producing.Go(func() { w.enqueueOnce(ctx, far, s) })
		_ = w.rest(ctx, place(slotProducer, "look"), 3*time.Millisecond)
	}
	if w.onWire(c, replaces) == "" {
		return
	}
	w.producing.Go(func() {
		_ = w.rest(ctx, place(slotProducer, "Replace"), c.of("replace").between(10*time.Millisecond, 10*time.Second))
		other := s
		other.Payload = []byte(`2`)
		if made, err := far.Replace(ctx, other); err == nil && made.Replaced {
			w.happenedf(replaces, "%s/%s", s.Kind, s.Key)
		}
	})
}

// enqueueOnce enqueues a job until somebody says that it is there, or never will be.
func (w *world) enqueueOnce(ctx context.Context, far *ledger, s job.Spec) {
	for {
		made, err := far.Enqueue(ctx, s)
		switch {
		case err == nil && made.Refused == nil:
			w.mu.Lock()
			w.accepted[s.Kind+"/"+s.Key] = s
			w.mu.Unlock()
			return
		case err == nil, ctx.Err() != nil:
			return
		}
		if w.rest(ctx, place(slotProducer, "Enqueue"), time.Second) != nil {
			return
		}
	}
}
