package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/machine"
	"github.com/jackc/pgx/v5"
)

// grown is how history was made, and what was found when it was checked.
type grown struct {
	// Jobs are the finished jobs, Days over how many days they are spread.
	Jobs int `json:"jobs"`
	Days int `json:"days"`
	// Sample of them were enqueued and worked, and copied until there were Jobs.
	Sample int `json:"sample"`
	// Checked copies were folded by the ledger's own check, which found so many
	// Disagreements.
	Checked       int `json:"checked"`
	Disagreements int `json:"disagreements"`
	// Bytes are what the ledger occupies.
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
}

// historySample is how many jobs are worked to be copied, historyChecked how many copies
// are checked.
const (
	historySample  = 10_000
	historyChecked = 1_000
)

// grow fills the ground with n finished jobs of the last days, as many a day.
//
// What a finished job leaves is not written down here a second time: a sample is
// enqueued, leased and settled by the real path, and every row that it left, in every
// table that tells of jobs, is copied with other numbers, keys and instants. Copies are
// then given to the ledger's own check, which folds their events and compares.
func (g *ground) grow(ctx context.Context, n, days, sample int) (grown, error) {
	began := time.Now()
	h := grown{Jobs: n, Days: days, Sample: min(sample, n)}
	if err := g.next(ctx); err != nil {
		return h, err
	}
	first := g.last + 1
	if _, err := g.laps(ctx, h.Sample, func(laps int) bool { return laps == 0 }); err != nil {
		return h, fmt.Errorf("working a sample: %w", err)
	}
	c, err := newCopier(ctx, g, first)
	if err != nil {
		return h, err
	}
	blocks := n/h.Sample - 1
	for _, step := range []func() error{
		func() error { return c.partitions(ctx, days) },
		func() error { return c.dense(ctx) },
		func() error { return c.copies(ctx, blocks, days) },
		func() error { return c.close(ctx, blocks) },
		func() error { return g.catchUp(ctx) },
		func() error { return g.tidy(ctx) },
	} {
		if err := step(); err != nil {
			return h, fmt.Errorf("copying the sample: %w", err)
		}
	}
	h.Checked, h.Disagreements, err = g.checkSome(ctx, c.last+1, historyChecked)
	if err == nil {
		err = g.pool.QueryRow(ctx, "select pg_database_size(current_database())").Scan(&h.Bytes)
	}
	h.Seconds = time.Since(began).Seconds()
	return h, err
}

// catchUp moves the places of the loops that walk by time to where they would be.
func (g *ground) catchUp(ctx context.Context) error {
	l := ledger.New(g.pool.Pool)
	for more := true; more; {
		var err error
		if _, more, err = l.Expire(ctx, 100_000); err != nil {
			return err
		}
	}
	return g.sweep(ctx)
}

// checkSome checks n jobs behind first, taken at random, one by one.
func (g *ground) checkSome(ctx context.Context, first int64, n int) (checked, disagreements int, err error) {
	var last int64
	if err := g.pool.QueryRow(ctx, "select max(id) from duly.job").Scan(&last); err != nil || last < first {
		return 0, 0, err
	}
	l := ledger.New(g.pool.Pool)
	for range n {
		var kind, key string
		at := first + rand.Int64N(last-first+1)
		err := g.pool.QueryRow(ctx, `select k.name, j.key from duly.job j join duly.kind k on k.id = j.kind where j.id >= $1 order by j.id limit 1`, at).Scan(&kind, &key)
		if err != nil {
			return checked, disagreements, fmt.Errorf("choosing a job: %w", err)
		}
		found, err := l.Check(ctx, ledger.CheckRequest{Kind: kind, Key: key}, func(machine.Disagreement) error { return nil })
		if err != nil {
			return checked, disagreements, err
		}
		checked, disagreements = checked+found.Jobs, disagreements+found.Disagreements
	}
	return checked, disagreements, nil
}

// copier copies a sample of jobs.
type copier struct {
	g *ground
	// tables are those that tell of jobs, with the statement that copies a block.
	tables []copied
	// first and last are the sample's jobs.
	first, last int64
	// fillfactor is the job table's own.
	fillfactor int
}

// copied is a table of the ledger that tells of jobs.
type copied struct {
	name    string
	columns []column
}

// column is one of its columns.
type column struct {
	Table, Name, Type string
	// Generated: the server fills it in.
	Generated bool
}

