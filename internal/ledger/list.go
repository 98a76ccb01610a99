package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// maxLooked bounds how many rows one page looks at where no index leads to a state:
// a list of what is leased must not read ten million jobs.
const maxLooked = 50_000

// List lists jobs by their current generation, a page at a time, the newest first.
// What is quarantined or unknown comes from small tables of its own. For the other
// states the newest rows are looked at, at most maxLooked a page, so that a page may
// be short, or empty, and yet have a next one. An unknown kind is a *job.Refusal.
func (l *Ledger) List(ctx context.Context, req machine.ListRequest) (machine.Listed, error) {
	if req.Limit <= 0 {
		req.Limit = machine.DefaultListLimit
	}
	var kind *int16
	if req.Kind != "" {
		id, err := l.kindID(ctx, req.Kind)
		if err != nil {
			return machine.Listed{}, err
		}
		kind = &id
	}
	list := l.listNewest
	if req.State == "" || req.State == job.Quarantined || req.State == job.Unknown {
		list = l.listNeeding
	}
	page, err := list(ctx, req, kind)
	if err != nil {
		return machine.Listed{}, fmt.Errorf("listing jobs: %w", err)
	}
	return page, nil
}

func (l *Ledger) listNeeding(ctx context.Context, req machine.ListRequest, kind *int16) (machine.Listed, error) {
	var page machine.Listed
	rows, err := l.pool.Query(ctx, stmt("list_needing"), orNull(req.State), kind, orNull(req.Reason), orNull(req.Code),
		null(req.Since), null(req.After.At), req.After.Job, req.Limit)
	if err != nil {
		return page, err
	}
	var kinds []int16
	page.Entries, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (machine.Entry, error) {
		var e machine.Entry
		var kind int16
		var reason, class, code, detail *string
		var closes *time.Time
		var ask asking
		if err := r.Scan(append([]any{
			&e.Job, &kind, &e.Key, &e.Generation, &e.State, &reason, &class, &code, &e.Attempts, &e.Fence,
			&e.Fingerprint, &detail, &e.At, &closes, &e.Closed,
		}, append(ask.scanInto(), &e.Cleaned)...)...); err != nil {
			return e, err
		}
		e.Ask(ask.of())
		e.Reason, e.Class, e.Code = job.Reason(value(reason)), job.Class(value(class)), job.Code(value(code))
		e.Detail, e.ClosesAt = value(detail), value(closes)
		kinds = append(kinds, kind)
		return e, nil
	})
	if err != nil {
		return page, err
	}
	if n := len(page.Entries); n == req.Limit {
		page.Next = machine.ListPlace{At: page.Entries[n-1].At, Job: page.Entries[n-1].Job}
	}
	return page, l.nameKinds(ctx, page.Entries, kinds)
}

// nameKinds fills in the kinds of entries, once the connection that read them is free.
func (l *Ledger) nameKinds(ctx context.Context, entries []machine.Entry, kinds []int16) error {
	for i := range entries {
		kind, err := l.kindByID(ctx, kinds[i])
		if err != nil {
			return err
		}
		entries[i].Kind = kind.Name
	}
	return nil
}

func (l *Ledger) listNewest(ctx context.Context, req machine.ListRequest, kind *int16) (machine.Listed, error) {
	var page machine.Listed
	if req.Reason != "" {
		return page, errors.New("only what is quarantined or unknown has a reason")
	}
	rows, err := l.pool.Query(ctx, stmt("list_newest"), orNull(req.State), kind, orNull(req.Code), null(req.Since),
		orNone(req.After.Job), maxLooked, req.Limit)
	if err != nil {
		return page, err
	}
	var last int64
	var r newest
	var kinds []int16
	_, err = pgx.ForEachRow(rows, []any{
		&page.Looked, &last, &r.id, &r.kind, &r.key, &r.generation, &r.state, &r.waiting, &r.hold, &r.reason, &r.class, &r.code,
		&r.attempt, &r.fence, &r.created, &r.wake, &r.cleaned,
	}, func() error {
		if r.id != nil {
			page.Entries, kinds = append(page.Entries, r.entry()), append(kinds, value(r.kind))
		}
		return nil
	})
	if err != nil {
		return page, err
	}
	switch n := len(page.Entries); {
	case n == req.Limit:
		page.Next = machine.ListPlace{At: page.Entries[n-1].At, Job: page.Entries[n-1].Job}
	case page.Looked == maxLooked:
		page.Next = machine.ListPlace{Job: last}
	}
	return page, l.nameKinds(ctx, page.Entries, kinds)
}

// newest is a row of list_newest; its pointers are nil where nothing was found.
type newest struct {
	id, fence                                      *int64
	kind                                           *int16
	generation, attempt                            *int32
	key, state, waiting, hold, reason, class, code *string
	created, wake                                  *time.Time
	cleaned                                        bool
}

func (r newest) entry() machine.Entry {
	return machine.Entry{
		Job: value(r.id), Key: value(r.key), Generation: value(r.generation),
		State: job.State(value(r.state)), Waiting: job.Waiting(value(r.waiting)), Hold: job.Hold(value(r.hold)), Reason: job.Reason(value(r.reason)),
		Class: job.Class(value(r.class)), Code: job.Code(value(r.code)),
		Attempts: value(r.attempt), Fence: value(r.fence), At: value(r.created), WakeAt: value(r.wake), Cleaned: r.cleaned,
	}
}
