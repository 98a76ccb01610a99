package kafkabus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// fetchWait is how long a broker keeps a request for messages that are not there. What
	// arrives is given at once; but a partition that is resumed waits for the end of the
	// request that runs.
	fetchWait = 250 * time.Millisecond
	// fetchBytes bounds what is fetched ahead from a broker.
	fetchBytes = 16 << 20
	// longestBeat is how often a member tells the group that it lives, at least.
	longestBeat = 3 * time.Second
	// suspectEvery is how often topics are looked at, at most, while the brokers say that
	// they do not know them.
	suspectEvery = 200 * time.Millisecond
)

// session is one membership in the group of certain topics, with a client of its own. It
// ends when the topics do: another topic of the same name is another group's.
type session struct {
	member  *member
	client  *kgo.Client
	cancel  context.CancelFunc // ends the client's requests
	ids     map[string]kadm.TopicID
	dirty   chan struct{} // holds one token while there may be something to commit
	suspect chan struct{} // holds one token when the topics are to be looked at
	over    chan struct{} // closed when the session ends
	ending  sync.Once

	// Of the goroutine that polls:
	lookedAt time.Time      // for partitions that stand
	large    map[spot]int64 // where a batch begins that would become too large

	// Guarded by the member's lock:
	order []*partition
}

func newSession(m *member, ids map[string]kadm.TopicID) (*session, error) {
	s := &session{
		member: m, ids: ids,
		dirty: make(chan struct{}, 1), suspect: make(chan struct{}, 1), over: make(chan struct{}),
		lookedAt: time.Now(), large: map[spot]int64{},
	}
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.Background())
	var err error
	s.client, err = kgo.NewClient(append(append(m.bus.clientOptions(), s.groupOptions()...), kgo.WithContext(ctx))...)
	if err != nil {
		s.cancel()
		return nil, fmt.Errorf("making a consumer: %w", err)
	}
	return s, nil
}

func (s *session) groupOptions() []kgo.Opt {
	m := s.member
	timeout := m.bus.options.SessionTimeout
	return []kgo.Opt{
		kgo.ConsumerGroup(groupName(m.group, m.topics, s.ids)),
		kgo.ConsumeTopics(namesOf(m.topics)...),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		// Both are said: each has a default of its own.
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		// What a poll returns is taken in before a partition can change hands.
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(s.assigned),
		kgo.OnPartitionsRevoked(s.revoke),
		kgo.OnPartitionsLost(s.lost),
		kgo.SessionTimeout(timeout),
		kgo.RebalanceTimeout(max(timeout, 10*time.Second)),
		kgo.HeartbeatInterval(min(timeout/10, longestBeat)),
		kgo.FetchMaxWait(fetchWait),
		kgo.FetchMaxBytes(fetchBytes),
		kgo.KeepRetryableFetchErrors(), // that the topic is gone is one
	}
}

// wake lets the committing goroutine look.
func (s *session) wake() {
	select {
	case s.dirty <- struct{}{}:
	default:
	}
}

// poll takes in what is fetched until the client is closed. It waits for nobody: what has
// no slot yet is the backlog.
func (s *session) poll() {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), s.member.bus.options.tune.look) // then partitions that stand are looked at
		fetches := s.client.PollFetches(ctx)
		cancel()
		if fetches.IsClientClosed() {
			s.client.AllowRebalance()
			return
		}
		s.closeGaps(fetches)
		s.takeIn(fetches)
		solved := s.setAside(fetches)
		s.client.AllowRebalance()
		s.troubles(fetches, solved)
	}
}

// takeIn adds what was polled to the backlogs.
func (s *session) takeIn(fetches kgo.Fetches) {
	m := s.member
	m.mu.Lock()
	defer m.mu.Unlock()
	came := false
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		if len(f.Records) == 0 {
			return
		}
		p := s.find(f.Topic, f.Partition)
		if p == nil {
			return // it has just gone to another consumer
		}
		if !p.add(f.Records) {
			p = s.cut(p)
			p.add(f.Records)
		}
		came = true
		if !p.paused && p.crowded(m.bus.options.tune.backlog) {
			s.pause(p)
		}
	})
	if came {
		m.refusal = refusal{}
		m.announce()
		s.wake() // where a partition begins is committed
	}
}