// historyTables are the tables in which a finished job is told of. One that a ledger does
// not have is not missed.
var historyTables = []string{"job", "job_key", "lease", "event", "done"}

// newCopier sets the sample aside.
func newCopier(ctx context.Context, g *ground, first int64) (*copier, error) {
	c := &copier{g: g, first: first}
	if err := g.pool.QueryRow(ctx, "select last_value from duly.job_id").Scan(&c.last); err != nil {
		return nil, fmt.Errorf("asking for the sample: %w", err)
	}
	if err := g.pool.QueryRow(ctx, `select option_value::int from pg_class, pg_options_to_table(reloptions)
		where oid = 'duly.job'::regclass and option_name = 'fillfactor'`).Scan(&c.fillfactor); err != nil {
		return nil, fmt.Errorf("asking for the fillfactor: %w", err)
	}
	rows, err := g.pool.Query(ctx, `select c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attidentity <> '' or a.attgenerated <> ''
		from pg_attribute a join pg_class c on c.oid = a.attrelid
		where c.relnamespace = 'duly'::regnamespace and c.relname = any($1) and a.attnum > 0 and not a.attisdropped
		order by array_position($1, c.relname::text), a.attnum`, historyTables)
	if err != nil {
		return nil, fmt.Errorf("asking for the schema: %w", err)
	}
	columns, err := pgx.CollectRows(rows, pgx.RowToStructByPos[column])
	if err != nil {
		return nil, fmt.Errorf("asking for the schema: %w", err)
	}
	for _, col := range columns {
		if n := len(c.tables); n == 0 || c.tables[n-1].name != col.Table {
			c.tables = append(c.tables, copied{name: col.Table})
		}
		t := &c.tables[len(c.tables)-1]
		t.columns = append(t.columns, col)
	}
	for _, t := range c.tables {
		if _, err := g.pool.Exec(ctx, t.setAside(c.first, c.last)); err != nil {
			return nil, fmt.Errorf("setting the sample's rows of %s aside: %w", t.name, err)
		}
	}
	return c, nil
}

// has reports whether the table has a column.
func (t copied) has(name string) bool {
	for _, c := range t.columns {
		if c.Name == name {
			return true
		}
	}
	return false
}

// setAside makes a table of the sample's rows.
func (t copied) setAside(first, last int64) string {
	which := fmt.Sprintf("t.jobs[1] between %d and %d", first, last) // a row tells of jobs of one time
	switch {
	case t.has("job"):
		which = fmt.Sprintf("t.job between %d and %d", first, last)
	case t.name == "job":
		which = fmt.Sprintf("t.id between %d and %d", first, last)
	}
	if t.name != "job_key" {
		return fmt.Sprintf("create unlogged table public.sample_%s as select t.* from duly.%s t where %s", t.name, t.name, which) //nolint:unqueryvet // whatever its columns are
	}
	//nolint:unqueryvet // whatever its columns are
	return fmt.Sprintf(`create unlogged table public.sample_job_key as
		select t.*, n.name as kind_name, j.key as job_key from duly.job_key t join duly.job j on j.id = t.job join duly.kind n on n.id = j.kind where %s`, which)
}

// statement copies the sample's rows: $1 is how much higher jobs are numbered, $2 how much
// earlier it all was.
func (t copied) statement() string {
	var into, from []string
	for _, c := range t.columns {
		if c.drawn() {
			continue
		}
		into, from = append(into, c.Name), append(from, c.expression())
	}
	return fmt.Sprintf("insert into duly.%s (%s) select %s from public.sample_%s s", t.name, strings.Join(into, ", "), strings.Join(from, ", "), t.name)
}

// parameters is how many parameters the statement has: a table without instants needs only
// the first.
func (t copied) parameters() int {
	if slices.ContainsFunc(t.columns, func(c column) bool { return c.Type == instant }) {
		return 2
	}
	return 1
}

// instant is the type of what was earlier.
const instant = "timestamp with time zone"

// drawn reports whether a copy gets its own value from the server: a number of an event.
func (c column) drawn() bool { return c.Generated || c.Table != "job" && c.Name == "id" }

