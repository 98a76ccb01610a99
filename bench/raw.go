package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/devstack"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/pkg/duly"
	"duly.dev/duly/pkg/job"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// rawTable is a plain table with the columns of duly.job and its primary key, and how rows
// like a new job's get into it: what PostgreSQL does at most with the same row.
type rawTable struct {
	cannot
	load Load
	// name and how are what tables show.
	name, how string
	form      rawForm
	// producers insert batches of so many rows a transaction.
	producers, batch int

	version string
	pool    *countingPool
	// columns are those that a new job sets, sample its values; statement inserts rows
	// from arrays, or one from values.
	columns   []string
	sample    []any
	statement string
}

// rawForm is how rows are inserted.
type rawForm int

const (
	byUnnest rawForm = iota
	byCopy
	oneByOne
)

// rawVaried are the columns whose values differ from row to row, and the types of arrays
// that hold them.
var rawVaried = map[string]string{"id": "bigint[]", "key": "text[]", "payload": "bytea[]"}

func newRawUnnest(l Load) Contestant {
	return &rawTable{
		cannot: cannot{"a limit of inserting"}, load: l, name: "PostgreSQL, unnest", producers: 2, batch: 5000,
		how: "INSERT … SELECT … FROM unnest($1, $2, $3) of id, key and payload, the other columns constant", form: byUnnest,
	}
}

func newRawCopy(l Load) Contestant {
	return &rawTable{
		cannot: cannot{"a limit of inserting"}, load: l, name: "PostgreSQL, COPY", producers: 2, batch: 5000,
		how: "COPY … FROM STDIN (binary)", form: byCopy,
	}
}

func newRawCommit(l Load) Contestant {
	return &rawTable{
		cannot: cannot{"a limit of commits"}, load: l, name: "PostgreSQL, commits", form: oneByOne,
		how: "BEGIN, INSERT … VALUES of one row, COMMIT: three round trips, prepared",
	}
}

// bulkUnnest inserts the rows [from, to) by arrays.
func (r *rawTable) bulkUnnest(ctx context.Context, from, to int) error {
	ids, keys, payloads := make([]int64, 0, to-from), make([]string, 0, to-from), make([][]byte, 0, to-from)
	payload := r.payload()
	for i := from; i < to; i++ {
		ids, keys, payloads = append(ids, int64(i)), append(keys, rawKey(i)), append(payloads, payload)
	}
	return pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, r.statement, ids, keys, payloads)
		return err
	})
}

// rawKey is the key of a row.
func rawKey(id int) string { return "bulk:" + strconv.Itoa(id) }

// row is the row with this id, its columns in their order.
func (r *rawTable) row(id int, payload []byte) []any {
	row := slices.Clone(r.sample)
	for c, name := range r.columns {
		switch name {
		case "id":
			row[c] = int64(id)
		case "key":
			row[c] = rawKey(id)
		case "payload":
			row[c] = payload
		}
	}
	return row
}

func (r *rawTable) payload() []byte { return []byte(`"` + r.load.text(len(`""`)) + `"`) }

// bulkCopy inserts by COPY.
func (r *rawTable) bulkCopy(ctx context.Context, from, to int) error {
	payload := r.payload()
	next := from
	_, err := r.pool.CopyFrom(ctx, pgx.Identifier{"raw"}, r.columns, pgx.CopyFromFunc(func() ([]any, error) {
		if next == to {
			return nil, nil
		}
		next++
		return r.row(next-1, payload), nil
	}))
	return err
}

// Name is what tables show.
func (r *rawTable) Name() string { return r.name }

// Version is the server's.
func (r *rawTable) Version() string { return r.version }

// Settings say how rows are inserted.
func (r *rawTable) Settings() []Setting {
	all := []Setting{{"row", "the columns of duly.job that a new job sets, with its primary key and no other index"}, {"how", r.how}}
	if r.form != oneByOne {
		all = append(all, Setting{"bulk", fmt.Sprintf("%d rows a transaction, %d producers", r.batch, r.producers)})
	}
	return all
}

// Prepare asks for the version.
func (r *rawTable) Prepare(ctx context.Context, s *Stack) error {
	return s.admin.QueryRow(ctx, "select current_setting('server_version')").Scan(&r.version)
}

// Open makes the table, and a job whose row is copied.
func (r *rawTable) Open(ctx context.Context, s *Stack) error {
	url, err := s.Fresh(ctx, "bench_raw")
	if err != nil {
		return err
	}
	if err := ledger.MigrateUp(ctx, url); err != nil {
		return err
	}
	if r.pool, err = openPool(ctx, url); err != nil {
		return err
	}
	if err := r.makeSample(ctx); err != nil {
		return fmt.Errorf("making a job to copy: %w", err)
	}
	_, err = r.pool.Exec(ctx, "create table raw (like duly.job including defaults); alter table raw add primary key (id, generation)")
	return err
}

