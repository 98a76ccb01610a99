package ledger

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// asker asks a database by a statement of the user's own that only reads, on connections
// that are nobody else's.
type asker struct {
	pool      *pgxpool.Pool
	statement string
	timeout   time.Duration
}

// newAsker makes an asker; it connects when it is first asked.
func newAsker(config *pgxpool.Config, conns int32, statement string, timeout time.Duration) (asker, error) {
	config = config.Copy()
	config.MaxConns, config.MinConns, config.MinIdleConns = max(conns, 1), 0, 0
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	return asker{pool, statement, timeout}, err
}

// Close ends the connections.
func (a *asker) Close() { a.pool.Close() }

// reading runs do in a transaction that only reads, and that nothing of stands for long.
func (a *asker) reading(ctx context.Context, do func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, a.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, stmt("lookup_bounds"), strconv.FormatInt(max(a.timeout.Milliseconds(), 1), 10)); err != nil {
			return err
		}
		return do(tx)
	})
}

// try asks the server about the statement. An error that is unfit says that it cannot work;
// any other says nothing about it.
func (a *asker) try(ctx context.Context, unfit error, what string, describe func(*pgconn.StatementDescription) error) error {
	err := a.reading(ctx, func(tx pgx.Tx) error {
		described, err := tx.Conn().Prepare(ctx, "", a.statement)
		if err != nil {
			return err
		}
		return describe(described)
	})
	var answered *pgconn.PgError
	switch {
	case err == nil, errors.Is(err, unfit):
		return err
	case wrong(err) && errors.As(err, &answered):
		return fmt.Errorf("%w: %s (SQLSTATE %s)", unfit, answered.Message, answered.Code)
	}
	return fmt.Errorf("checking the statement of a %s: %w", what, err)
}

// failure says in a few words, without anything of the statement's data, why a question
// failed.
func failure(err error) string {
	var answered *pgconn.PgError
	switch {
	case errors.As(err, &answered):
		return "the statement failed (SQLSTATE " + answered.Code + ")"
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	}
	return "no connection to the database, or none that answered"
}
