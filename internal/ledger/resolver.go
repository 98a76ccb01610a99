package ledger

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Resolver is a statement of the user's own that says where effects go now, against the
// ledger's database or another.
//
// It is asked about many jobs at once. Its parameters are arrays of texts of one length: $1
// the operation keys, and, if it likes, $2 the subjects and $3 the destinations that were
// given, empty where there is none. It returns key (text, one of $1) and destination
// (text), at most one row for each key.
type Resolver struct {
	asker

	// takes is how many parameters the statement has; 0 until the server was asked.
	takes atomic.Int32
}

// ErrResolve: a statement cannot be used to resolve destinations, whatever the state of the
// server.
var ErrResolve = errors.New("the statement of the resolve")

// fourthParameter are parameters that a resolve does not have.
var fourthParameter = regexp.MustCompile(`\$(0|[4-9]|[1-9]\d)`)

// CheckResolve says what is wrong with the text of a statement; nil where nothing is that
// can be seen without a database.
func CheckResolve(statement string) error {
	code := strings.TrimSpace(codeOf(statement))
	switch {
	case code == "":
		return errors.New("it must be given, such as SELECT a.key, c.mail AS destination FROM unnest($1::text[], $2::text[]) AS a (key, subject) JOIN customer c ON c.id = a.subject")
	case strings.Contains(code, ";"):
		return errors.New("it must be one query, without a semicolon")
	case !selecting.MatchString(code):
		return errors.New("it must be one query: SELECT, WITH, TABLE or VALUES")
	case !firstParameter.MatchString(code):
		return errors.New("it must name its parameter, $1, which are the operation keys, or nobody could tell whose address it returns")
	case fourthParameter.MatchString(code):
		return errors.New("it has three parameters at most: $1 the operation keys, $2 the subjects, $3 the destinations that were given")
	}
	return nil
}

// ResolverOptions say how a statement is asked.
type ResolverOptions struct {
	Statement string
	// Timeout is the longest that an answer may take.
	Timeout time.Duration
	// Conns are the most connections, which are nobody else's: what the user's own statement
	// waits for must keep nothing else waiting.
	Conns int32
}

// OpenResolver makes a resolver of a statement at a database. It connects when it is first
// asked. It is to be closed.
func OpenResolver(config *pgxpool.Config, o ResolverOptions) (*Resolver, error) {
	if err := CheckResolve(o.Statement); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrResolve, err)
	}
	a, err := newAsker(config, o.Conns, o.Statement, o.Timeout)
	if err != nil {
		return nil, fmt.Errorf("connecting to resolve destinations: %w", err)
	}
	return &Resolver{asker: a}, nil
}

// OpenResolver makes a resolver of a statement at the ledger's own database, on connections
// of its own.
func (l *Ledger) OpenResolver(o ResolverOptions) (*Resolver, error) {
	return OpenResolver(l.pool.Config(), o)
}

// Try asks the server what it has against the statement: an ErrResolve is one that cannot
// work; any other error says nothing about it.
func (r *Resolver) Try(ctx context.Context) error {
	return r.try(ctx, ErrResolve, "resolve", r.describe)
}

// textArrays are the types that a parameter may have.
var textArrays = []uint32{pgtype.TextArrayOID, pgtype.VarcharArrayOID, pgtype.BPCharArrayOID, pgtype.NameArrayOID}

// describe checks what the statement takes and returns.
func (r *Resolver) describe(d *pgconn.StatementDescription) error {
	for i, oid := range d.ParamOIDs {
		if !slices.Contains(textArrays, oid) {
			return fmt.Errorf("%w: its parameter $%d is no array of texts; write $%d::text[]", ErrResolve, i+1, i+1)
		}
	}
	want := []string{"key", "destination"}
	if len(d.Fields) != len(want) {
		return fmt.Errorf("%w: it returns %d columns; it must return key text and destination text, in this order", ErrResolve, len(d.Fields))
	}
	for i, f := range d.Fields {
		if f.Name != want[i] || !slices.Contains(texts, f.DataTypeOID) {
			return fmt.Errorf("%w: its column %d must be %s, of type text", ErrResolve, i+1, want[i])
		}
	}
	r.takes.Store(int32(len(d.ParamOIDs))) //nolint:gosec // three at most
	return nil
}

// Asked is a job whose destination is asked for.
type Asked struct{ Key, Subject, Destination string }

// Found is what a statement said about one job.
type Found struct {
	// Rows is how many rows it has for the key; more than one name no destination.
	Rows int
	// Destination is that of the only row; nil is null.
	Destination *string
}

// Ask asks about jobs and returns what was found for each, in their order.
func (r *Resolver) Ask(ctx context.Context, jobs []Asked) ([]Found, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	args := [3][]string{}
	at := make(map[string]int, len(jobs))
	for i, j := range jobs {
		at[j.Key] = i
		args[0], args[1], args[2] = append(args[0], j.Key), append(args[1], j.Subject), append(args[2], j.Destination)
	}
	found := make([]Found, len(jobs))
	err := r.reading(ctx, func(tx pgx.Tx) error {
		if r.takes.Load() == 0 {
			described, err := tx.Conn().Prepare(ctx, "", r.statement)
			if err != nil {
				return err
			}
			if err := r.describe(described); err != nil {
				return err
			}
		}
		given := make([]any, r.takes.Load())
		for i := range given {
			given[i] = args[i]
		}
		rows, err := tx.Query(ctx, r.statement, given...)
		if err != nil {
			return err
		}
		var key, destination *string
		_, err = pgx.ForEachRow(rows, []any{&key, &destination}, func() error {
			i, asked := at[value(key)]
			if key == nil || !asked {
				return fmt.Errorf("%w returned a key that was not asked for: it must return keys of $1 alone", ErrResolve)
			}
			found[i].Rows++
			found[i].Destination = destination
			return nil
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// ResolveWrong reports whether an error speaks of the statement, and not of the server's
// state: nobody but a person repairs that.
func ResolveWrong(err error) bool { return errors.Is(err, ErrResolve) || wrong(err) }

// ResolveLate reports whether the server gave a statement up because it took too long.
func ResolveLate(err error) bool {
	answered, ok := errors.AsType[*pgconn.PgError](err)
	return errors.Is(err, context.DeadlineExceeded) || ok && (answered.Code == "57014" || answered.Code == "55P03")
}

// ResolveFailure says in a few words, without anything of the statement's data, why
// destinations could not be resolved.
func ResolveFailure(err error) string {
	if errors.Is(err, ErrResolve) {
		return err.Error()
	}
	return failure(err)
}
