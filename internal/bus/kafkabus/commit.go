package kafkabus

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// commitEvery is the least time between two commits: the first is made at once, what is
	// settled meanwhile shares the next.
	commitEvery = 20 * time.Millisecond
	// commitTimeout bounds one commit.
	commitTimeout = 5 * time.Second
	// commitAgain is when a commit that failed is tried again.
	commitAgain = 200 * time.Millisecond
)

// errRevoked: a partition was revoked while its commit was on its way out.
var errRevoked = errors.New("a partition was given up meanwhile")

// commitLoop commits how far everything is settled until the session ends.
func (s *session) commitLoop() {
	for {
		select {
		case <-s.dirty:
		case <-s.over:
			return
		}
		s.member.mu.Lock()
		parts := append([]*partition(nil), s.order...)
		s.member.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
		err := s.commit(ctx, parts)
		cancel()
		wait := commitEvery
		if err != nil {
			wait = commitAgain
			s.wake()
			if !errors.Is(err, errRevoked) {
				s.member.bus.options.Log.Warn("committing; trying again", "topic", s.member.label, "error", err)
			}
		}
		if !s.rest(wait) {
			return
		}
	}
}

// commit commits the watermarks of the partitions, as far as they have risen, and waits
// for the answer. It is asked once more at the last moment whether they are still held: a
// commit can wait in the client while a partition goes to another consumer, whose commits
// it would undo.
func (s *session) commit(ctx context.Context, parts []*partition) error {
	m := s.member
	offsets := map[string]map[int32]kgo.EpochOffset{}
	var risen []*partition
	m.mu.Lock()
	for _, p := range parts {
		mark := p.watermark()
		if p.phase == revoked || mark.Offset <= p.committed {
			continue
		}
		if offsets[p.topic] == nil {
			offsets[p.topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[p.topic][p.id] = mark
		risen = append(risen, p)
	}
	m.mu.Unlock()
	if len(risen) == 0 {
		return nil
	}
	ctx = kgo.PreCommitFnContext(ctx, func(*kmsg.OffsetCommitRequest) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, p := range risen {
			if p.phase == revoked {
				return errRevoked
			}
		}
		return nil
	})
	var failed error
	s.client.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, r *kmsg.OffsetCommitResponse, err error) {
		failed = err
		if err == nil {
			failed = answerOf(r)
		}
	})
	if failed != nil {
		return failed
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range risen {
		p.committed = max(p.committed, offsets[p.topic][p.id].Offset)
	}
	return nil
}

// answerOf is the first error of a commit's answer.
func answerOf(r *kmsg.OffsetCommitResponse) error {
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}
