package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"duly.dev/duly/internal/failpoint"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/pause"
)

// Cleaner cleans up behind the jobs of a kind by a statement of the user's own, in the
// ledger's database: what it removes and that it is done are one transaction.
type Cleaner struct {
	ledger    *Ledger
	own       *Ledger // the same, on the connection for the user's statements
	kind      string
	statement string
	timeout   time.Duration
	// careful counts the rounds for which one at a time is taken: a statement about one key
	// may have ended the backend.
	careful atomic.Int64
}

// CleanerOptions say how a kind is cleaned up behind.
type CleanerOptions struct {
	Kind      string
	Statement string
	// Timeout is the longest that one statement may take.
	Timeout time.Duration
}

// ErrCleanup: a statement cannot be used for a cleanup, whatever the state of the server.
var ErrCleanup = errors.New("the statement of the cleanup")

// cleanBound is how long one transaction of cleanups begins further ones.
const cleanBound = 5 * time.Second

// OpenCleaner checks the statement and makes a Cleaner of it, with one connection that is
// nobody else's: what the user's own statement waits for must keep nothing else waiting.
// A statement that cannot work is an ErrCleanup. The Cleaner is to be closed.
func (l *Ledger) OpenCleaner(ctx context.Context, o CleanerOptions) (*Cleaner, error) {
	if err := CheckCleanup(o.Statement); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCleanup, err)
	}
	config := l.pool.Config()
	config.MaxConns, config.MinConns, config.MinIdleConns = 1, 0, 0
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connecting for a cleanup: %w", err)
	}
	c := &Cleaner{ledger: l, own: New(pool), kind: o.Kind, statement: strings.TrimRight(strings.TrimSpace(o.Statement), "; \t\r\n"), timeout: o.Timeout}
	if err := c.check(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return c, nil
}

// Close ends the connection.
func (c *Cleaner) Close() { c.own.pool.Close() }

// check asks the server whether it takes the statement from this role, and whether it
// changes anything.
func (c *Cleaner) check(ctx context.Context) error {
	var plan string
	err := pgx.BeginTxFunc(ctx, c.own.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		described, err := tx.Conn().Prepare(ctx, "", c.statement)
		if err != nil {
			return err
		}
		switch {
		case len(described.ParamOIDs) != 1:
			return fmt.Errorf("%w: it has %d parameters; it must have one, $1", ErrCleanup, len(described.ParamOIDs))
		case !slices.Contains(texts, described.ParamOIDs[0]):
			return fmt.Errorf("%w: its parameter is no text; compare $1 with a text, or write $1::text", ErrCleanup)
		}
		return tx.QueryRow(ctx, stmt("cleanup_explain")+" "+c.statement, "").Scan(&plan)
	})
	var answered *pgconn.PgError
	switch {
	case errors.Is(err, ErrCleanup):
		return err
	case wrong(err) && errors.As(err, &answered):
		return fmt.Errorf("%w: %s (SQLSTATE %s)", ErrCleanup, answered.Message, answered.Code)
	case err != nil:
		return fmt.Errorf("checking the statement of a cleanup: %w", err)
	case !strings.Contains(plan, `"ModifyTable"`):
		return fmt.Errorf("%w: it changes no table", ErrCleanup)
	}
	return nil
}

// Clean takes due cleanups, at most limit, and runs them: the statement about each key, and
// that it is done, in one transaction, each so that it fails alone. What it took and did
// not come to is handed back. Nobody else takes them before hold is over. It returns what
// became of them. Once ctx ends no further one is begun.
func (c *Cleaner) Clean(ctx context.Context, limit int, hold time.Duration) ([]machine.CleanupOutcome, error) {
	if c.careful.Load() > 0 {
		c.careful.Add(-1)
		limit = 1
	}
	tasks, parked, err := c.ledger.TakeCleanups(ctx, c.kind, machine.MeansSQL, limit, hold)
	outcomes := slices.Repeat([]machine.CleanupOutcome{machine.CleanupParked}, parked)
	if err != nil || len(tasks) == 0 {
		return outcomes, err
	}
	if err := failpoint.At(failpoint.CleanupTaken); err != nil {
		return outcomes, err
	}
	ran, err := c.run(ctx, tasks)
	if err != nil {
		c.careful.Store(int64(2 * len(tasks)))
	}
	return append(outcomes, ran...), err
}