// find returns the partition that is held now. Called with the lock held.
func (s *session) find(topic string, id int32) *partition {
	for _, p := range s.order {
		if p.topic == topic && p.id == id && p.phase == held {
			return p
		}
	}
	return nil
}

// cut begins a partition anew whose log lost its newest records: those that have their
// offsets now are others, and what is in hand has no place in it any more. Called with
// the lock held.
func (s *session) cut(p *partition) *partition {
	s.member.bus.options.Log.Error("a partition lost messages that were received already; it is read anew from there",
		"topic", p.topic, "partition", p.id, "received", p.polled)
	s.member.bus.metrics.recreated.WithLabelValues(s.member.label).Inc()
	s.end(p)
	fresh := newPartition(s, p.topic, p.id)
	s.order = append(s.order, fresh)
	return fresh
}

// pause stops fetching from a partition. Called with the lock held.
func (s *session) pause(p *partition) {
	p.paused = true
	s.client.PauseFetchPartitions(map[string][]int32{p.topic: {p.id}})
	s.member.bus.metrics.paused.WithLabelValues(s.member.label).Inc()
}

// resume goes on fetching from it. Called with the lock held.
func (s *session) resume(p *partition) {
	p.paused = false
	s.client.ResumeFetchPartitions(map[string][]int32{p.topic: {p.id}})
	s.member.bus.metrics.paused.WithLabelValues(s.member.label).Dec()
}

// troubles deals with the errors of a poll that are not solved yet.
func (s *session) troubles(fetches kgo.Fetches, solved map[spot]bool) {
	m := s.member
	gone, bad := false, false
	fetches.EachError(func(topic string, id int32, err error) {
		var loss *kgo.ErrDataLoss
		switch {
		case solved[spot{topic, id}], errors.Is(err, context.DeadlineExceeded): // or nothing came
		case isGone(err):
			gone = true
		case errors.As(err, &loss):
			m.bus.options.Log.Error("a partition lost messages; it is read anew from where the error says", "topic", topic, "partition", id, "error", err)
		case kerr.IsRetriable(err) && !errors.Is(err, kerr.CorruptMessage): // the client repairs it
		default:
			bad = true
			m.refused(err)
			m.bus.options.Log.Warn("receiving", "topic", m.label, "partition", id, "error", err)
		}
	})
	if gone {
		select {
		case s.suspect <- struct{}{}:
		default:
		}
	}
	if (gone || bad) && fetches.NumRecords() == 0 {
		s.rest(suspectEvery) // an error that stands comes with every poll
	}
}

// rest waits, at most until the session ends, and reports whether it goes on.
func (s *session) rest(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.over:
		return false
	}
}

// look compares the topics with what they were when the session began, now and then, and
// when a broker says that it does not know them.
func (s *session) look() {
	m := s.member
	ticker := time.NewTicker(m.bus.options.tune.look)
	defer ticker.Stop()
	for {
		select {
		case <-s.over:
			return
		case <-ticker.C:
		case <-s.suspect:
		}
		ctx, cancel := context.WithTimeout(m.bus.ctx, apiTimeout)
		err := s.compare(ctx)
		cancel()
		if errors.Is(err, errTopicGone) {
			m.lost(s, err)
			return
		}
		if !s.rest(suspectEvery) {
			return
		}
	}
}

// compare says errTopicGone if one of the topics is not there or another one; other errors
// say nothing.
func (s *session) compare(ctx context.Context) error {
	details, err := s.member.bus.describe(ctx, s.member.topics)
	if err != nil {
		return err
	}
	for _, t := range s.member.topics {
		switch d := details[t.name]; {
		case isGone(d.Err):
			return fmt.Errorf("%s: %w", t.name, errTopicGone)
		case d.Err == nil && d.ID != s.ids[t.name]:
			return fmt.Errorf("%s: %w", t.name, errTopicGone)
		}
	}
	return nil
}

