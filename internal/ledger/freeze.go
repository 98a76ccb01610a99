package ledger

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

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

// UseSources names the databases besides the ledger's own that selections are asked of.
// It is called before anything is frozen.
func (l *Ledger) UseSources(sources map[string]*pgxpool.Pool) { l.sources = sources }

// source is the database of a name; nil is the ledger's own.
func (l *Ledger) source(name string) (*pgxpool.Pool, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // as said
	}
	pool, ok := l.sources[name]
	if !ok {
		return nil, fmt.Errorf("%w: there is no source %q", machine.ErrSelection, name)
	}
	return pool, nil
}

// freezeBatch is how many rows are read and inserted together.
const freezeBatch = 2000

// FreezeNext freezes the open run of these schedules whose turn it is, and returns it;
// nil where there is none that nobody freezes at this moment. plan says how, and is called
// with the run's row locked. What goes wrong rolls all of it back; it is noted at the run
// with fails, which says how long the run rests, and returned beside it.
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
	rows, done, err := f.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	// All of it is planned as on a producer's connection: what makes the statements of loops
	// fast would have every row of a batch compared with each.
	for {
		batch, err := f.fetch(ctx, rows)
		if err != nil {
			return err
		}
		if err := f.put(ctx, batch); err != nil {
			return err
		}
		if f.selection.Progress != nil {
			f.selection.Progress(f.selected)
		}
		if len(batch) < freezeBatch {
			break
		}
	}
	_, err = f.tx.Exec(ctx, stmt("run_frozen"), f.run.ID, f.selected, f.refused, f.linked, f.digest.Sum(nil), orNull(f.selection.ZoneData))
	return err
}

// lockWait is the longest that a selection waits for a lock: then the run says so, and
// others have their turn.
const lockWait = 10 * time.Second

// begin opens the selection as open does. Another database may take its time even for that.
func (f *freezer) begin(ctx context.Context) (rows pgx.Tx, done func(), err error) {
	if f.selection.Source == "" {
		if rows, done, err = f.open(ctx); err == nil {
			_, err = f.tx.Exec(ctx, stmt("unhurried"))
		}
		return rows, done, err
	}
	err = f.aside(ctx, func(ctx context.Context) (err error) {
		rows, done, err = f.open(ctx)
		return err
	})
	if err != nil && done != nil {
		done()
	}
	return rows, done, err
}

// open declares the cursor, in the ledger's transaction or in one of its own.
func (f *freezer) open(ctx context.Context) (tx pgx.Tx, done func(), err error) {
	tx, done = f.tx, func() {}
	source, err := f.ledger.source(f.selection.Source)
	if err != nil {
		return nil, nil, err
	}
	if source != nil {
		tx, err = source.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
		if err != nil {
			return nil, nil, fmt.Errorf("%w: connecting to its source: %w", machine.ErrSelection, err)
		}
		done = func() {
			// The ledger's transaction waits for it: not long.
			bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), alive)
			defer cancel()
			_ = tx.Rollback(bound)
		}
	}
	if _, err := tx.Exec(ctx, stmt("selection_settings"), strconv.FormatInt(lockWait.Milliseconds(), 10)); err != nil {
		done()
		return nil, nil, selectionError(err)
	}
	if _, err := tx.Exec(ctx, "DECLARE duly_selection NO SCROLL CURSOR FOR "+f.selection.Query); err != nil {
		done()
		return nil, nil, selectionError(err)
	}
	return tx, done, nil
}

// alive is how often a transaction that waits for another database is shown to live.
const alive = 5 * time.Second

// fetch reads the next rows.
func (f *freezer) fetch(ctx context.Context, rows pgx.Tx) (batch []machine.Recipient, err error) {
	if rows == f.tx {
		return f.read(ctx, rows)
	}
	err = f.aside(ctx, func(ctx context.Context) (err error) {
		batch, err = f.read(ctx, rows)
		return err
	})
	return batch, err
}

// aside does something at another database. While that takes its time, the ledger's
// transaction is kept from being idle for too long, which a paused process cannot do.
func (f *freezer) aside(ctx context.Context, do func(context.Context) error) error {
	doing, stop := context.WithCancel(ctx)
	defer stop()
	did := make(chan error, 1)
	go func() { did <- do(doing) }()
	tick := time.NewTicker(alive)
	defer tick.Stop()
	var idle error
	for {
		select {
		case err := <-did:
			return errors.Join(err, idle)
		case <-tick.C:
			if _, err := f.tx.Exec(ctx, stmt("clock")); err != nil && idle == nil {
				idle = err
				stop() // what it does can become nothing any more
			}
		}
	}
}

