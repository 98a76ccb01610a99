package ledger

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

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

// alive is how often a transaction that waits for another is shown to live.
const alive = 5 * time.Second

// lockWait is the longest that a selection waits for a lock: then the run says so, and
// others have their turn.
const lockWait = 10 * time.Second

// selectionRows reads a selection ahead of whoever takes its batches: one waits, and the
// next is being made, so that memory does not grow with the selection.
type selectionRows struct {
	ledger    *Ledger
	selection machine.Selection
	batches   chan recipients
	stop      context.CancelFunc
	reading   sync.WaitGroup
}

// recipients are the next rows of a selection, the requests that they made, prepared, and
// the row of each request.
type recipients struct {
	rows []machine.Recipient
	at   []int
	in   intake
	last bool
	err  error
}

// readSelection begins to read; the caller closes.
func (l *Ledger) readSelection(ctx context.Context, selection machine.Selection) *selectionRows {
	s := &selectionRows{ledger: l, selection: selection, batches: make(chan recipients)}
	ctx, s.stop = context.WithCancel(ctx)
	s.reading.Go(func() {
		if err := s.read(ctx); err != nil {
			select {
			case s.batches <- recipients{err: err}:
			case <-ctx.Done():
			}
		}
	})
	return s
}

// close ends the reading.
func (s *selectionRows) close() {
	s.stop()
	s.reading.Wait()
}

// read reads all in one transaction, which sees one snapshot, until the last batch is taken.
func (s *selectionRows) read(ctx context.Context) error {
	tx, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer func() {
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), alive) // the ledger's transaction waits for it
		defer cancel()
		_ = tx.Rollback(bound)
	}()
	if _, err := tx.Exec(ctx, stmt("selection_settings"), strconv.FormatInt(lockWait.Milliseconds(), 10)); err != nil {
		return selectionError(err)
	}
	if _, err := tx.Exec(ctx, "DECLARE duly_selection NO SCROLL CURSOR FOR "+s.selection.Query); err != nil {
		return selectionError(err)
	}
	for more := true; more; {
		b, err := s.fetch(ctx, tx)
		if err != nil {
			return err
		}
		more = s.handOver(ctx, tx, b) && !b.last
	}
	return nil
}

func (s *selectionRows) begin(ctx context.Context) (pgx.Tx, error) {
	source, err := s.ledger.source(s.selection.Source)
	if err != nil {
		return nil, err
	}
	if source == nil {
		tx, err := s.ledger.pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: "BEGIN READ ONLY, ISOLATION LEVEL REPEATABLE READ; " + stmt("bounded")})
		return tx, wrapped(err, "beginning to read the selection")
	}
	tx, err := source.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, fmt.Errorf("%w: connecting to its source: %w", machine.ErrSelection, err)
	}
	return tx, nil
}

// handOver waits until somebody takes the batch, and reports whether anybody did.
// Meanwhile its transaction is shown to live; if it does not, the next fetch says so.
func (s *selectionRows) handOver(ctx context.Context, tx pgx.Tx, b recipients) bool {
	tick := time.NewTicker(alive)
	defer tick.Stop()
	for {
		select {
		case s.batches <- b:
			return true
		case <-ctx.Done():
			return false
		case <-tick.C:
			_, _ = tx.Exec(ctx, stmt("clock"))
		}
	}
}

// fetch reads the next rows and makes requests of them.
func (s *selectionRows) fetch(ctx context.Context, tx pgx.Tx) (recipients, error) {
	rows, err := s.next(ctx, tx)
	if err != nil {
		return recipients{}, err
	}
	b := recipients{rows: rows, last: len(rows) < freezeBatch}
	var specs []job.Spec
	for i, r := range rows {
		if r.Refused == nil {
			specs, b.at = append(specs, r.Spec), append(b.at, i)
		}
	}
	b.in, err = s.ledger.takeIn(ctx, specs)
	return b, err
}

// next makes recipients of the next rows of the cursor, whose values are read as texts.
func (s *selectionRows) next(ctx context.Context, tx pgx.Tx) ([]machine.Recipient, error) {
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
		batch = append(batch, s.selection.Recipient(columns.of(rows.RawValues())))
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
