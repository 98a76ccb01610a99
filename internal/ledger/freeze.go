package ledger

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"duly.dev/duly/internal/failpoint"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// Freezing a run is one transaction: its row is locked, the selection is read through a
// cursor, which sees one snapshot whatever happens meanwhile, every row becomes a member
// or a refusal, and the run is frozen with its counts. A scheduler that dies takes all of
// it with it. One that is paused holds the lock until its backend ends for having been
// idle in a transaction; then all of it is rolled back, and the scheduler can insert
// nothing any more when it wakes.
//
// The cursor is in a transaction of its own, also where the selection is asked of the
// ledger's database: while one backend inserts, the next rows are read by another and made
// into requests here (selection.go). It begins behind the lock of the run's row.

// FreezeNext freezes the open run of these schedules whose turn it is, and returns it;
// nil where there is none that nobody freezes at this moment. plan says how, and is called
// with the run's row locked. What goes wrong rolls all of it back; it is noted at the run
// with fails, which says how long the run rests, and returned beside it.
//
// It takes two connections of the pool.
func (l *Ledger) FreezeNext(ctx context.Context, schedules []string, plan func(machine.Run) (machine.Selection, error), rest func(tries int) time.Duration) (*machine.Run, error) {
	var run *machine.Run
	err := l.freeze(ctx, schedules, plan, &run)
	if err == nil || run == nil {
		return run, err
	}
	err = fmt.Errorf("freezing run %s of schedule %s: %w", run.Period, run.Schedule, err)
	if errors.Is(err, machine.ErrUnclear) {
		return run, err // the next look sees whether it is frozen
	}
	_, noting := l.pool.Exec(context.WithoutCancel(ctx), stmt("run_failed"), run.ID, job.Storable(err.Error(), maxRunError), rest(run.Tries+1))
	return run, errors.Join(err, wrapped(noting, "noting that"))
}

// maxRunError bounds what is kept of an error, in bytes.
const maxRunError = 1000

