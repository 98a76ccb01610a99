package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"duly.dev/duly/internal/machine"
)

// Ledger is the ledger on PostgreSQL. It is safe for concurrent use.
type Ledger struct {
	pool    *pgxpool.Pool
	unclear unclearLeases
	idle    idleTopics

	mu    sync.RWMutex
	kinds map[int16]machine.Kind // by the ledger's id
	ids   map[string]int16       // by name
	// kindsRead is when the kinds were read last.
	kindsRead time.Time
	terms     map[int16]terms
	// termIDs finds the number of a channel and its promises.
	termIDs map[terms]int16
}

// terms are what a generation's first attempt fixes.
type terms struct {
	channel  string
	promises machine.Promises
}

// New makes a ledger on the pool, which stays the caller's to close. It does no
// I/O: kinds are read when they are first needed.
func New(pool *pgxpool.Pool) *Ledger {
	return &Ledger{
		pool:    pool,
		kinds:   make(map[int16]machine.Kind),
		ids:     make(map[string]int16),
		terms:   make(map[int16]terms),
		termIDs: make(map[terms]int16),
	}
}

// Errors that the loops act on. Everything else that a method returns may pass
// with time.
var (
	// ErrWorkerEnded: the worker's row was ended; nothing of it may begin any more.
	ErrWorkerEnded = machine.ErrWorkerEnded
	// ErrLostTopic: another dispatcher holds the topic, or has moved its cursor.
	ErrLostTopic = machine.ErrLostTopic
	// ErrSchema: the schema is older or newer than the program.
	ErrSchema = errors.New("schema version")
)

// maxConflicts bounds how often a transaction is repeated after a deadlock or a
// serialization failure.
const maxConflicts = 5

// inTx runs do in a transaction that commits durably. A deadlock or serialization
// failure is repeated, since nothing of it was committed; a COMMIT whose reply was
// lost is never repeated: its error says ErrUnclear, and the caller reads back.
func (l *Ledger) inTx(ctx context.Context, doing string, do func(pgx.Tx) error) error {
	for n := 1; ; n++ {
		err := l.once(ctx, do)
		if err == nil {
			return nil
		}
		if n >= maxConflicts || !conflict(err) {
			return fmt.Errorf("%s: %w", doing, err)
		}
	}
}

func (l *Ledger) once(ctx context.Context, do func(pgx.Tx) error) error {
	tx, err := l.pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: "BEGIN; " + stmt("hot") + "; " + stmt("bounded")})
	if err != nil {
		return fmt.Errorf("beginning a transaction: %w", err)
	}
	defer func() {
		// After a commit this does nothing; otherwise the error that matters is do's.
		_ = tx.Rollback(context.WithoutCancel(ctx))
	}()
	if err := do(tx); err != nil {
		return err
	}
	return commit(ctx, tx)
}

// commit commits, and says so where nobody can know whether it did.
func commit(ctx context.Context, tx pgx.Tx) error {
	err := tx.Commit(ctx)
	if err == nil {
		return nil
	}
	var answered *pgconn.PgError
	if errors.As(err, &answered) || errors.Is(err, pgx.ErrTxCommitRollback) {
		return fmt.Errorf("committing: %w", err)
	}
	return fmt.Errorf("committing: %w: %w", machine.ErrUnclear, err)
}

// conflict reports whether the server rolled the transaction back because of
// another one, so that repeating it is both safe and promising.
func conflict(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	return pg.Code == "40P01" || pg.Code == "40001"
}

// null makes a zero instant NULL.
func null(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// orNull makes an empty text NULL.
func orNull[S ~string](s S) *string {
	if s == "" {
		return nil
	}
	v := string(s)
	return &v
}

// orNone makes the zero value NULL.
func orNone[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// value makes NULL the zero value.
func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
