package kafkabus

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Crash ends the connection as the death of the process would: nothing is committed or
// given back.
func (b *Bus) Crash() { b.end((*session).crash) }

func (s *session) crash() {
	s.abandon() // so that the last commit finds nothing
	s.ending.Do(func() {
		close(s.over)
		s.close()
	})
}

// Looking sets how often topics and partitions are looked at.
func (o Options) Looking(d time.Duration) Options { o.tune.look = d; return o }

// Truncating sets how often acknowledged messages are removed.
func (o Options) Truncating(d time.Duration) Options { o.tune.truncate = d; return o }

// Draining sets how long a revocation waits for what is in hand.
func (o Options) Draining(d time.Duration) Options { o.tune.drain = d; return o }

// Backlog sets how many messages of a partition wait here.
func (o Options) Backlog(n int) Options { o.tune.backlog = n; return o }

// With adds options to every client.
func (o Options) With(extra ...kgo.Opt) Options { o.tune.extra = extra; return o }

// Group is the consumer group of the lane, as its topic is now.
func (b *Bus) Group(ctx context.Context, lane string) (string, error) {
	t, err := workTopic(b.options.Prefix, lane)
	if err != nil {
		return "", err
	}
	ids, err := b.ensure(ctx, b.closed, t)
	if err != nil {
		return "", err
	}
	return groupName(t.name, []topic{t}, ids), nil
}

// Rejoin makes the member of the lane rejoin its group.
func (b *Bus) Rejoin(lane string) { b.sessionOf(lane).client.ForceRebalance() }

// LoseAll drops the partitions of the lane as the loss of the membership does.
func (b *Bus) LoseAll(lane string) { b.sessionOf(lane).lost(context.Background(), nil, nil) }

// ErrRevoked is the error of a commit that was not made.
var ErrRevoked = errRevoked

// Commit commits the lane's watermarks.
func (b *Bus) Commit(ctx context.Context, lane string) error {
	s := b.sessionOf(lane)
	s.member.mu.Lock()
	parts := append([]*partition(nil), s.order...)
	s.member.mu.Unlock()
	return s.commit(ctx, parts)
}

// Paused is how many of the lane's partitions are paused.
func (b *Bus) Paused(lane string) int {
	return b.sessionOf(lane).countWhere(func(p *partition) bool { return p.paused })
}

// Leaving is how many of the lane's partitions are being revoked.
func (b *Bus) Leaving(lane string) int {
	return b.sessionOf(lane).countWhere(func(p *partition) bool { return p.phase == leaving })
}

func (s *session) countWhere(is func(*partition) bool) int {
	s.member.mu.Lock()
	defer s.member.mu.Unlock()
	n := 0
	for _, p := range s.order {
		if is(p) {
			n++
		}
	}
	return n
}

// TakeIn takes fetches in as a poll does.
func (b *Bus) TakeIn(lane string, fetches kgo.Fetches) { b.sessionOf(lane).takeIn(fetches) }

// Truncate removes what is acknowledged.
func (b *Bus) Truncate(ctx context.Context) error { return b.truncate(ctx) }

func (b *Bus) sessionOf(lane string) *session {
	b.mu.Lock()
	m := b.members[b.options.Prefix+".work."+lane]
	b.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.session
}
