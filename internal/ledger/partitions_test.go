package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

const keep = 40 * 24 * time.Hour

func (c *crew) keepPartitions() machine.Partitions {
	c.t.Helper()
	c.exec(`UPDATE duly.progress SET at = at - interval '1 min' WHERE name = 'partitions'`)
	done, err := c.KeepPartitions(c.t.Context(), keep)
	require.NoError(c.t, err)
	return done
}

// young is a ledger whose partitions were not made yet.
func young(t *testing.T) *crew {
	t.Helper()
	c := newCrew(t)
	c.exec(`DO $$ DECLARE p text; BEGIN
		FOR p IN SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		         WHERE i.inhparent IN ('duly.event'::regclass, 'duly.done'::regclass, 'duly.lease'::regclass) AND c.relname NOT LIKE '%default'
		LOOP EXECUTE 'DROP TABLE duly.' || p; END LOOP; END $$`)
	return c
}

func TestPartitionsAreMadeAheadAndTakeWhatLayInTheDefaultOne(t *testing.T) {
	t.Parallel()
	c := young(t)
	ref := c.enqueue("before", 1)[0]
	c.settle(c.ask(c.worker, ref).Grants[0], job.Done(nil))
	require.Equal(t, 1, c.count(`SELECT count(*)::int FROM duly.done_default`))
	require.Equal(t, 1, c.count(`SELECT count(*)::int FROM duly.lease_default`))
	require.Equal(t, machine.Partitions{Made: 12}, c.keepPartitions())
	require.Zero(t, c.count(`SELECT count(*)::int FROM duly.done_default`))
	require.Zero(t, c.count(`SELECT count(*)::int FROM duly.lease_default`))
	require.Equal(t, 1, c.count(`SELECT count(*)::int FROM duly.history`), "nothing is lost on the way")
	require.Equal(t, machine.Partitions{}, c.keepPartitions())

	ref = c.enqueue("after", 1)[0]
	c.settle(c.ask(c.worker, ref).Grants[0], job.Done(nil))
	require.Zero(t, c.count(`SELECT count(*)::int FROM duly.done_default`))
	require.Equal(t, 2, c.count(`SELECT count(*)::int FROM duly.history`))
	require.Equal(t, 2, c.count(`SELECT count(DISTINCT id)::int FROM duly.history`), "ids go on")
	require.Equal(t, 2, c.count(`SELECT count(*)::int FROM pg_indexes WHERE schemaname = 'duly' AND tablename = to_char(now() AT TIME ZONE 'UTC', '"lease_"YYYYMMDD')`))
}

func TestOldPartitionsAndStraysAreDropped(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	c.keepPartitions()
	c.exec(`CREATE TABLE duly.event_20200101 PARTITION OF duly.event FOR VALUES FROM ('2020-01-01 00:00Z') TO ('2020-01-02 00:00Z')`)
	c.exec(`INSERT INTO duly.event (at, job, fence, generation, attempt, emission, name, from_state, to_state)
	        VALUES ('2020-01-01 10:00Z', 1, 1, 1, 1, 1, 'done', 'leased', 'delivered'), ('2020-05-01 10:00Z', 1, 1, 1, 1, 1, 'done', 'leased', 'delivered')`)
	require.Equal(t, machine.Partitions{Dropped: 1}, c.keepPartitions())
	require.Zero(t, c.count(`SELECT count(*)::int FROM duly.event`))
}

// Whoever reads or writes the tables for long makes the keeper wait for another time, and
// is not made to wait itself.
func TestPartitionsWaitForNobody(t *testing.T) {
	t.Parallel()
	c := young(t)
	tx, err := c.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `INSERT INTO duly.event (job, fence, generation, attempt, emission, name, from_state, to_state) VALUES (1, 1, 1, 1, 1, 'done', 'leased', 'delivered')`)
	require.NoError(t, err)
	require.Equal(t, machine.Partitions{Made: 8}, c.keepPartitions(), "those of results and leases")
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, machine.Partitions{Made: 4}, c.keepPartitions())
	require.Equal(t, 1, c.count(`SELECT count(*)::int FROM duly.event`))
	require.Zero(t, c.count(`SELECT count(*)::int FROM duly.event_default`))
}
