package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// rower is a transaction or a pool.
type rower interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// whereabouts are where a key leads: a job and its current generation.
type whereabouts struct {
	job         int64
	removed     *string // the last state of a job that was removed
	generation  *int32
	kind, terms *int16
}

// locate finds the job of a key; job.ErrNotFound where there is none.
func (l *Ledger) locate(ctx context.Context, q rower, kind, key string) (whereabouts, error) {
	var w whereabouts
	err := q.QueryRow(ctx, stmt("job_current"), uuid(job.KeyHash(kind, key))).Scan(&w.job, &w.removed, &w.generation, &w.kind, &w.terms)
	if errors.Is(err, pgx.ErrNoRows) {
		return w, fmt.Errorf("%s/%s: %w", kind, key, job.ErrNotFound)
	}
	if err != nil {
		return w, fmt.Errorf("looking for %s/%s: %w", kind, key, err)
	}
	return w, nil
}

// know reads the kind and the terms of a row where they are not known yet, on the
// caller's own connection: a caller that holds the last one of a pool must not wait
// for another.
func (l *Ledger) know(ctx context.Context, q Querier, w whereabouts) error {
	l.mu.RLock()
	_, kindKnown := l.kinds[value(w.kind)]
	_, termsKnown := l.terms[value(w.terms)]
	l.mu.RUnlock()
	if !kindKnown {
		if err := l.loadKinds(ctx, q); err != nil {
			return err
		}
	}
	if w.terms != nil && !termsKnown {
		return l.loadTerms(ctx, q)
	}
	return nil
}

// maxMoves bounds how often a job is found again whose current generation gets a
// successor between being found and being locked.
const maxMoves = 5

// act applies a person's or producer's event to the current generation of a job in
// the transaction, and returns the row as it was decided about. A refusal is not an
// error here.
func (l *Ledger) act(ctx context.Context, tx pgx.Tx, kind, key string, ev machine.Event) (decision, error) {
	for range maxMoves {
		at, err := l.locate(ctx, tx, kind, key)
		if err != nil {
			return decision{}, err
		}
		if at.removed != nil {
			return decision{}, &machine.Denied{Why: machine.Removed, Act: ev.Name, Kind: kind, Key: key, State: job.State(*at.removed)}
		}
		if at.generation == nil {
			continue // a successor is being appended
		}
		if err := l.know(ctx, tx, at); err != nil {
			return decision{}, err
		}
		decisions, _, err := l.decide(ctx, tx, []target{{Job: at.job, Generation: *at.generation, Event: ev}})
		if err != nil {
			return decision{}, err
		}
		if d := decisions[0]; d.Found && d.Row.Current() {
			return d, nil
		}
	}
	return decision{}, fmt.Errorf("%s/%s is redriven again and again: try again", kind, key)
}

// audit appends who did what; detail is what else is worth keeping.
func (l *Ledger) audit(ctx context.Context, tx pgx.Tx, actor, action string, at rowID, detail map[string]string) error {
	encoded, err := json.Marshal(detail)
	if err != nil {
		return fmt.Errorf("encoding the audit: %w", err)
	}
	if _, err := tx.Exec(ctx, stmt("audit_put"), actor, action, at.job, at.generation, string(encoded)); err != nil {
		return fmt.Errorf("writing the audit: %w", err)
	}
	return nil
}