// read makes recipients of the next rows of the cursor, whose values are read as texts.
func (f *freezer) read(ctx context.Context, tx pgx.Tx) ([]machine.Recipient, error) {
	rows, err := tx.Query(ctx, fmt.Sprintf("FETCH %d FROM duly_selection", freezeBatch), pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return nil, selectionError(err)
	}
	defer rows.Close()
	var columns columnsOf
	batch := make([]machine.Recipient, 0, freezeBatch)
	for rows.Next() {
		if columns == nil {
			if columns, err = named(rows.FieldDescriptions()); err != nil {
				return nil, err
			}
		}
		batch = append(batch, f.selection.Recipient(columns.of(rows.RawValues())))
	}
	if err := rows.Err(); err != nil {
		return nil, selectionError(err)
	}
	return batch, nil
}

// wrong reports whether the server has refused the text of a query for what it says; a
// missing grant may come, and a server that is busy or going down answers later.
func wrong(err error) bool {
	answered, ok := errors.AsType[*pgconn.PgError](err)
	return ok && answered.Code != "42501" && (strings.HasPrefix(answered.Code, "42") || strings.HasPrefix(answered.Code, "0A"))
}

// selectionError says why a selection could not be read. What the server says of a query is
// kept; what it says of a value, which may be a recipient's, is not.
func selectionError(err error) error {
	answered, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return fmt.Errorf("%w: %w", machine.ErrSelection, err)
	}
	for _, private := range []string{"22", "23", "P0"} {
		if strings.HasPrefix(answered.Code, private) {
			return fmt.Errorf("%w: SQLSTATE %s (it is about a value, which is not repeated here; the log of the database has it)", machine.ErrSelection, answered.Code)
		}
	}
	return fmt.Errorf("%w: %s (SQLSTATE %s)", machine.ErrSelection, answered.Message, answered.Code)
}

// columnsOf are the places of a selection's columns by their names.
type columnsOf map[string]int

func named(fields []pgconn.FieldDescription) (columnsOf, error) {
	columns := make(columnsOf, len(fields))
	for i, field := range fields {
		if _, twice := columns[field.Name]; twice {
			return nil, fmt.Errorf("%w: it has two columns named %q; give one of them another name", machine.ErrSelection, field.Name)
		}
		if field.DataTypeOID == pgtype.ByteaOID {
			return nil, fmt.Errorf("%w: column %q is bytea; select it as text or json, such as convert_from(%s, 'UTF8')", machine.ErrSelection, field.Name, field.Name)
		}
		columns[field.Name] = i
	}
	return columns, nil
}

func (c columnsOf) of(values [][]byte) machine.Columns {
	return func(name string) (string, bool) {
		i, ok := c[name]
		if !ok || values[i] == nil {
			return "", false
		}
		return string(values[i]), true
	}
}

// put inserts a batch: requests become jobs, or are linked to those that exist; what is
// neither is kept as a refusal.
func (f *freezer) put(ctx context.Context, batch []machine.Recipient) error {
	first := f.selected + 1
	f.selected += int64(len(batch))
	var specs []job.Spec
	var at []int // of each request, its place in the batch
	for i, r := range batch {
		if r.Refused == nil {
			specs, at = append(specs, r.Spec), append(at, i)
		}
	}
	made, err := f.ledger.Enqueue(ctx, f.tx, specs)
	if err != nil {
		return err
	}
	if err := f.members(ctx, specs, made); err != nil {
		return err
	}
	if err := failpoint.At(failpoint.FreezeMember); err != nil {
		return err
	}
	for n, m := range made {
		if m.Refused != nil {
			batch[at[n]].Refused = job.Refusals(m.Refused)[0]
			continue
		}
		h := job.KeyHash(specs[n].Kind, specs[n].Key)
		f.digest.Write(h[:])
	}
	return f.refuse(ctx, first, batch)
}

