package memledger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// topic is a topic's outbox, in the order of commits, with its cursors. A cursor is
// how many rows lie before it, those that were dropped included.
type topic struct {
	rows    []*outboxRow
	dropped int // rows that have done their work and were dropped from the front

	relayed, judged int
	version         int64
	holder          string
	heldUntil       time.Time

	marks  []*mark
	passed map[int32]int64 // the largest mark by partition
}

type outboxRow struct{ machine.OutboxRow }

// topic returns the topic of the name, and makes it where there is none.
func (l *Ledger) topic(name string) *topic {
	t := l.topics[name]
	if t == nil {
		t = &topic{}
		l.topics[name] = t
	}
	return t
}

// end is how many rows were ever written.
func (t *topic) end() int { return t.dropped + len(t.rows) }

// from returns the rows from one cursor to another, at most limit.
func (t *topic) from(from, to, limit int) []*outboxRow {
	return t.rows[from-t.dropped : min(to, from+limit)-t.dropped]
}

// held reports whether the holder has the topic's lease.
func (t *topic) held(holder string) bool { return t.holder == holder && holder != "" }

// Topics lists every topic: the lanes that were ever configured, and machine.DeadTopic.
func (l *Ledger) Topics(ctx context.Context) ([]string, error) {
	var names []string
	err := l.read(ctx, "Topics", func(time.Time) error {
		names = slices.Sorted(maps.Keys(l.topics))
		return nil
	})
	return names, err
}

// ClaimTopic takes the topic for the holder, or renews its claim; false means that
// another holds it.
func (l *Ledger) ClaimTopic(ctx context.Context, name, holder string, d time.Duration) (bool, error) {
	var claimed bool
	err := l.write(ctx, "ClaimTopic", func(now time.Time) error {
		t := l.topics[name]
		if t == nil || (t.holder != "" && t.holder != holder && now.Before(t.heldUntil)) {
			return nil
		}
		t.holder, t.heldUntil, claimed = holder, now.Add(d), true
		return nil
	})
	return claimed && err == nil, err
}

// ReleaseTopic gives the topic up.
func (l *Ledger) ReleaseTopic(ctx context.Context, name, holder string) error {
	return l.write(ctx, "ReleaseTopic", func(time.Time) error {
		if t := l.topics[name]; t != nil && t.held(holder) {
			t.holder, t.heldUntil = "", time.Time{}
		}
		return nil
	})
}

// ReadOutbox reads the next page of the topic, at most limit rows, for its holder. A
// page without rows means that everything was relayed. machine.ErrLostTopic: another
// holds the topic.
func (l *Ledger) ReadOutbox(ctx context.Context, name, holder string, limit int) (machine.Page, error) {
	var page machine.Page
	err := l.read(ctx, "ReadOutbox", func(time.Time) error {
		t := l.topics[name]
		if t == nil || !t.held(holder) {
			return fmt.Errorf("reading the outbox of topic %s: %w", name, machine.ErrLostTopic)
		}
		rows := t.from(t.relayed, t.end(), limit)
		page.Last = t.relayed+len(rows) == t.end()
		page.Cursor = machine.Cursor{Version: t.version, ID: int64(t.relayed + len(rows))}
		for _, r := range rows {
			row := r.OutboxRow
			row.Refs = slices.Clone(row.Refs)
			page.Rows = append(page.Rows, row)
		}
		return nil
	})
	return page, err
}

// Advance moves the topic's cursor behind the page, whose rows the broker has
// acknowledged. machine.ErrLostTopic: another holds the topic or has moved its cursor.
func (l *Ledger) Advance(ctx context.Context, name, holder string, page machine.Page) error {
	return l.write(ctx, "Advance", func(time.Time) error {
		t := l.topics[name]
		if t == nil || !t.held(holder) || t.version != page.Cursor.Version {
			return fmt.Errorf("advancing topic %s: %w", name, machine.ErrLostTopic)
		}
		t.relayed = int(page.Cursor.ID)
		t.version++
		return nil
	})
}

// OutboxDepth counts the topic's rows that were not relayed, no further than most.
func (l *Ledger) OutboxDepth(ctx context.Context, name string, most int) (int, error) {
	var n int
	err := l.read(ctx, "OutboxDepth", func(time.Time) error {
		if t := l.topics[name]; t != nil {
			n = min(t.end()-t.relayed, most)
		}
		return nil
	})
	return n, err
}

// KeepOutbox drops what has done its work from the front of every topic and returns
// how many topics it shortened.
func (l *Ledger) KeepOutbox(ctx context.Context) (int, error) {
	var shortened int
	err := l.write(ctx, "KeepOutbox", func(time.Time) error {
		for name, t := range l.topics {
			done := t.relayed
			if name != machine.DeadTopic {
				done = min(done, t.judged)
			}
			if n := done - t.dropped; n > 0 {
				t.rows, t.dropped = slices.Clone(t.rows[n:]), done
				shortened++
			}
		}
		return nil
	})
	return shortened, err
}

// CheckRestored reports whether the ledger was moved to another cluster: never.
func (l *Ledger) CheckRestored(ctx context.Context) (bool, error) {
	return false, l.read(ctx, "CheckRestored", func(time.Time) error { return nil })
}

// Notices returns what the dead topic says about the generations, one a reference. The
// notice of a generation that was removed is zero.
func (l *Ledger) Notices(ctx context.Context, refs []job.Ref) ([]machine.Notice, error) {
	var notices []machine.Notice
	err := l.read(ctx, "Notices", func(time.Time) error {
		for _, r := range refs {
			e, g := l.find(r.Job, r.Generation)
			if g == nil {
				notices = append(notices, machine.Notice{})
				continue
			}
			notices = append(notices, machine.Notice{
				Kind: e.spec.Kind, Key: e.spec.Key, Generation: r.Generation, Subject: e.spec.Subject, Period: e.spec.Period,
				State: g.row.State, Reason: g.row.Reason, LastClass: g.row.LastClass, LastCode: g.row.LastCode,
				Attempts: g.row.Attempt, Created: g.row.Created, FirstAttempt: g.first, LastAttempt: g.row.LeasedAt,
			})
		}
		return nil
	})
	return notices, err
}