// makeSample enqueues one job and reads the columns that are set.
func (r *rawTable) makeSample(ctx context.Context) error {
	config, err := app.ParseConfig("raw", []byte("kinds: {"+dulyKind+": {channel: go}}\n"))
	if err != nil {
		return err
	}
	if err := ledger.New(r.pool.Pool).SyncKinds(ctx, config.Kinds()); err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		_, err := duly.NewClient(r.pool.Pool).Schedule(ctx, tx, job.Spec{Kind: dulyKind, Key: "bulk:0", Payload: r.payload()})
		return err
	})
	if err != nil {
		return err
	}
	rows, err := r.pool.Query(ctx, "table duly.job")
	if err != nil {
		return err
	}
	defer rows.Close()
	if !rows.Next() {
		return errors.Join(errors.New("there is no row"), rows.Err())
	}
	values, err := rows.Values()
	if err != nil {
		return err
	}
	r.columns, r.sample = nil, nil
	for i, field := range rows.FieldDescriptions() {
		if values[i] != nil {
			r.columns, r.sample = append(r.columns, field.Name), append(r.sample, values[i])
		}
	}
	rows.Close()
	if r.statement = unnestStatement(r.columns); r.form == oneByOne {
		r.statement = valuesStatement(r.columns)
	}
	return rows.Err()
}

// unnestStatement inserts rows from arrays of what varies; the rest is the sample's.
func unnestStatement(columns []string) string {
	from := make([]string, len(columns))
	for i, c := range columns {
		from[i] = "s." + pgx.Identifier{c}.Sanitize()
		if _, varied := rawVaried[c]; varied {
			from[i] = "u." + c
		}
	}
	return "insert into raw (" + strings.Join(columns, ", ") + ") select " + strings.Join(from, ", ") +
		" from unnest($1::" + rawVaried["id"] + ", $2::" + rawVaried["key"] + ", $3::" + rawVaried["payload"] + ") u(id, key, payload), duly.job s"
}

// valuesStatement inserts one row.
func valuesStatement(columns []string) string {
	values := make([]string, len(columns))
	for i := range columns {
		values[i] = "$" + strconv.Itoa(i+1)
	}
	return "insert into raw (" + strings.Join(columns, ", ") + ") values (" + strings.Join(values, ", ") + ")"
}

// Insert inserts in bulk.
func (r *rawTable) Insert(ctx context.Context, m *Meter, n int) error {
	if r.form == oneByOne {
		return r.why
	}
	if err := m.Begin(ctx); err != nil {
		return err
	}
	bulk := r.bulkUnnest
	if r.form == byCopy {
		bulk = r.bulkCopy
	}
	if err := batches(ctx, r.producers, n, r.batch, bulk); err != nil {
		return err
	}
	return m.Done(ctx)
}

// Singles inserts one row a transaction.
func (r *rawTable) Singles(ctx context.Context, m *Meter, clients int, d time.Duration) error {
	if r.form != oneByOne {
		return r.why
	}
	const apart = 1 << 32 // ids of one client
	payload := r.payload()
	return r.pool.singles(ctx, m, clients, d, func(ctx context.Context, tx pgx.Tx, client, i int) error {
		_, err := tx.Exec(ctx, r.statement, r.row((client+1)*apart+i, payload)...)
		return err
	})
}

// Close disconnects.
func (r *rawTable) Close(context.Context) error {
	if r.pool != nil {
		r.pool.Close()
	}
	r.pool = nil
	return nil
}

// rawNATS is JetStream alone: small messages, published asynchronously, each acknowledged
// when its file has it.
type rawNATS struct {
	cannot
	load   Load
	server *devstack.NATS
}

func newRawNATS(l Load) Contestant {
	return &rawNATS{cannot: cannot{"a limit of publishing"}, load: l}
}

// Name is what tables show.
func (*rawNATS) Name() string { return "JetStream, publishes" }

// Version is that of the server in this process.
func (*rawNATS) Version() string { return moduleVersion("github.com/nats-io/nats-server/v2") }

// natsUnacked is how many publishes wait for their acknowledgement at once.
const natsUnacked = 4096

// Settings say how messages are published.
func (*rawNATS) Settings() []Setting {
	return []Setting{{"how", fmt.Sprintf("one stream of one replica in a file, one publisher, at most %d unacknowledged, a message a job's payload", natsUnacked)}}
}

// Open starts a server.
func (n *rawNATS) Open(context.Context, *Stack) (err error) {
	n.server, err = devstack.StartNATS(devstack.NATSOptions{})
	return err
}

// Close stops it.
func (n *rawNATS) Close(context.Context) error {
	if n.server == nil {
		return nil
	}
	defer func() { n.server = nil }()
	return n.server.Stop()
}

// Insert publishes.
func (n *rawNATS) Insert(ctx context.Context, m *Meter, count int) error {
	conn, err := nats.Connect(n.server.URL())
	if err != nil {
		return fmt.Errorf("connecting to NATS: %w", err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(natsUnacked))
	if err != nil {
		return fmt.Errorf("opening JetStream: %w", err)
	}
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "raw", Subjects: []string{"raw"}, Storage: jetstream.FileStorage}); err != nil {
		return fmt.Errorf("making a stream: %w", err)
	}
	payload := []byte(n.load.text(0))
	if err := m.Begin(ctx); err != nil {
		return err
	}
	acks := make([]jetstream.PubAckFuture, count)
	for i := range acks {
		if acks[i], err = js.PublishAsync("raw", payload); err != nil {
			return fmt.Errorf("publishing: %w", err)
		}
	}
	for _, a := range acks {
		select {
		case <-a.Ok():
		case err := <-a.Err():
			return fmt.Errorf("publishing: %w", err)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return m.Done(ctx)
}
