package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/devstack"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/pkg/duly"
	"duly.dev/duly/pkg/job"
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
	// columns are those that a new job sets, sample its values; statement inserts rows from arrays.
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
		cannot: cannot{"a limit of inserting"}, load: l, name: "PostgreSQL, unnest", producers: 2, batch: 1000,
		how: "INSERT … SELECT … FROM unnest($1, $2, $3) of id, key and payload, the other columns constant", form: byUnnest,
	}
}

func newRawCopy(l Load) Contestant {
	return &rawTable{
		cannot: cannot{"a limit of inserting"}, load: l, name: "PostgreSQL, COPY", producers: 2, batch: 1000,
		how: "COPY … FROM STDIN (binary)", form: byCopy,
	}
}

func newRawCommit(l Load) Contestant {
	return &rawTable{
		cannot: cannot{"a limit of commits"}, load: l, name: "PostgreSQL, commits", form: oneByOne,
		how: "BEGIN, INSERT of one row, COMMIT: three round trips, prepared",
	}
}

// bulkUnnest inserts by arrays.
func (r *rawTable) bulkUnnest(ctx context.Context, from, to int) error {
	return pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error { return r.insert(ctx, tx, from, to) })
}

// insert inserts the rows [from, to) by arrays.
func (r *rawTable) insert(ctx context.Context, tx pgx.Tx, from, to int) error {
	ids, keys, payloads := make([]int64, 0, to-from), make([]string, 0, to-from), make([][]byte, 0, to-from)
	payload := r.payload()
	for i := from; i < to; i++ {
		ids, keys, payloads = append(ids, int64(i)), append(keys, "bulk:"+strconv.Itoa(i)), append(payloads, payload)
	}
	_, err := tx.Exec(ctx, r.statement, ids, keys, payloads)
	return err
}

func (r *rawTable) payload() []byte { return []byte(`"` + r.load.text(len(`""`)) + `"`) }

// bulkCopy inserts by COPY.
func (r *rawTable) bulkCopy(ctx context.Context, from, to int) error {
	payload := r.payload()
	i := from
	_, err := r.pool.CopyFrom(ctx, pgx.Identifier{"raw"}, r.columns, pgx.CopyFromFunc(func() ([]any, error) {
		if i == to {
			return nil, nil
		}
		row := make([]any, len(r.columns))
		for c, name := range r.columns {
			switch name {
			case "id":
				row[c] = int64(i)
			case "key":
				row[c] = "bulk:" + strconv.Itoa(i)
			case "payload":
				row[c] = payload
			default:
				row[c] = r.sample[c]
			}
		}
		i++
		return row, nil
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
	if r.pool, err = openPool(ctx, url, 40); err != nil {
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
	rows, err := r.pool.Query(ctx, "select * from duly.job")
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
	r.statement = rawStatement(r.columns)
	return rows.Err()
}

// rawStatement inserts rows from arrays of what varies; the rest is the sample's.
func rawStatement(columns []string) string {
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
	return r.pool.singles(ctx, m, clients, d, func(ctx context.Context, tx pgx.Tx, client, i int) error {
		id := (client+1)*apart + i
		return r.insert(ctx, tx, id, id+1)
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