func (l *Ledger) freeze(ctx context.Context, schedules []string, plan func(machine.Run) (machine.Selection, error), run **machine.Run) error {
	tx, err := l.pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: "BEGIN ISOLATION LEVEL READ COMMITTED; " + stmt("durable") + "; " + stmt("bounded")})
	if err != nil {
		return fmt.Errorf("beginning a transaction: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit this does nothing
	var id int64
	if err := tx.QueryRow(ctx, stmt("run_lock"), schedules).Scan(&id); err != nil {
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return fmt.Errorf("looking for an open run: %w", err)
	}
	runs, err := l.runs(ctx, tx, []int64{id})
	if err != nil {
		return err
	}
	*run = &runs[0]
	selection, err := plan(runs[0])
	if err != nil {
		return err
	}
	f := freezer{ledger: l, tx: tx, run: *run, selection: selection, digest: sha256.New()}
	if err := f.all(ctx); err != nil {
		return err
	}
	if err := failpoint.At(failpoint.FreezeMembers); err != nil {
		return err
	}
	if err := commit(ctx, tx); err != nil {
		return err
	}
	frozen, err := l.runs(ctx, l.pool, []int64{id})
	if err == nil {
		*run = &frozen[0]
	}
	return err
}

// freezer makes the members of one run.
type freezer struct {
	ledger    *Ledger
	tx        pgx.Tx
	run       *machine.Run
	selection machine.Selection
	digest    hash.Hash

	selected, refused, linked int64
}

func (f *freezer) all(ctx context.Context) error {
	rows := f.ledger.readSelection(ctx, f.selection)
	defer rows.close()
	// All of it is planned as on a producer's connection: what makes the statements of loops
	// fast would have every row of a batch compared with each.
	for last := false; !last; {
		b, err := f.next(ctx, rows)
		if err != nil {
			return err
		}
		if err := f.put(ctx, b); err != nil {
			return err
		}
		if f.selection.Progress != nil {
			f.selection.Progress(f.selected)
		}
		last = b.last
	}
	_, err := f.tx.Exec(ctx, stmt("run_frozen"), f.run.ID, f.selected, f.refused, f.linked, f.digest.Sum(nil), orNull(f.selection.ZoneData))
	return err
}

// next waits for what is read next. Meanwhile the ledger's transaction is kept from being
// idle for too long, which a paused process cannot do.
func (f *freezer) next(ctx context.Context, rows *selectionRows) (recipients, error) {
	tick := time.NewTicker(alive)
	defer tick.Stop()
	for {
		select {
		case b := <-rows.batches:
			return b, b.err
		case <-ctx.Done():
			return recipients{}, ctx.Err()
		case <-tick.C:
			if _, err := f.tx.Exec(ctx, stmt("clock")); err != nil {
				return recipients{}, err // what is read can become nothing any more
			}
		}
	}
}

// put inserts a batch: requests become jobs, or are linked to those that exist; what is
// neither is kept as a refusal.
func (f *freezer) put(ctx context.Context, b recipients) error {
	first := f.selected + 1
	f.selected += int64(len(b.rows))
	if err := f.ledger.enqueueAll(ctx, f.tx, b.in, f.run.ID); err != nil {
		return fmt.Errorf("enqueueing %d members: %w", len(b.in.all), err)
	}
	if err := f.linkExisting(ctx, b.in); err != nil {
		return err
	}
	if err := failpoint.At(failpoint.FreezeMember); err != nil {
		return err
	}
	hashes := make([]job.Hash, len(b.in.all))
	for _, r := range b.in.order {
		hashes[r.at] = r.hash
	}
	for n, m := range b.in.all {
		if m.Refused != nil {
			b.rows[b.at[n]].Refused = job.Refusals(m.Refused)[0]
			continue
		}
		f.digest.Write(hashes[n][:])
	}
	return f.refuse(ctx, first, b.rows)
}

// linkExisting makes jobs that existed before members of the run. Of rows with one key the
// first is a member; the others are refused.
func (f *freezer) linkExisting(ctx context.Context, in intake) error {
	var existing []*request
	var conflicts []int64
	for _, r := range in.order {
		switch m := in.all[r.at]; {
		case m.Created:
		case m.Refused == nil:
			existing = append(existing, r)
		case errors.Is(m.Refused, job.ErrConflict):
			conflicts = append(conflicts, m.Job)
		}
	}
	linked, err := f.link(ctx, in, existing)
	if err != nil {
		return err
	}
	f.linked += int64(len(linked))
	for _, r := range existing {
		m := &in.all[r.at]
		if !linked[m.Job] {
			m.Refused = twice(r.Spec)
		}
		delete(linked, m.Job)
	}
	if len(conflicts) == 0 {
		return nil
	}
	return f.tell(ctx, in, conflicts)
}

// link makes members of jobs that existed before, and returns those that were none.
func (f *freezer) link(ctx context.Context, in intake, existing []*request) (map[int64]bool, error) {
	if len(existing) == 0 {
		return map[int64]bool{}, nil
	}
	jobs, hashes := make([]int64, len(existing)), make([]pgtype.UUID, len(existing))
	for n, r := range existing {
		jobs[n], hashes[n] = in.all[r.at].Job, uuid(r.hash)
	}
	return f.jobs(ctx, "members_link", jobs, hashes)
}

// jobs are those that a statement about the run returns.
func (f *freezer) jobs(ctx context.Context, statement string, args ...any) (map[int64]bool, error) {
	rows, err := f.tx.Query(ctx, stmt(statement), append([]any{f.run.ID}, args...)...)
	if err != nil {
		return nil, err
	}
	set := make(map[int64]bool)
	var id int64
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
		set[id] = true
		return nil
	})
	return set, err
}

// tell makes duplicates of conflicts with a member of this run.
func (f *freezer) tell(ctx context.Context, in intake, conflicts []int64) error {
	own, err := f.jobs(ctx, "members_among", conflicts)
	if err != nil {
		return err
	}
	for _, r := range in.order {
		if m := &in.all[r.at]; errors.Is(m.Refused, job.ErrConflict) && own[m.Job] {
			m.Refused = twice(r.Spec)
		}
	}
	return nil
}

// twice refuses a row whose key another row of the selection has.
func twice(s *job.Spec) *job.Refusal {
	return job.Refuse("key", s.Key, job.RuleTwice, "another row of the selection has this key")
}

// refuse keeps the refusals of a batch.
func (f *freezer) refuse(ctx context.Context, first int64, batch []machine.Recipient) error {
	var (
		rows                               []int64
		keys, subjects, fields, rules, why []string
	)
	for i, r := range batch {
		if r.Refused == nil {
			continue
		}
		rows = append(rows, first+int64(i))
		keys = append(keys, job.Storable(r.Spec.Key, job.MaxKey))
		subjects = append(subjects, job.Storable(r.Spec.Subject, job.MaxKey))
		fields, rules, why = append(fields, r.Refused.Field), append(rules, string(r.Refused.Rule)), append(why, r.Refused.More)
	}
	if len(rows) == 0 {
		return nil
	}
	f.refused += int64(len(rows))
	_, err := f.tx.Exec(ctx, stmt("refused_put"), f.run.ID, rows, keys, subjects, fields, rules, why)
	return err
}
