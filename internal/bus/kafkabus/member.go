package kafkabus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"duly.dev/duly/internal/bus"
)

// member is what a process is in one consumer group, however many consumers it has there.
// It joins the group when somebody wants a message, and leaves it with its last consumer.
type member struct {
	bus    *Bus
	group  string // without the ids of the topics
	label  string
	topics []topic

	opening chan struct{} // holds one token: the right to begin a session
	pauses  *backoff.ExponentialBackOff

	mu        sync.Mutex
	changed   chan struct{} // closed, and replaced, when there may be something new
	consumers int
	session   *session // nil while it is not in the group
	trouble   error    // why it is not
	refusal   refusal  // what the brokers said instead of messages
	next      int      // which partition is asked first
}

func newMember(b *Bus, group, label string, topics []topic) *member {
	m := &member{bus: b, group: group, label: label, topics: topics, opening: make(chan struct{}, 1), changed: make(chan struct{}), pauses: newBackoff()}
	m.opening <- struct{}{}
	return m
}

// announce wakes all who wait. Called with the lock held.
func (m *member) announce() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// healthy says why nothing can be received.
func (m *member) healthy() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	trouble := m.trouble
	if trouble == nil && time.Since(m.refusal.at) < refusalStands {
		trouble = m.refusal.err
	}
	if trouble == nil || m.consumers == 0 {
		return nil
	}
	return fmt.Errorf("nothing can be received from %s: %w", m.label, trouble)
}

// refusal is an error that came in place of messages, and when it came last.
type refusal struct {
	err error
	at  time.Time
}

// refusalStands is for how long a refusal counts: one that stands comes with every poll,
// and nothing comes with those of a lane that is idle and well again.
const refusalStands = 10 * time.Second

// refused notes that the brokers refuse to say what there is.
func (m *member) refused(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refusal = refusal{err, time.Now()}
}

// worry remembers why the group cannot be joined.
func (m *member) worry(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.trouble = err
}

// take takes what is there for the consumer. It returns what to wait for if that is
// nothing, and whether a session has to be begun.
func (m *member) take(c *consumer, limit int) (taken []bus.Delivery, changed <-chan struct{}, away bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.session
	if s == nil {
		return nil, m.changed, true
	}
	m.next++
	for i := range s.order {
		p := s.order[(m.next+i)%len(s.order)]
		if p.topic != c.topic {
			continue
		}
		for len(taken) < limit {
			pl := p.take(c)
			if pl == nil {
				break
			}
			if pl.times > 1 {
				m.bus.metrics.redelivered.WithLabelValues(m.label).Inc()
			}
			taken = append(taken, &delivery{member: m, place: pl, message: decodeRecord(pl.record), taken: pl.times})
		}
		if p.paused && p.roomy(m.bus.options.tune.backlog) {
			s.resume(p)
		}
		m.count(p)
	}
	return taken, m.changed, false
}

// moved does what follows when a place was settled or given back. Called with the lock
// held.
func (m *member) moved(p *partition) {
	m.count(p)
	m.announce() // a mark may be next, a revocation wait, or a message be there again
	p.session.wake()
}

// count corrects the metric of holes. Called with the lock held.
func (m *member) count(p *partition) {
	now := int64(0)
	if p.phase != revoked {
		now = p.holes()
	}
	if now != p.shown {
		m.bus.metrics.holes.WithLabelValues(m.label).Add(float64(now - p.shown))
		p.shown = now
	}
}

// join counts a consumer.
func (m *member) join() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.consumers++
}

// leave counts a consumer less. After the last one the group is left, in the background.
func (m *member) leave() {
	b := m.bus
	b.mu.Lock()
	defer b.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.consumers--
	if s := m.session; m.consumers == 0 && s != nil && !b.ended() {
		b.work.Go(func() { m.linger(s) })
	}
}

// linger stays in the group while something is out, for a while, and then leaves it,
// unless a consumer has come.
func (m *member) linger(s *session) {
	s.drain(nil, m.bus.options.tune.drain, func() bool { return m.consumers > 0 })
	if s := m.detach(func() bool { return m.consumers == 0 && m.session == s }); s != nil {
		s.leave()
	}
}

// detach takes the session from the member if the condition, asked under the lock, holds;
// nil is one that always does.
func (m *member) detach(condition func() bool) *session {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.session == nil || condition != nil && !condition() {
		return nil
	}
	s := m.session
	m.session = nil
	m.announce()
	return s
}

// open begins a session, one of all who ask for it at the same time. Trouble is logged and
// waited out, at most until ctx or the consumer ends.
func (m *member) open(ctx context.Context, c *consumer) {
	select {
	case <-m.opening:
		defer func() { m.opening <- struct{}{} }()
	case <-ctx.Done():
		return
	case <-c.turns.Closed():
		return
	case <-m.bus.closed:
		return
	}
	m.mu.Lock()
	there := m.session != nil
	m.mu.Unlock()
	if there {
		return
	}
	err := m.begin(ctx, c)
	if err == nil {
		m.pauses.Reset()
		return
	}
	if c.ended(ctx) != nil {
		return
	}
	m.worry(err)
	wait := m.pauses.NextBackOff()
	m.bus.options.Log.WarnContext(ctx, "cannot receive; trying again", "topic", m.label, "error", err, "next_in", wait)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-c.turns.Closed():
	case <-m.bus.closed:
	}
}

// begin finds or makes the topics and joins the group of these.
func (m *member) begin(ctx context.Context, c *consumer) error {
	ids, err := m.bus.ensure(ctx, c.turns.Closed(), m.topics...)
	if err != nil {
		return err
	}
	s, err := newSession(m, ids)
	if err != nil {
		return err
	}
	if !m.attach(s) {
		s.leave()
		return bus.ErrClosed
	}
	return nil
}

// attach makes the session the member's, unless the bus was closed, and starts its
// goroutines.
func (m *member) attach(s *session) bool {
	b := m.bus
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended() {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.session, m.trouble, m.refusal = s, nil, refusal{}
	m.announce()
	b.work.Go(s.poll)
	b.work.Go(s.commitLoop)
	b.work.Go(s.look)
	if m.consumers == 0 { // the last one was closed meanwhile
		b.work.Go(func() { m.linger(s) })
	}
	return true
}

// lost ends a session whose topics are gone: what was received of them is worth nothing.
func (m *member) lost(s *session, why error) {
	if m.detach(func() bool { return m.session == s }) == nil {
		return
	}
	m.bus.options.Log.Error("a topic that was received from is gone; what was in hand of it is dropped", "topic", m.label, "error", why)
	s.abandon()
	s.leave()
}

var errTopicGone = errors.New("the topic was deleted, or was made anew")
