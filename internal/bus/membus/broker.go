package membus

import (
	"bytes"
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/pkg/job"
)

// Options are the settings of a broker. The zero value is valid.
type Options struct {
	// Visibility is how long the broker waits before it delivers again what a crashed
	// connection held; default 30 s.
	Visibility time.Duration
	// MaxMessage is the largest body, in bytes; default 1 MiB.
	MaxMessage int
	// DuplicateWindow is how long message ids are remembered; default 2 min, negative
	// for not at all.
	DuplicateWindow time.Duration
	// Hear says how long the n-th consumer, counted from 1, takes to hear that something
	// may have come; nil for at once. Of two that wait for one message chance decides who
	// gets it, unless they hear of it one after the other.
	Hear func(consumer int) time.Duration
}

// Fate is what the broker does with a message that it acknowledges.
type Fate int

const (
	// Keep delivers it, as a broker should.
	Keep Fate = iota
	// Lose forgets it.
	Lose
	// Duplicate delivers it twice.
	Duplicate
	// Overtake delivers it before all that waits.
	Overtake
)

// Faults say what goes wrong. A nil function lets nothing go wrong. They are called with no
// lock held, one call for each message.
type Faults struct {
	// Refuse fails the publication of a message with the error that it returns.
	Refuse func(bus.Message) error
	// Fate decides over a message that is not refused.
	Fate func(bus.Message) Fate
}

// Broker holds the queues. It is safe for concurrent use.
type Broker struct {
	options Options

	mu     sync.Mutex
	faults Faults
	down   bool
	queues map[string]*queue
	stored uint64 // numbers the items
	heard  int    // numbers the consumers
}

// deadQueue is the name of the queue of notices, which no lane can have.
const deadQueue = "."

// NewBroker makes an empty broker.
func NewBroker(options Options) *Broker {
	if options.Visibility == 0 {
		options.Visibility = 30 * time.Second
	}
	if options.MaxMessage == 0 {
		options.MaxMessage = 1 << 20
	}
	if options.DuplicateWindow == 0 {
		options.DuplicateWindow = 2 * time.Minute
	}
	return &Broker{options: options, queues: map[string]*queue{}}
}

// SetFaults replaces what goes wrong from now on.
func (b *Broker) SetFaults(f Faults) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = f
}

// Stop begins an outage: publishing fails, receiving waits, acknowledgements are not
// heard. Nothing that is stored is lost.
func (b *Broker) Stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = true
}

// Start ends an outage.
func (b *Broker) Start() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = false
	b.wakeAll()
}

// Wipe loses all messages, also those that are out: what is acknowledged later is not
// known any more.
func (b *Broker) Wipe() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, q := range b.queues {
		q.empty()
	}
}

// Depth is the number of messages of the lane that are not acknowledged: waiting, delayed and
// out.
func (b *Broker) Depth(lane string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queue(lane)
	return len(q.ready) + len(q.later) + len(q.out)
}

// Inject stores a message on a lane as it is, whatever it is, as who is not Duly could.
func (b *Broker) Inject(lane string, m bus.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.store(b.queue(lane), m, Keep, time.Now())
}

// wakeAll lets all who wait look again. Called with the lock held.
func (b *Broker) wakeAll() {
	for _, q := range b.queues {
		q.wakeUp()
	}
}

// queue returns a queue, made if it is not there. Called with the lock held.
func (b *Broker) queue(name string) *queue {
	q := b.queues[name]
	if q == nil {
		q = &queue{out: map[*item]struct{}{}, ids: map[string]time.Time{}, changed: make(chan struct{})}
		b.queues[name] = q
	}
	return q
}

var errDown = errors.New("the broker is down")

