package ledger

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Lookup is a statement of the user's own that says what became of an effect, against the
// ledger's database or another.
//
// It has one parameter, $1, the effect key, and returns at most one row: happened
// (boolean: null says that it is still being worked on), receipt (text, the receiver's own
// id) and, if it likes, at (timestamptz). No row says that it did not happen.
type Lookup struct {
	asker

	withAt bool
}

var (
	firstParameter  = regexp.MustCompile(`\$1\b`)
	secondParameter = regexp.MustCompile(`\$([02-9]|1\d)`)
)

// CheckLookup says what is wrong with the text of a statement; nil where nothing is that
// can be seen without a database.
func CheckLookup(statement string) error {
	switch text := strings.TrimSpace(statement); {
	case text == "":
		return errors.New("it must be given, such as SELECT true AS happened, message_id AS receipt FROM deliveries WHERE effect_key = $1")
	case !firstParameter.MatchString(text):
		return errors.New("it must name its parameter, $1, which is the effect key, or every effect would be asked about in the same words")
	case secondParameter.MatchString(text):
		return errors.New("it has one parameter, $1, which is the effect key")
	}
	return nil
}

// ErrLookup: a statement cannot be used as a lookup, whatever the state of the server.
var ErrLookup = errors.New("the statement of the lookup")

// LookupOptions say how a statement is asked.
type LookupOptions struct {
	Statement string
	// Timeout is the longest that an answer may take.
	Timeout time.Duration
	// Conns are the most connections, which are nobody else's: what the user's own
	// statement waits for must keep nothing else waiting.
	Conns int32
}

// OpenLookup connects to a database and checks the statement there. One that cannot work
// is an ErrLookup. The lookup is to be closed.
func OpenLookup(ctx context.Context, config *pgxpool.Config, o LookupOptions) (*Lookup, error) {
	if err := CheckLookup(o.Statement); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLookup, err)
	}
	a, err := newAsker(config, o.Conns, o.Statement, o.Timeout)
	if err != nil {
		return nil, fmt.Errorf("connecting for a lookup: %w", err)
	}
	l := &Lookup{asker: a}
	if err := l.try(ctx, ErrLookup, "lookup", l.describe); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// OpenLookup checks a statement that is asked at the ledger's own database, on connections
// of its own.
func (l *Ledger) OpenLookup(ctx context.Context, o LookupOptions) (*Lookup, error) {
	return OpenLookup(ctx, l.pool.Config(), o)
}

// texts are the types that a text may have.
var texts = []uint32{pgtype.TextOID, pgtype.VarcharOID, pgtype.BPCharOID, pgtype.NameOID}

// lookupColumns are the columns of a lookup, with their types.
var lookupColumns = []struct {
	name, typ string
	oids      []uint32
}{
	{"happened", "boolean", []uint32{pgtype.BoolOID}},
	{"receipt", "text", texts},
	{"at", "timestamptz", []uint32{pgtype.TimestamptzOID}},
}

// describe checks what the statement takes and returns.
func (l *Lookup) describe(d *pgconn.StatementDescription) error {
	if len(d.ParamOIDs) != 1 {
		return fmt.Errorf("%w: it has %d parameters; it must have one, $1", ErrLookup, len(d.ParamOIDs))
	}
	if !slices.Contains(texts, d.ParamOIDs[0]) {
		return fmt.Errorf("%w: its parameter is no text; compare $1 with a text, or write $1::text", ErrLookup)
	}
	if n := len(d.Fields); n < 2 || n > 3 {
		return fmt.Errorf("%w: it returns %d columns; it must return happened boolean, receipt text and, if you like, at timestamptz, in this order", ErrLookup, n)
	}
	for i, f := range d.Fields {
		if want := lookupColumns[i]; f.Name != want.name || !slices.Contains(want.oids, f.DataTypeOID) {
			return fmt.Errorf("%w: its column %d must be %s, of type %s", ErrLookup, i+1, want.name, want.typ)
		}
	}
	l.withAt = len(d.Fields) == 3
	return nil
}

// Looked is what a lookup found.
type Looked struct {
	// Found is false where there was no row.
	Found bool
	// Happened is nil where the row does not say.
	Happened *bool
	Receipt  string
	At       time.Time
}

// Ask asks about an effect key.
func (l *Lookup) Ask(ctx context.Context, effectKey string) (Looked, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	var found Looked
	err := l.reading(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, l.statement, effectKey)
		if err != nil {
			return err
		}
		all, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (Looked, error) {
			one := Looked{Found: true}
			var receipt *string
			var at *time.Time
			into := []any{&one.Happened, &receipt, &at}
			if !l.withAt {
				into = into[:2]
			}
			err := r.Scan(into...)
			one.Receipt, one.At = value(receipt), value(at)
			return one, err
		})
		switch {
		case err != nil:
			return err
		case len(all) > 1:
			return fmt.Errorf("%w returned %d rows; one effect key has at most one", ErrLookup, len(all))
		case len(all) == 1:
			found = all[0]
		}
		return nil
	})
	return found, err
}

// LookupFailure says in a few words, without anything of the statement's data, why a
// lookup failed.
func LookupFailure(err error) string {
	if errors.Is(err, ErrLookup) {
		return err.Error()
	}
	return failure(err)
}
