package memledger

import (
	"cmp"
	"context"
	"slices"
	"time"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// TakeQuestions takes unknown outcomes of a kind that are to be asked about by these
// means, at most limit. Each is asked about again at the earliest after hold.
func (l *Ledger) TakeQuestions(ctx context.Context, kind string, by machine.Means, limit int, hold time.Duration) ([]machine.Question, error) {
	var questions []machine.Question
	err := l.write(ctx, "TakeQuestions", func(now time.Time) error {
		if refusal := l.known(kind); refusal != nil {
			return refusal
		}
		questions = nil
		due := l.where(func(r machine.Row) bool {
			return r.State == job.Unknown && r.Kind.Name == kind && now.Before(r.ClosesAt())
		})
		due = slices.DeleteFunc(due, func(g *generation) bool {
			return g.asking.Means != by || g.asking.NextAt.IsZero() || now.Before(g.asking.NextAt)
		})
		slices.SortFunc(due, func(a, b *generation) int {
			return cmp.Or(a.asking.NextAt.Compare(b.asking.NextAt), cmp.Compare(a.row.Job, b.row.Job))
		})
		for _, g := range due[:min(limit, len(due))] {
			e := l.jobs[g.row.Job]
			q := l.row(e, g).Ask(g.asking.Times, now)
			q.Key, q.Subject, q.Period, q.Destination = e.spec.Key, e.spec.Subject, e.spec.Period, cmp.Or(g.bound.Address, g.destination)
			questions = append(questions, q)
			g.asking.Times++
			if g.asking.NextAt = now.Add(hold); q.Next.After(g.asking.NextAt) {
				g.asking.NextAt = q.Next
			}
		}
		return nil
	})
	return orZero(questions, err)
}

// Answer takes replies: a "yes" or a "no" is decided about, and what settles nothing is
// noted, with when it is asked again. It returns what became of each.
func (l *Ledger) Answer(ctx context.Context, replies []machine.Reply) ([]machine.Answered, error) {
	var answered []machine.Answered
	err := l.write(ctx, "Answer", func(now time.Time) error {
		answered = make([]machine.Answered, len(replies))
		for i, r := range replies {
			r = r.Storable()
			if ev, says := r.Event(); says {
				d := l.decide(now, target{job: r.Job, generation: r.Generation, event: ev})[0]
				answered[i] = machine.Answered{Found: d.found, State: d.row.State, Refused: d.change.Refused}
			}
			l.note(r)
		}
		return nil
	})
	return orZero(answered, err)
}

// note keeps what was said about what is still unknown. A reply that a later question has
// overtaken is left alone.
func (l *Ledger) note(r machine.Reply) {
	_, g := l.find(r.Job, r.Generation)
	if g == nil || g.asking.Times != r.Times || g.row.State != job.Unknown || !g.row.Current() {
		return
	}
	g.asking.Said, g.asking.AskedAt, g.asking.Detail = r.Said, r.AskedAt, r.Detail
	if !g.asking.NextAt.IsZero() {
		g.asking.NextAt = r.Next
	}
}