// expression is the column's value in a copy.
func (c column) expression() string {
	const key = "|| ':' || $1::bigint"
	s := "s." + c.Name
	switch {
	case c.Table == "job" && c.Name == "id", c.Name == "job" && c.Type == "bigint":
		return s + " + $1::bigint"
	case c.Name == "jobs" && c.Type == "bigint[]":
		return "(select array_agg(u.id + $1::bigint order by u.n) from unnest(" + s + ") with ordinality u (id, n))"
	case c.Table == "job" && c.Name == "key":
		return s + key
	case c.Table == "job_key" && c.Name == "hash": // job.KeyHash
		return `encode(substring(sha256(convert_to(s.kind_name, 'UTF8') || '\x00'::bytea || convert_to(s.job_key ` + key + `, 'UTF8')) for 16), 'hex')::uuid`
	case c.Type == instant:
		return s + " - $2::interval"
	}
	return s
}

// partitions makes the daily partitions of the last days, as the ledger makes its own.
func (c *copier) partitions(ctx context.Context, days int) error {
	rows, err := c.g.pool.Query(ctx, `select c.relname from pg_partitioned_table p join pg_class c on c.oid = p.partrelid
		where c.relnamespace = 'duly'::regnamespace and p.partstrat = 'r' order by 1`)
	if err != nil {
		return err
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	today := time.Now().UTC().Truncate(24 * time.Hour)
	for _, table := range tables {
		for day := range days + 1 {
			from := today.AddDate(0, 0, -1-day)
			name := "duly." + table + "_" + from.Format("20060102")
			_, err := c.g.pool.Exec(ctx, fmt.Sprintf(`create table %[1]s (like duly.%[2]s including defaults including constraints including storage) with (toast_tuple_target = 8160);
				alter table duly.%[2]s attach partition %[1]s for values from ('%[3]s') to ('%[4]s')`,
				name, table, from.Format(time.RFC3339), from.AddDate(0, 0, 1).Format(time.RFC3339)))
			if err != nil {
				return fmt.Errorf("making the partition %s: %w", name, err)
			}
		}
	}
	return nil
}

// dense makes copies lie as many on a page as the sample's rows do. A row grows between its
// insert and its end, by which its page is as full as it gets; copies are inserted as they
// are in the end.
func (c *copier) dense(ctx context.Context) error {
	var rows, bytes float64
	err := c.g.pool.QueryRow(ctx, `select count(*)::float8 / count(distinct (ctid::text::point)[0]), avg((pg_column_size(j.*) + 7) / 8 * 8 + 4)::float8
		from duly.job j where id between $1 and $2`, c.first, c.last).Scan(&rows, &bytes)
	if err != nil {
		return fmt.Errorf("asking how the sample lies: %w", err)
	}
	_, err = c.g.pool.Exec(ctx, fmt.Sprintf("alter table duly.job set (fillfactor = %d)", fillfactor(rows, bytes)))
	return err
}

// fillfactor is how full a page is with so many rows of so many bytes.
func fillfactor(rows, bytes float64) int {
	const page = 8192 - 24
	return min(max(10, int(math.Ceil(100*rows*bytes/page))), 100)
}

// copies of the sample are made, so many, the oldest first.
func (c *copier) copies(ctx context.Context, blocks, days int) error {
	stride := c.last - c.first + 1
	return batches(ctx, 2, blocks, 1, func(ctx context.Context, block, _ int) error {
		batch := &pgx.Batch{}
		for _, t := range c.tables {
			args := []any{int64(block+1) * stride, earlier(block, blocks, days)}
			batch.Queue(t.statement(), args[:t.parameters()]...)
		}
		return c.g.pool.SendBatch(ctx, batch).Close() // one implicit transaction
	})
}

// earlier is how much earlier than the sample the block of so many blocks was.
func earlier(block, blocks, days int) time.Duration {
	span := time.Duration(days) * 24 * time.Hour
	return span / time.Duration(blocks) * time.Duration(blocks-block)
}

// close lets new jobs be numbered behind the copies, and drops what was set aside.
func (c *copier) close(ctx context.Context, blocks int) error {
	_, err := c.g.pool.Exec(ctx, fmt.Sprintf("select setval('duly.job_id', %d); alter table duly.job set (fillfactor = %d)",
		c.last+int64(blocks)*(c.last-c.first+1), c.fillfactor))
	for _, t := range c.tables {
		_, dropped := c.g.pool.Exec(ctx, "drop table public.sample_"+t.name)
		err = errors.Join(err, dropped)
	}
	return err
}
