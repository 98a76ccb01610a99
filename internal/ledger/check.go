package ledger

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// CheckRequest says what Check looks at: one job, where kind and key are given, else
// everything.
type CheckRequest struct {
	Kind, Key string
	// After begins behind this job; the check of everything that a page showed before.
	After int64
	// Page is about how many jobs are read from one snapshot; 0 means DefaultCheckPage.
	Page int
	// Progress is told after every page, with the share of the jobs that is done; nil
	// tells nobody.
	Progress func(done machine.Checked, share float64)
}

// DefaultCheckPage is how many jobs Check reads from one snapshot.
const DefaultCheckPage = 500

// Check folds the events that are kept through the machine and tells found of every
// place where a row, or what should be in step with it, does not agree: in the order
// of the jobs, then of what no job leads to. It returns what it looked at, or the
// first error of found.
//
// It reads a page of jobs from one snapshot, so that it holds none for long. What a page
// holds in memory are its rows and leases, and the events of one job at a time. The whole
// outbox is read once, at the end.
func (l *Ledger) Check(ctx context.Context, req CheckRequest, found func(machine.Disagreement) error) (machine.Checked, error) {
	c := &checker{l: l, found: found, page: req.Page, progress: req.Progress}
	if c.page <= 0 {
		c.page = DefaultCheckPage
	}
	var err error
	if req.Kind != "" || req.Key != "" {
		err = c.one(ctx, req.Kind, req.Key)
	} else {
		err = c.all(ctx, req.After)
	}
	return c.done, err
}

// checker is a check on its way.
type checker struct {
	l        *Ledger
	found    func(machine.Disagreement) error
	page     int
	progress func(machine.Checked, float64)
	done     machine.Checked
}

func (c *checker) tell(d machine.Disagreement) error {
	c.done.Disagreements++
	return c.found(d)
}

// all checks everything behind a job.
func (c *checker) all(ctx context.Context, after int64) error {
	for {
		last, newest, err := c.next(ctx, after)
		if err != nil {
			return err
		}
		if c.progress != nil {
			c.progress(c.done, float64(min(last, newest))/float64(max(newest, 1)))
		}
		if last == math.MaxInt64 {
			break
		}
		after = last
	}
	if err := c.keys(ctx); err != nil {
		return err
	}
	if err := c.results(ctx); err != nil {
		return err
	}
	if err := c.runs(ctx); err != nil {
		return err
	}
	return c.outbox(ctx, nil)
}

// one checks one job.
func (c *checker) one(ctx context.Context, kind, key string) error {
	at, err := c.l.locate(ctx, c.l.pool, kind, key)
	if err != nil || at.removed != nil {
		return err
	}
	if err := c.read(ctx, fmt.Sprintf("checking %s/%s", kind, key), func(tx pgx.Tx, since time.Time) error {
		return c.jobs(ctx, tx, at.job-1, at.job, since)
	}); err != nil {
		return err
	}
	return c.outbox(ctx, &at.job)
}

// next checks the page behind a job, and returns the last job of it and the newest of
// all; behind that it looks at what the lists say about jobs that are not there.
func (c *checker) next(ctx context.Context, after int64) (last, newest int64, err error) {
	err = c.read(ctx, fmt.Sprintf("checking the jobs behind %d", after), func(tx pgx.Tx, since time.Time) error {
		var end *int64
		if err := tx.QueryRow(ctx, stmt("check_page"), after, c.page).Scan(&end, &newest); err != nil {
			return fmt.Errorf("taking a page: %w", err)
		}
		if last = math.MaxInt64; end != nil {
			last = *end
		}
		return c.jobs(ctx, tx, after, last, since)
	})
	return last, newest, err
}

// read runs do on one snapshot during which no partition is dropped, and tells it
// since when events and leases are kept.
func (c *checker) read(ctx context.Context, doing string, do func(tx pgx.Tx, since time.Time) error) error {
	return c.l.reading(ctx, doing, func(tx pgx.Tx) error {
		for _, first := range []string{"check_begin", "seek"} { // a lock takes no snapshot
			if _, err := tx.Exec(ctx, stmt(first)); err != nil {
				return fmt.Errorf("beginning: %w", err)
			}
		}
		if err := errors.Join(c.l.loadKinds(ctx, tx), c.l.loadTerms(ctx, tx)); err != nil {
			return err
		}
		var since *time.Time
		if err := tx.QueryRow(ctx, stmt("check_since")).Scan(&since); err != nil {
			return fmt.Errorf("reading since when events are kept: %w", err)
		}
		return do(tx, value(since))
	})
}

