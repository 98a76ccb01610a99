package memledger

import (
	"context"
	"slices"
	"time"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// aside is what the broker would not take. retried is where in its topic its next
// try ends; 0 while it waits for that, -1 before its first failed.
type aside struct {
	machine.Unsendable
	at      time.Time // delayed until
	retried int
}

// firstTry and slowestTry bound the wait before another try of what was set aside.
const (
	firstTry   = 10 * time.Second
	slowestTry = 30 * time.Minute
)

// SetAside keeps rows of the topic that the broker will not take, so that those
// behind flow. They are tried again after 10 s, doubling to 30 min.
func (l *Ledger) SetAside(ctx context.Context, name string, rows []machine.OutboxRow, cause error) error {
	return l.write(ctx, "SetAside", func(now time.Time) error {
		for _, r := range rows {
			i := slices.IndexFunc(l.aside, func(a *aside) bool { return a.Outbox == r.ID })
			if i < 0 {
				l.aside = append(l.aside, &aside{Unsendable: machine.Unsendable{Outbox: r.ID, Topic: name, Kind: r.Kind, Since: now}, at: r.At, retried: -1})
				i = len(l.aside) - 1
			}
			l.aside[i].failed(now, r.Refs, cause)
		}
		return nil
	})
}

// failed notes that a try failed, or one more part of its row.
func (a *aside) failed(now time.Time, refs []job.Ref, cause error) {
	a.Error = job.Storable(cause.Error(), job.MaxDetail)
	switch {
	case a.retried != 0:
		a.Refs, a.retried = slices.Clone(refs), 0
		a.Next = now.Add(min(slowestTry, firstTry<<min(a.Tries, 10)))
		a.Tries++
	case slices.ContainsFunc(refs, func(r job.Ref) bool { return !slices.Contains(a.Refs, r) }):
		a.Refs = append(a.Refs, refs...)
	}
}

// RetryUnsendable writes the next try of what was set aside on the topic and is due,
// as new outbox rows; it drops what was taken meanwhile or is waited for no more. It
// returns how many it tries again.
func (l *Ledger) RetryUnsendable(ctx context.Context, name string) (int, error) {
	var tried int
	err := l.write(ctx, "RetryUnsendable", func(now time.Time) error {
		t := l.topic(name)
		l.aside = slices.DeleteFunc(l.aside, func(a *aside) bool {
			taken := a.retried > 0 && a.retried <= t.relayed
			stale := a.retried == 0 && name != machine.DeadTopic && !slices.ContainsFunc(a.Refs, l.awaited)
			return a.Topic == name && (taken || stale)
		})
		for _, a := range l.aside {
			if a.Topic != name || a.retried > 0 || now.Before(a.Next) {
				continue
			}
			a.Outbox = l.emit(name, machine.OutboxRow{Kind: a.Kind, Refs: slices.Clone(a.Refs), At: a.at}).ID
			a.retried = t.end()
			tried++
		}
		return nil
	})
	return tried, err
}

// awaited reports whether a job still waits for the reference.
func (l *Ledger) awaited(r job.Ref) bool {
	_, g := l.find(r.Job, r.Generation)
	return g != nil && g.row.Current() && g.row.Emission == r.Emission && (g.row.State == job.Ready || g.row.State == job.Scheduled)
}

// isAside reports whether the reference was set aside and is not to be judged by the outbox
// row: that one failed, or another was the newest try.
func (l *Ledger) isAside(outbox int64, r job.Ref) bool {
	return slices.ContainsFunc(l.aside, func(a *aside) bool {
		return (a.retried == 0 || a.Outbox != outbox) && slices.Contains(a.Refs, r)
	})
}

// Unsendable lists what is set aside, the oldest first, at most limit.
func (l *Ledger) Unsendable(ctx context.Context, limit int) ([]machine.Unsendable, error) {
	var all []machine.Unsendable
	err := l.read(ctx, "Unsendable", func(time.Time) error {
		for _, a := range l.aside[:min(limit, len(l.aside))] {
			all = append(all, a.Unsendable)
		}
		return nil
	})
	return all, err
}

// CountUnsendable returns how many rows are set aside, by topic.
func (l *Ledger) CountUnsendable(ctx context.Context) (map[string]int, error) {
	counts := make(map[string]int)
	err := l.read(ctx, "CountUnsendable", func(time.Time) error {
		for _, a := range l.aside {
			counts[a.Topic]++
		}
		return nil
	})
	return counts, err
}