// assigned begins partitions. They may be new or come back: what was out of an earlier
// assignment does not count for this one.
func (s *session) assigned(_ context.Context, _ *kgo.Client, added map[string][]int32) {
	m := s.member
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, ids := range added {
		for _, id := range ids {
			if p := s.find(name, id); p != nil {
				s.end(p)
			}
			s.order = append(s.order, newPartition(s, name, id))
		}
	}
	m.refusal = refusal{}
}

// revoke hands partitions over: nothing more is handed out of them; what is in hand gets a
// moment to be settled; how far everything is settled is committed; from then on nothing
// of them counts here.
func (s *session) revoke(ctx context.Context, _ *kgo.Client, taken map[string][]int32) {
	m := s.member
	m.mu.Lock()
	var parts []*partition
	for _, p := range s.order {
		if slices.Contains(taken[p.topic], p.id) && p.phase == held {
			p.phase = leaving
			s.forget(p)
			parts = append(parts, p)
		}
	}
	m.mu.Unlock()
	if len(parts) == 0 {
		return
	}
	s.drain(parts, m.bus.options.tune.drain, func() bool { return false })
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout) // the client's: it ends when that is closed
	defer cancel()
	if err := s.commit(ctx, parts); err != nil {
		m.bus.options.Log.WarnContext(ctx, "what was acknowledged could not be committed before its partitions were given up; it comes again", "topic", m.label, "error", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range parts {
		s.end(p)
	}
}

// lost drops partitions that are somebody else's already: nothing of them may be
// committed.
func (s *session) lost(context.Context, *kgo.Client, map[string][]int32) { s.abandon() }

// abandon ends all partitions without a commit.
func (s *session) abandon() {
	s.member.mu.Lock()
	defer s.member.mu.Unlock()
	for _, p := range slices.Clone(s.order) {
		s.end(p)
	}
}

// end makes an end of a partition. Called with the lock held.
func (s *session) end(p *partition) {
	s.forget(p)
	p.phase = revoked
	s.member.count(p)
	s.order = slices.DeleteFunc(s.order, func(other *partition) bool { return other == p })
	s.member.announce()
}

// forget drops what waits of a partition. Whatever happens to it later, it is not to be
// paused: the client's pauses outlast a revocation. Called with the lock held.
func (s *session) forget(p *partition) {
	if n := p.drop(); n > 0 {
		s.member.bus.metrics.dropped.WithLabelValues(s.member.label).Add(float64(n))
	}
	if p.paused {
		s.resume(p)
	}
}

// drain waits until nothing of the partitions is out, nil for all of them, at most for d,
// and not if enough, asked under the lock, holds or the bus is closed.
func (s *session) drain(parts []*partition, d time.Duration, enough func() bool) {
	m := s.member
	if m.topics[0].purpose == forDelay {
		return // what waits for its time is not about to be settled
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		m.mu.Lock()
		out := 0
		if parts == nil {
			parts = slices.Clone(s.order)
		}
		for _, p := range parts {
			out += p.out
		}
		done, changed := out == 0 || enough(), m.changed
		m.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			return
		case <-s.over:
			return
		case <-m.bus.closed:
			return
		}
	}
}

// leave ends the session: what was acknowledged is committed, the group is left, so that
// others get the partitions at once, and the client is closed.
func (s *session) leave() {
	s.ending.Do(func() {
		close(s.over)
		ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
		defer cancel()
		s.client.AllowRebalance()
		_ = s.client.LeaveGroupContext(ctx) // else the group finds out by its silence
		s.close()
	})
}

// close closes the client, whatever it is doing.
func (s *session) close() {
	s.cancel()
	s.client.CloseAllowingRebalance()
	s.abandon()
}