// keys walks the keys: each must lead to its job, or say how that ended.
func (c *checker) keys(ctx context.Context) error {
	var after [16]byte
	for {
		var n int
		if err := c.read(ctx, "checking the keys", func(tx pgx.Tx, _ time.Time) (err error) {
			n, err = c.keyPage(ctx, tx, &after)
			return err
		}); err != nil {
			return err
		}
		if c.done.Keys += n; n < c.page {
			return nil
		}
	}
}

// keyPage checks the page of keys behind a hash, moves that, and returns how many
// there were.
func (c *checker) keyPage(ctx context.Context, tx pgx.Tx, after *[16]byte) (n int, err error) {
	rows, err := tx.Query(ctx, stmt("check_keys"), uuid(*after), c.page)
	if err != nil {
		return 0, err
	}
	d := machine.Disagreement{Rule: machine.RuleKey}
	var state, kind, key *string
	_, err = pgx.ForEachRow(rows, []any{after, &d.Job, &state, &kind, &key}, func() error {
		n++
		d.Kind, d.Key = value(kind), value(key)
		switch {
		case kind == nil && state == nil:
			d.Stored, d.Folded = "a key without a job", "a job, or a tombstone"
		case kind != nil && state != nil:
			d.Stored, d.Folded = "a tombstone that says "+*state, "no tombstone beside its job"
		case kind != nil && job.KeyHash(d.Kind, d.Key) != *after:
			d.Stored, d.Folded = "another key that leads to this job", "one key a job"
		default:
			return nil
		}
		return c.tell(d)
	})
	return n, err
}

// doneRows is how many rows of results are checked in one snapshot: each names a batch of
// jobs.
const doneRows = 50

// results walks the rows that are the events of results: the rows of their jobs must lead to
// them, so that none was overlooked when those were folded.
func (c *checker) results(ctx context.Context) error {
	place := donePlace{worker: uuid([16]byte{}), at: pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}}
	for {
		var n int
		if err := c.read(ctx, "checking the results", func(tx pgx.Tx, _ time.Time) (err error) {
			n, err = c.resultPage(ctx, tx, &place)
			return err
		}); err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
	}
}

// donePlace is a place in the order of duly.done by (worker, at).
type donePlace struct {
	worker pgtype.UUID
	at     pgtype.Timestamptz
}

// resultPage checks the page of results behind a place, moves that, and returns how many
// rows there were.
func (c *checker) resultPage(ctx context.Context, tx pgx.Tx, place *donePlace) (n int, err error) {
	rows, err := tx.Query(ctx, stmt("check_done"), place.worker, place.at, doneRows)
	if err != nil {
		return 0, err
	}
	var id *int64
	var generation *int32
	var kind, key *string
	_, err = pgx.ForEachRow(rows, []any{&place.worker, &place.at, &id, &generation, &kind, &key}, func() error {
		n++
		if id == nil {
			return nil
		}
		return c.tell(machine.Disagreement{
			Job: *id, Kind: value(kind), Key: value(key), Generation: value(generation), Rule: machine.RuleEvent,
			Stored: fmt.Sprintf("done at %s by worker %s", when(&place.at.Time), place.worker),
			Folded: "a row that this worker delivered then",
		})
	})
	return n, err
}

// outbox looks for what is ready and announced by nothing, of one job or of all.
func (c *checker) outbox(ctx context.Context, of *int64) error {
	rows, err := c.l.pool.Query(ctx, stmt("check_outbox"), of)
	if err != nil {
		return fmt.Errorf("checking the outbox: %w", err)
	}
	var emission int32
	d := machine.Disagreement{Rule: machine.RuleOutbox, Folded: "an outbox row of that emission that was not judged"}
	_, err = pgx.ForEachRow(rows, []any{&d.Job, &d.Kind, &d.Key, &d.Generation, &emission}, func() error {
		d.Stored = fmt.Sprintf("ready at emission %d", emission)
		return c.tell(d)
	})
	if err != nil {
		return fmt.Errorf("checking the outbox: %w", err)
	}
	return nil
}