func (c *Cleaner) run(stopping context.Context, tasks []machine.CleanupTask) (outcomes []machine.CleanupOutcome, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(stopping), 2*cleanBound+c.timeout)
	defer cancel()
	err = c.own.inTx(ctx, "cleaning up behind "+c.kind, func(tx pgx.Tx) error {
		mine, err := mine(ctx, tx, tasks)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, stmt("cleanup_bounds"), strconv.FormatInt(max(c.timeout.Milliseconds(), 1), 10)); err != nil {
			return fmt.Errorf("bounding the statements: %w", err)
		}
		var results []machine.CleanupResult
		var back taskColumns
		until := time.Now().Add(cleanBound)
		for i, t := range mine {
			if stopping.Err() != nil || time.Now().After(until) {
				back.add(i, t)
				continue
			}
			r, err := c.one(ctx, tx, t)
			if err != nil {
				return err
			}
			results = append(results, r)
		}
		if _, err := tx.Exec(ctx, stmt("cleanup_unbound")); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, stmt("hot")); err != nil {
			return err
		}
		if err := back.note(ctx, tx, "cleanup_back", func(int) {}); err != nil {
			return fmt.Errorf("handing back cleanups: %w", err)
		}
		if err := failpoint.At(failpoint.CleanupRan); err != nil {
			return err
		}
		outcomes, err = c.ledger.noteCleanups(ctx, tx, results)
		if err == nil && slices.Contains(outcomes, machine.CleanupStale) {
			err = errors.New("a locked cleanup was not as it was found")
		}
		outcomes = append(outcomes, slices.Repeat([]machine.CleanupOutcome{machine.CleanupStale}, len(tasks)-len(mine))...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return outcomes, nil
}

// looks is how often a task is looked for that another transaction has locked. Whoever
// looked for due ones at the same time has so for a moment, although it was not to be
// had any more; a producer that cancels the job may have it for as long as it likes.
const (
	looks     = 10
	lookEvery = 10 * time.Millisecond
)

// mine locks the tasks that are still as they were taken.
func mine(ctx context.Context, tx pgx.Tx, tasks []machine.CleanupTask) ([]machine.CleanupTask, error) {
	var locked []machine.CleanupTask
	got := make([]bool, len(tasks))
	for n := 0; n < looks && len(locked) < len(tasks); n++ {
		if n > 0 {
			pause.For(ctx, lookEvery)
		}
		var missing taskColumns
		for i, t := range tasks {
			if !got[i] {
				missing.add(i, t)
			}
		}
		err := missing.note(ctx, tx, "cleanup_mine", func(i int) { got[i], locked = true, append(locked, tasks[i]) })
		if err != nil {
			return nil, fmt.Errorf("locking the cleanups: %w", err)
		}
	}
	return locked, nil
}

// one runs the statement about one key. The error is one of the transaction; what the
// statement failed with is in the result.
func (c *Cleaner) one(ctx context.Context, tx pgx.Tx, t machine.CleanupTask) (machine.CleanupResult, error) {
	r := machine.CleanupResult{CleanupTask: t}
	if _, err := tx.Exec(ctx, stmt("cleanup_begin")); err != nil {
		return r, err
	}
	tag, err := tx.Exec(ctx, c.statement, t.Key)
	if err == nil {
		_, err = tx.Exec(ctx, stmt("cleanup_check"))
	}
	if err == nil {
		r.Rows = tag.RowsAffected()
		_, err = tx.Exec(ctx, stmt("cleanup_keep"))
		return r, err
	}
	var answered *pgconn.PgError
	if ctx.Err() != nil || !errors.As(err, &answered) {
		return r, err // of the connection, not of the statement
	}
	r.Error = c.failure(answered)
	_, err = tx.Exec(ctx, stmt("cleanup_undo"))
	return r, err
}

// failure says why a statement failed, without anything of its data.
func (c *Cleaner) failure(err *pgconn.PgError) string {
	text := "the statement failed (SQLSTATE " + err.Code
	switch {
	case err.Code == "57014":
		return "the statement took longer than " + c.timeout.String()
	case err.Code == "55P03":
		return "the statement waited for a lock for longer than " + c.timeout.String()
	case err.ConstraintName != "":
		text += ", constraint " + err.ConstraintName
	}
	if err.TableName != "" {
		text += ", table " + err.TableName
	}
	return text + ")"
}
