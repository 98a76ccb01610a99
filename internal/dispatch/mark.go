package dispatch

import (
	"context"
	"fmt"
	"time"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/failpoint"
	"duly.dev/duly/internal/machine"
)

// marker sends the marks of one lane, behind all that was relayed on it: when
// something was, at most every so often; and again, ever more rarely, while the
// newest has not passed.
type marker struct {
	lane, holder string
	marks        Marks
	bus          bus.Publisher
	metrics      *metrics
	every, most  time.Duration

	last  time.Time // when a mark was sent, or the topic taken over first
	moved bool      // something was relayed since
	stood bool      // the newest mark is not known to have passed
	wait  time.Duration
}

// takeOver begins with a topic of which another may have relayed anything. What was sent
// before counts on: a topic that is given up and taken again every few seconds, since its
// broker is flaky, would else never get a mark.
func (m *marker) takeOver(now time.Time) {
	if m.last.IsZero() {
		m.last = now
	}
	m.moved, m.stood, m.wait = true, true, m.every
}

// tend sends a mark if one is due.
func (m *marker) tend(ctx context.Context, now time.Time) error {
	since := now.Sub(m.last)
	switch {
	case m.moved && since >= m.every:
		m.wait = m.every
	case !m.moved && m.stood && since >= m.wait:
		stands, err := m.marks.MarkStands(ctx, m.lane)
		if err != nil || !stands {
			m.stood = stands || err != nil
			return err
		}
		m.wait = min(2*m.wait, m.most)
	default:
		return nil
	}
	m.last = now
	return m.send(ctx)
}

// send issues a mark and only then publishes it, to each partition that the client
// knows now, without an id: a mark that comes twice says the same.
func (m *marker) send(ctx context.Context) error {
	partitions, err := m.bus.Partitions(ctx, m.lane)
	if err != nil {
		return fmt.Errorf("asking for the partitions of lane %s: %w", m.lane, err)
	}
	if len(partitions) == 0 {
		return nil
	}
	mark, err := m.marks.IssueMark(ctx, m.lane, m.holder, partitions)
	if err != nil {
		return err
	}
	m.moved, m.stood = false, true
	if err := failpoint.At(failpoint.MarkIssued); err != nil {
		return err
	}
	messages, err := markMessages(mark)
	if err != nil {
		return err
	}
	for i, err := range m.bus.Publish(ctx, messages) {
		if err != nil {
			return fmt.Errorf("publishing mark %d to partition %d of lane %s: %w", mark.Number, partitions[i], m.lane, err)
		}
	}
	m.metrics.marked(m.lane)
	return nil
}

func markMessages(mark machine.Mark) ([]bus.Message, error) {
	messages := make([]bus.Message, len(mark.Partitions))
	for i, p := range mark.Partitions {
		var err error
		if messages[i], err = (bus.Mark{Lane: mark.Lane, Number: mark.Number}).Message(p); err != nil {
			return nil, err
		}
	}
	return messages, nil
}
