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

// mark is a mark and how many rows of its topic it speaks for.
type mark struct {
	machine.Mark
	covers int
}

// IssueMark writes a mark for everything that the holder has relayed on the lane, for
// the partitions that its client knows. machine.ErrLostTopic: another holds the topic.
func (l *Ledger) IssueMark(ctx context.Context, lane, holder string, partitions []int32) (machine.Mark, error) {
	var m machine.Mark
	err := l.write(ctx, "IssueMark", func(now time.Time) error {
		t := l.topics[lane]
		if t == nil || !t.held(holder) {
			return fmt.Errorf("issuing a mark on lane %s: %w", lane, machine.ErrLostTopic)
		}
		l.outboxID++
		m = machine.Mark{Number: l.outboxID, Lane: lane, Partitions: slices.Clone(partitions), Issued: now}
		t.marks = append(t.marks, &mark{m, t.relayed})
		return nil
	})
	return m, err
}

// PassMark notes that the mark has passed the partition. The ledger keeps the largest
// number of a partition; one that it did not issue, or has judged already, changes
// nothing.
func (l *Ledger) PassMark(ctx context.Context, lane string, partition int32, number int64) error {
	return l.write(ctx, "PassMark", func(now time.Time) error {
		t := l.topics[lane]
		if t == nil || !slices.ContainsFunc(t.marks, func(m *mark) bool { return m.Number == number && slices.Contains(m.Partitions, partition) }) {
			return nil
		}
		if t.passed == nil {
			t.passed = make(map[int32]int64)
		}
		t.passed[partition] = max(t.passed[partition], number)
		for _, m := range t.marks {
			everywhere := !slices.ContainsFunc(m.Partitions, func(p int32) bool { return t.passed[p] < m.Number })
			if m.Passed.IsZero() && m.Number <= number && everywhere {
				m.Passed = now // a later mark speaks for the earlier ones
			}
		}
		return nil
	})
}

// MarkStands reports whether the lane's newest mark has not passed everywhere yet.
func (l *Ledger) MarkStands(ctx context.Context, lane string) (bool, error) {
	var stands bool
	err := l.read(ctx, "MarkStands", func(time.Time) error {
		if t := l.topics[lane]; t != nil && len(t.marks) > 0 {
			stands = t.marks[len(t.marks)-1].Passed.IsZero()
		}
		return nil
	})
	return stands, err
}

// StandingMarks returns, for every lane that has one, the oldest mark that has not
// passed everywhere.
func (l *Ledger) StandingMarks(ctx context.Context) ([]machine.Mark, error) {
	var all []machine.Mark
	err := l.read(ctx, "StandingMarks", func(now time.Time) error {
		for _, name := range slices.Sorted(maps.Keys(l.topics)) {
			t := l.topics[name]
			if i := slices.IndexFunc(t.marks, func(m *mark) bool { return m.Passed.IsZero() }); i >= 0 {
				m := t.marks[i].Mark
				m.Age = now.Sub(m.Issued)
				all = append(all, m)
			}
		}
		return nil
	})
	return all, err
}

// Judge judges the next outbox rows of the lane, at most limit, that a passed mark
// covers, each once: a job still ready at the emission that such a row announced was
// lost, and is announced anew. contact is how long the caller has been in unbroken
// contact with the ledger. It returns how many were lost and whether there is more.
func (l *Ledger) Judge(ctx context.Context, lane string, contact time.Duration, limit int) (lost int, more bool, err error) {
	err = l.write(ctx, "Judge", func(now time.Time) error {
		t := l.topics[lane]
		if t == nil || contact < machine.JudgeAfter {
			return nil
		}
		ripe := -1
		for i, m := range t.marks {
			if !m.Passed.IsZero() && !now.Before(m.Passed.Add(machine.JudgeAfter)) {
				ripe = i
			}
		}
		if ripe < 0 {
			return nil
		}
		covers := t.marks[ripe].covers
		rows := t.from(t.judged, covers, limit)
		lost = l.announceLost(now, rows)
		t.judged += len(rows)
		if more = t.judged < covers; !more {
			t.marks = slices.Clone(t.marks[ripe+1:])
		}
		return nil
	})
	return lost, more, err
}

// announceLost announces anew what the rows announced and nobody leased.
func (l *Ledger) announceLost(now time.Time, rows []*outboxRow) (lost int) {
	var targets []target
	for _, r := range rows {
		for _, ref := range r.Refs {
			_, g := l.find(ref.Job, ref.Generation)
			waits := g != nil && g.row.Current() && g.row.State == job.Ready && g.row.Emission == ref.Emission
			if waits && !l.isAside(r.ID, ref) {
				targets = append(targets, target{job: ref.Job, generation: ref.Generation, event: machine.Event{Name: machine.Lost, Emission: ref.Emission}})
			}
		}
	}
	for _, d := range l.decide(now, targets...) {
		if d.applied() {
			lost++
		}
	}
	return lost
}