// members makes the created and the existing jobs members of the run. Of rows with one
// key the first is a member; the others are refused in made.
func (f *freezer) members(ctx context.Context, specs []job.Spec, made []machine.Enqueued) error {
	var created, existing []int
	var conflicts []int64
	for i, m := range made {
		switch {
		case m.Created:
			created = append(created, i)
		case m.Refused == nil:
			existing = append(existing, i)
		case errors.Is(m.Refused, job.ErrConflict):
			conflicts = append(conflicts, m.Job)
		}
	}
	jobs, hashes := membersOf(specs, made, created)
	if _, err := f.tx.Exec(ctx, stmt("members_put"), f.run.ID, jobs, hashes); err != nil {
		return err
	}
	linked, err := f.link(ctx, specs, made, existing)
	if err != nil {
		return err
	}
	f.linked += int64(len(linked))
	for _, i := range existing {
		if !linked[made[i].Job] {
			made[i].Refused = twice(specs[i])
		}
		delete(linked, made[i].Job)
	}
	if len(conflicts) == 0 {
		return nil
	}
	return f.tell(ctx, specs, made, conflicts)
}

// membersOf are some of the jobs, with the hashes of their keys.
func membersOf(specs []job.Spec, made []machine.Enqueued, which []int) (jobs []int64, hashes []pgtype.UUID) {
	jobs, hashes = make([]int64, len(which)), make([]pgtype.UUID, len(which))
	for n, i := range which {
		jobs[n], hashes[n] = made[i].Job, uuid(job.KeyHash(specs[i].Kind, specs[i].Key))
	}
	return jobs, hashes
}

// link makes members of jobs that existed before, and returns those that were none.
func (f *freezer) link(ctx context.Context, specs []job.Spec, made []machine.Enqueued, which []int) (map[int64]bool, error) {
	if len(which) == 0 {
		return map[int64]bool{}, nil
	}
	jobs, hashes := membersOf(specs, made, which)
	rows, err := f.tx.Query(ctx, stmt("members_link"), f.run.ID, jobs, hashes)
	if err != nil {
		return nil, err
	}
	fresh, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, err
	}
	set := make(map[int64]bool, len(fresh))
	for _, id := range fresh {
		set[id] = true
	}
	return set, nil
}

// tell makes duplicates of conflicts with a member of this run.
func (f *freezer) tell(ctx context.Context, specs []job.Spec, made []machine.Enqueued, conflicts []int64) error {
	rows, err := f.tx.Query(ctx, stmt("members_among"), f.run.ID, conflicts)
	if err != nil {
		return err
	}
	members, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return err
	}
	own := make(map[int64]bool, len(members))
	for _, id := range members {
		own[id] = true
	}
	for i, m := range made {
		if errors.Is(m.Refused, job.ErrConflict) && own[m.Job] {
			made[i].Refused = twice(specs[i])
		}
	}
	return nil
}

// twice refuses a row whose key another row of the selection has.
func twice(s job.Spec) *job.Refusal {
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

// selecting is how the text of a selection begins.
var selecting = regexp.MustCompile(`(?is)^\s*(select|with|table|values)\b`)

// CheckSelection says what is wrong with the text of a selection; nil where nothing is
// that can be seen without a database.
func CheckSelection(query string) error {
	switch text := strings.TrimSpace(query); {
	case text == "":
		return errors.New("it must be given: the query that yields the recipients")
	case !selecting.MatchString(text):
		return errors.New("it must be one query: SELECT, WITH, TABLE or VALUES")
	case strings.HasSuffix(text, ";"):
		return errors.New("it must be one query, without a semicolon at its end")
	}
	return nil
}

// TrySelection asks a database what the query would return, without running it, and
// returns its columns. machine.ErrSelection: it cannot be used, whatever the state of the server.
func (l *Ledger) TrySelection(ctx context.Context, s machine.Selection) ([]string, error) {
	pool, err := l.source(s.Source)
	if err != nil {
		return nil, err
	}
	if pool == nil {
		pool = l.pool
	}
	tx, err := pool.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, fmt.Errorf("asking the source of a selection: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	described, err := tx.Conn().Prepare(ctx, "", s.Query)
	if wrong(err) {
		return nil, selectionError(err)
	}
	if err != nil {
		return nil, fmt.Errorf("asking the source of a selection: %w", err)
	}
	if _, err := named(described.Fields); err != nil {
		return nil, err
	}
	columns := make([]string, len(described.Fields))
	for i, field := range described.Fields {
		columns[i] = field.Name
	}
	return columns, nil
}
