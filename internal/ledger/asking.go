package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/failpoint"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// TakeQuestions takes unknown outcomes of a kind that are to be asked about by these
// means, at most limit. Each is asked about again at the earliest after hold, so that
// nobody else asks meanwhile, and an asker that is lost costs that and no more.
func (l *Ledger) TakeQuestions(ctx context.Context, kind string, by machine.Means, limit int, hold time.Duration) ([]machine.Question, error) {
	doing := "taking questions about " + kind
	id, err := l.kindID(ctx, kind)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	var questions []machine.Question
	err = l.inTx(ctx, doing, func(tx pgx.Tx) error {
		due, now, err := l.dueQuestions(ctx, tx, id, by, limit)
		if err != nil || len(due) == 0 {
			return err
		}
		var jobs []int64
		var generations []int32
		var again []time.Time
		questions = questions[:0]
		for _, d := range due {
			row, err := l.row(ctx, d.stored)
			if err != nil {
				return err
			}
			q := row.Ask(d.asked, now)
			q.Key, q.Subject, q.Period, q.Destination = d.key, value(d.subject), value(d.period), value(d.destination)
			questions = append(questions, q)
			jobs, generations, again = append(jobs, q.Job), append(generations, q.Generation), append(again, later(q.Next, now.Add(hold)))
		}
		tag, err := tx.Exec(ctx, stmt("ask_take"), jobs, generations, again)
		if err == nil && tag.RowsAffected() != int64(len(jobs)) {
			err = fmt.Errorf("%d of %d locked entries were not as found", int64(len(jobs))-tag.RowsAffected(), len(jobs))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return questions, nil
}

// dueQuestion is a row of ask_due.
type dueQuestion struct {
	stored
	asked                        int32
	key                          string
	subject, period, destination *string
}

// dueQuestions locks what is due and reads the clock behind the locks, in one round trip.
func (l *Ledger) dueQuestions(ctx context.Context, tx pgx.Tx, kind int16, by machine.Means, limit int) ([]dueQuestion, time.Time, error) {
	var now time.Time
	var due []dueQuestion
	batch := &pgx.Batch{}
	batch.Queue(stmt("ask_due"), kind, string(by), limit)
	batch.Queue(stmt("clock"))
	results := tx.SendBatch(ctx, batch)
	rows, err := results.Query()
	if err == nil {
		due, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (dueQuestion, error) {
			var d dueQuestion
			return d, r.Scan(slices.Concat([]any{&d.asked}, d.scanInto(), []any{&d.key, &d.subject, &d.period, &d.destination})...)
		})
	}
	if err == nil {
		err = results.QueryRow().Scan(&now)
	}
	return due, now, errors.Join(err, results.Close())
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Answer takes replies: a "yes" or a "no" is decided about, and what settles nothing is
// noted, with when it is asked again. It returns what became of each. Of replies to one
// question, the first counts.
func (l *Ledger) Answer(ctx context.Context, replies []machine.Reply) ([]machine.Answered, error) {
	replies = slices.Clone(replies)
	for i := range replies {
		replies[i] = replies[i].Storable()
	}
	var answered []machine.Answered
	err := l.inTx(ctx, "answering", func(tx pgx.Tx) error {
		answered = make([]machine.Answered, len(replies))
		var targets []target
		var decided []int // which reply each target is of
		for i, r := range replies {
			if ev, says := r.Event(); says {
				targets = append(targets, target{Job: r.Job, Generation: r.Generation, Event: ev})
				decided = append(decided, i)
			}
		}
		if len(targets) > 0 {
			decisions, _, err := l.decide(ctx, tx, targets)
			if err != nil {
				return err
			}
			for n, d := range decisions {
				answered[decided[n]] = machine.Answered{Found: d.Found, State: d.Row.State, Refused: d.Change.Refused}
			}
		}
		if err := failpoint.At(failpoint.LookupAnswered); err != nil {
			return err
		}
		return noteReplies(ctx, tx, replies)
	})
	if err != nil {
		return nil, err
	}
	return answered, nil
}

// noteReplies notes what was said about what is still unknown; of what was settled there
// is no entry any more.
func noteReplies(ctx context.Context, tx pgx.Tx, replies []machine.Reply) error {
	replies = slices.Clone(replies)
	slices.SortStableFunc(replies, func(a, b machine.Reply) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Generation, b.Generation))
	})
	var jobs []int64
	var generations, times []int32
	var said []string
	var asked, again []time.Time
	var details []*string
	for _, r := range replies {
		jobs, generations, times = append(jobs, r.Job), append(generations, r.Generation), append(times, r.Times)
		said, asked, details, again = append(said, string(r.Said)), append(asked, r.AskedAt), append(details, orNull(r.Detail)), append(again, r.Next)
	}
	_, err := tx.Exec(ctx, stmt("ask_note"), jobs, generations, times, said, asked, details, again)
	return wrapped(err, "noting answers")
}

// asking are the columns of an unknown outcome that tell how it is asked about.
type asking struct {
	lookup, said, detail *string
	asked                *int32
	askAt, askedAt       *time.Time
}

// scanInto lists where these columns go, in the order lookup, asked, ask_at, said, asked_at,
// said_detail.
func (a *asking) scanInto() []any {
	return []any{&a.lookup, &a.asked, &a.askAt, &a.said, &a.askedAt, &a.detail}
}

func (a *asking) of() machine.Asking {
	return machine.Asking{
		Means: machine.Means(value(a.lookup)), Times: value(a.asked), NextAt: value(a.askAt),
		Said: job.Said(value(a.said)), AskedAt: value(a.askedAt), Detail: value(a.detail),
	}
}