// publish stores one message, as faults have it.
func (b *Broker) publish(m bus.Message) error {
	name, err := b.check(m)
	if err != nil {
		return err
	}
	b.mu.Lock()
	faults, down := b.faults, b.down
	b.mu.Unlock()
	if down {
		return errDown
	}
	if faults.Refuse != nil {
		if err := faults.Refuse(m); err != nil {
			return err
		}
	}
	fate := Keep
	if faults.Fate != nil {
		fate = faults.Fate(m)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	q, now := b.queue(name), time.Now()
	if m.ID == "" || q.firstSeen(m.ID, now, b.options.DuplicateWindow) {
		b.store(q, m, fate, now)
	}
	return nil
}

// check refuses what can never be sent and returns the queue's name.
func (b *Broker) check(m bus.Message) (string, error) {
	name := m.Lane
	if m.Type == bus.TypeDead {
		name = deadQueue
	}
	switch {
	case m.Type != bus.TypeWork && m.Type != bus.TypeMark && m.Type != bus.TypeDead:
		return "", fmt.Errorf("%w: type %q is not one that Duly sends", bus.ErrUnsendable, m.Type)
	case name != deadQueue && !job.ValidName(name):
		return "", fmt.Errorf("%w: lane %q is not a name", bus.ErrUnsendable, name)
	case len(m.ID) > bus.MaxID:
		return "", fmt.Errorf("%w: its id has %d bytes, at most %d are allowed", bus.ErrUnsendable, len(m.ID), bus.MaxID)
	case len(m.Body) > b.options.MaxMessage:
		return "", fmt.Errorf("%w: it has %d bytes, the broker takes at most %d", bus.ErrUnsendable, len(m.Body), b.options.MaxMessage)
	}
	return name, nil
}

// store puts a message where its time and fate have it. Called with the lock held.
func (b *Broker) store(q *queue, m bus.Message, fate Fate, now time.Time) {
	m.Body = bytes.Clone(m.Body) // the publisher may use it again
	copies := 1
	switch fate {
	case Lose:
		copies = 0
	case Duplicate:
		copies = 2
	case Keep, Overtake:
	}
	for range copies {
		b.stored++
		it := &item{number: b.stored, message: m}
		switch {
		case m.Type == bus.TypeWork && m.At.After(now):
			it.at = m.At
			heap.Push(&q.later, it)
		case fate == Overtake:
			q.ready = append([]*item{it}, q.ready...)
		default:
			q.ready = append(q.ready, it)
		}
	}
	q.wakeUp()
}

// item is one stored message.
type item struct {
	number  uint64 // in order of storage, so that every order is the same in each simulation
	message bus.Message
	at      time.Time // when a delayed one enters the queue, or one of a crashed owner comes back
	owner   *Bus      // who holds it; nil once that connection crashed
}

// queue is one lane. All its methods are called with the broker's lock held.
type queue struct {
	ready   []*item            // in order of delivery
	later   delayed            // by time
	out     map[*item]struct{} // delivered, not settled
	ids     map[string]time.Time
	idOrder []string      // ids, oldest first
	changed chan struct{} // closed when there may be something to receive
}

// firstSeen remembers an id and says whether it is new within the window.
func (q *queue) firstSeen(id string, now time.Time, window time.Duration) bool {
	if window < 0 {
		return true
	}
	for len(q.idOrder) > 0 && !q.ids[q.idOrder[0]].Add(window).After(now) {
		delete(q.ids, q.idOrder[0])
		q.idOrder = q.idOrder[1:]
	}
	if _, seen := q.ids[id]; seen {
		return false
	}
	q.ids[id] = now
	q.idOrder = append(q.idOrder, id)
	return true
}

// take hands out at most limit messages to owner.
func (q *queue) take(owner *Bus, limit int, now time.Time) []*item {
	for len(q.later) > 0 && !q.later[0].at.After(now) {
		q.ready = append(q.ready, heap.Pop(&q.later).(*item))
	}
	n := min(limit, len(q.ready))
	taken := append([]*item(nil), q.ready[:n]...)
	q.ready = q.ready[n:]
	for _, it := range taken {
		it.owner = owner
		q.out[it] = struct{}{}
	}
	return taken
}

// next is when a message comes due without anyone doing anything; zero for never.
func (q *queue) next() time.Time {
	if len(q.later) == 0 {
		return time.Time{}
	}
	return q.later[0].at
}

// giveBack puts messages at the head of the queue, so that they come soon.
func (q *queue) giveBack(items ...*item) {
	for _, it := range items {
		delete(q.out, it)
		it.owner = nil
	}
	q.ready = append(append([]*item(nil), items...), q.ready...)
	q.wakeUp()
}

// heldBy returns what owner holds, oldest first.
func (q *queue) heldBy(owner *Bus) []*item {
	var held []*item
	for it := range q.out {
		if it.owner == owner {
			held = append(held, it)
		}
	}
	slices.SortFunc(held, func(a, b *item) int { return cmp.Compare(a.number, b.number) })
	return held
}

// hide lets messages come again at a time.
func (q *queue) hide(items []*item, until time.Time) {
	for _, it := range items {
		delete(q.out, it)
		it.owner, it.at = nil, until
		heap.Push(&q.later, it)
	}
	q.wakeUp()
}

func (q *queue) empty() {
	q.ready, q.later, q.idOrder = nil, nil, nil
	clear(q.out)
	clear(q.ids)
}

func (q *queue) wakeUp() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// delayed is a heap by time.
type delayed []*item

// Len, Less, Swap, Push and Pop are the heap's.
func (d delayed) Len() int { return len(d) }

// Less orders by time, then by number.
func (d delayed) Less(i, j int) bool {
	if c := d[i].at.Compare(d[j].at); c != 0 {
		return c < 0
	}
	return d[i].number < d[j].number
}

// Swap swaps two.
func (d delayed) Swap(i, j int) { d[i], d[j] = d[j], d[i] }

// Push adds one.
func (d *delayed) Push(x any) { *d = append(*d, x.(*item)) }

// Pop removes the last.
func (d *delayed) Pop() any {
	last := len(*d) - 1
	it := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	return it
}
