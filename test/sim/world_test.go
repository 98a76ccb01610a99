package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"duly.dev/duly/internal/bus/membus"
	"duly.dev/duly/internal/contact"
	"duly.dev/duly/internal/dispatch"
	"duly.dev/duly/internal/execute"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/memledger"
	"duly.dev/duly/internal/schedule"
	"duly.dev/duly/internal/sweep"
	"duly.dev/duly/pkg/job"
)

// world is one schedule: everything that takes part in it.
type world struct {
	journal

	seed     uint64
	dice     dice
	plan     plan
	kinds    []machine.Kind
	ledger   *memledger.Ledger
	broker   *membus.Broker
	receiver *receiver
	history  *history

	processes []*process // workers first
	persons   []*process
	// calm: nothing goes wrong any more.
	calm atomic.Bool
	// producing are requests of the producer that were not answered for good.
	producing sync.WaitGroup
	// loose are goroutines of nobody: commits and requests that are on their way.
	loose sync.WaitGroup

	mu       sync.Mutex
	accepted map[string]job.Spec // that their producers were told of
	offset   time.Duration       // of the ledger's clock
	stepped  time.Duration       // when it last stepped; negative: never
	downFrom time.Duration       // the ledger is away from then
	downTo   time.Duration       // until then
}

// kindNames are the kinds, by what they declare.
var kindNames = []string{"none", "window", "lookup", "both", kindLong}

// kindLong is performed by a Go handler that works longer than a lease.
const kindLong = "long"

func newKinds() []machine.Kind {
	var all []machine.Kind
	for i, name := range kindNames {
		k := machine.Kind{
			Name: name, Lane: [2]string{"mail", "post"}[i%2], Channel: "sim", RedriveBy: machine.RoleOperator,
			Policy: machine.Policy{
				Limit: limit, MaxAttempts: 4, MaxAge: 10 * time.Minute, MaxLifetime: 15 * time.Minute, Base: 2 * time.Second, Cap: 10 * time.Second,
				Jitter: 0.5, UnclassifiedCap: 2, MaxHold: time.Minute, LeaseTime: leaseTime, PauseBound: pauseBound,
			},
			Promises: machine.Promises{Settle: settle, ResolveWithin: resolveWithin},
		}
		if name == "window" || name == "both" || name == kindLong {
			k.Promises.Window = window
		}
		if name == "lookup" || name == "both" {
			k.Promises.Lookup = machine.MeansHTTP
		}
		if name == kindLong {
			k.Channel, k.Policy.Limit = "go", longLimit
		}
		if name == "both" || name == "none" {
			k.Cleanup = &machine.CleanupRule{By: machine.MeansGo, When: machine.CleanupDelivered, From: 2 * time.Second, After: 10 * time.Second, MaxTries: 5, MaxAge: time.Minute}
		}
		all = append(all, k)
	}
	return all
}

// newWorld makes the world of a seed. It must be made in a bubble.
func newWorld(seed uint64) *world {
	d := dice(seed)
	w := &world{
		journal: journal{began: time.Now(), fired: map[fault]int{}},
		seed:    seed, dice: d, plan: newPlan(d, seed), kinds: newKinds(), accepted: map[string]job.Spec{}, stepped: -1,
	}
	w.history = newHistory(w)
	w.receiver = &receiver{w: w, done: map[string]*deed{}}
	w.ledger = memledger.New(memledger.Clock(w.now))
	w.ledger.Observe(w.history.decided)
	w.broker = w.newBroker()
	slot := slotProcess
	add := func(n int, name string, to *[]*process, loops func(*life) (func(context.Context) error, error)) {
		for i := range n {
			*to = append(*to, &process{w: w, name: fmt.Sprintf("%s-%d", name, i+1), slot: slot, loops: loops})
			slot++
		}
	}
	add(w.plan.workers, "worker", &w.processes, w.worker)
	add(w.plan.dispatchers, "dispatcher", &w.processes, w.dispatcher)
	add(w.plan.schedulers, "scheduler", &w.processes, w.scheduler)
	slot = slotProducer
	add(1, "producer", &w.persons, w.producer)
	add(2, "person", &w.persons, w.person)
	return w
}

// now is the ledger's clock.
func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().UTC().Add(w.offset)
}

// steppedSince reports whether the ledger's clock has stepped since the instant.
func (w *world) steppedSince(at time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stepped >= at && w.stepped >= 0
}

// down lets the ledger be away for a while.
func (w *world) down(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.elapsed()
	if now >= w.downTo {
		w.downFrom = now
	}
	w.downTo = max(w.downTo, now+d)
}

// wasAway reports whether the ledger was away for longer than that between two instants.
func (w *world) wasAway(from, to, than time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return min(w.downTo, to)-max(w.downFrom, from) > than+time.Second
}

func (w *world) isDown() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.elapsed() < w.downTo
}

// worker makes a worker as its program does. One of several may not know a kind yet in its
// first life.
func (w *world) worker(l *life) (func(context.Context) error, error) {
	far := &ledger{l, w.ledger}
	var kinds []execute.Kind
	for _, k := range w.kinds {
		if k.Name == "both" && l.isOld() {
			continue
		}
		kinds = append(kinds, execute.Kind{Kind: k, Performer: &performer{l, k}, Handler: k.Name == kindLong, Classifier: "sim"})
	}
	made, err := execute.New(execute.Options{
		Ledger: far, Heart: far, Bus: wire{l}, Kinds: kinds, Lanes: []execute.Lane{{Name: "mail", Pack: w.plan.pack}, {Name: "post", Pack: w.plan.pack}},
		Label: l.name, Version: "sim", NewID: l.newID, Slots: w.plan.slots, LeaseTime: leaseTime, Heartbeat: heartbeat, Drain: drain,
	})
	if err != nil {
		return nil, err
	}
	return made.Run, nil
}

// isOld reports whether the life is of a version that does not know every kind.
func (l *life) isOld() bool { return l.n == 1 && l.p.name == "worker-2" && l.w.plan.asked(oldVersion) }

// dispatcher makes a dispatcher.
func (w *world) dispatcher(l *life) (func(context.Context) error, error) {
	made, err := dispatch.New(dispatch.Options{
		Ledger: &ledger{l, w.ledger}, Bus: wire{l}, Pack: func(string) int { return w.plan.pack },
		Claim: 3 * time.Second, Rest: 500 * time.Millisecond, MarkEvery: 5 * time.Second, MarkMost: 40 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	return made.Run, nil
}

// scheduler makes a scheduler: promotion, sweeps, asking and cleaning.
func (w *world) scheduler(l *life) (func(context.Context) error, error) {
	far := &ledger{l, w.ledger}
	watch, err := contact.New(contact.Options{Ledger: far, Hold: leaseTime})
	if err != nil {
		return nil, err
	}
	promotion, err := schedule.New(schedule.Options{Ledger: far, Watch: watch, Rest: 500 * time.Millisecond})
	if err != nil {
		return nil, err
	}
	sweeper, err := sweep.New(sweep.Options{Ledger: far, Watch: watch, LeaseTime: leaseTime})
	if err != nil {
		return nil, err
	}
	var asks []sweep.Askable
	var cleans []sweep.Cleanable
	for _, k := range w.kinds {
		if k.Promises.Lookup != "" {
			asks = append(asks, sweep.Askable{Kind: k.Name, Means: k.Promises.Lookup, Lookup: &oracle{l}, Timeout: 5 * time.Second})
		}
		if k.Cleanup != nil {
			cleans = append(cleans, sweep.Cleanable{Kind: k.Name, Cleaner: sweep.NewFuncCleaner(far, k.Name, 5*time.Second, l.clean)})
		}
	}
	asker, err := sweep.NewAsker(sweep.AskerOptions{Ledger: far, Watch: watch, Kinds: asks})
	if err != nil {
		return nil, err
	}
	janitor, err := sweep.NewJanitor(sweep.JanitorOptions{Watch: watch, Kinds: cleans})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		for far.SyncKinds(ctx, w.kinds) != nil {
			if err := w.rest(ctx, place(l.p.slot, "SyncKinds"), time.Second); err != nil {
				return err
			}
		}
		var loops errgroup.Group
		loops.Go(func() error { return promotion.Run(ctx) })
		loops.Go(func() error { return sweeper.Run(ctx) })
		loops.Go(func() error { return asker.Run(ctx) })
		loops.Go(func() error { return janitor.Run(ctx) })
		return loops.Wait()
	}, nil
}

// clean removes what was generated for a job.
func (l *life) clean(ctx context.Context, t machine.CleanupTask) error {
	return l.travel(ctx, place(l.p.slot, "Clean"), latency(l.w.dice.roll(l.name, "clean", t.Key, l.w.elapsed())))
}

// play plays the schedule to its end: a storm, then calm until everything is over.
func (w *world) play() {
	if err := w.ledger.SyncKinds(context.Background(), w.kinds); err != nil {
		panic(err) // it cannot fail
	}
	for i, p := range slices.Concat(w.processes, w.persons) {
		_ = w.rest(context.Background(), place(p.slot, "look"), time.Duration(1+i)*time.Millisecond)
		p.start()
	}
	incidents := w.storm()
	_ = w.rest(context.Background(), place(slotChaos, "look"), stormy-w.elapsed())
	incidents.Wait()
	w.settleDown()
	calm := w.elapsed()
	for !w.over() && w.elapsed()-calm < patience {
		_ = w.rest(context.Background(), place(slotChaos, "look"), time.Second)
	}
	w.sayf("it ends")
	for _, p := range slices.Concat(w.processes, w.persons) {
		if l := p.alive(); l != nil {
			l.end()
		}
		for _, l := range p.all {
			<-l.done
		}
	}
	w.loose.Wait()
}

// settleDown ends everything that goes wrong. The producer and the persons finish what they
// are about; every process runs, and in the newest version.
func (w *world) settleDown() {
	w.sayf("calm")
	w.calm.Store(true)
	w.broker.SetFaults(membus.Faults{})
	for _, p := range w.persons {
		<-p.alive().done
	}
	w.producing.Wait()
	for _, p := range w.processes {
		if l := p.alive(); l != nil && l.isOld() {
			p.renew()
		}
	}
}

// over reports whether every job has come to an end that nothing leaves by itself.
func (w *world) over() bool {
	w.history.mu.Lock()
	names := slices.Collect(maps.Keys(w.history.jobs))
	w.history.mu.Unlock()
	for _, name := range names {
		kind, key, _ := strings.Cut(name, "/")
		story, err := w.ledger.Find(context.Background(), kind, key)
		if g, ok := story.Current(); err != nil || ok && !over(g.Row) {
			return false
		}
	}
	return true
}
