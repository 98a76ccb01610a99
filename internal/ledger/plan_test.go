package ledger_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// node is a node of a plan, as EXPLAIN tells it.
type node struct {
	Type    string  `json:"Node Type"`
	Name    string  `json:"Relation Name"`
	Cond    string  `json:"Index Cond"`
	Removed int     `json:"Rows Removed by Join Filter"`
	Rows    float64 `json:"Actual Rows"` // of each of the Loops
	Loops   float64 `json:"Actual Loops"`
	Plans   []node
}

// A batch must cost what its rows cost, and never the square of it, on a table that
// nobody has analysed, on one that was analysed while it was empty, and on a large one.
func TestBatchesAreFoundByKeyWhateverTheStatisticsSay(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*crew){
		"young":    func(*crew) {},
		"analysed": func(c *crew) { c.exec(`ANALYZE duly.job`) },
		"large":    func(c *crew) { c.enqueue("bulk", 20_000); c.exec(`ANALYZE duly.job`) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCrew(t)
			prepare(c)
			refs := c.enqueue("asked", 300)
			explain := func(lead, sql string, args ...any) {
				tx, err := c.pool.Begin(t.Context())
				require.NoError(t, err)
				defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
				_, err = tx.Exec(t.Context(), c.Statement(lead))
				require.NoError(t, err)
				requireByKey(t, tx, sql, args...)
			}
			jobs, generations, emissions, fences := make([]int64, 300), make([]int32, 300), make([]int32, 300), make([]int64, 300)
			ones := generations
			for i, r := range refs {
				jobs[i], generations[i], emissions[i], fences[i] = r.Job, 1, 1, 1
			}
			explain("keyed", c.Statement("lease_refs"), jobs, generations, emissions, c.worker.ID, int16(1), "10 s", "30 s", int16(1), "hash")
			explain("keyed", c.InSpan("lease_refs"), jobs, generations, emissions, c.worker.ID, int16(1), "10 s", "30 s", int16(1), "hash", jobs[0], jobs[299])
			explain("keyed", c.Statement("hold_ready"), jobs, generations, emissions, "paused", "10 s")
			explain("hot", c.Statement("decide_lock"), jobs, generations)
			explain("hot", c.Statement("lease_bodies"), jobs, generations)
			explain("hot", c.Statement("lease_held"), c.worker.ID, jobs, generations, emissions)
			c.ask(c.worker, refs...)
			explain("keyed", c.Statement("settle_done"), jobs, generations, fences, make([][]byte, 300), ones, c.worker.ID, "v1", []string{"c"}, []string{"h"})
			explain("keyed", c.InSpan("settle_done"), jobs, generations, fences, make([][]byte, 300), ones, c.worker.ID, "v1", []string{"c"}, []string{"h"}, jobs[0], jobs[299])
		})
	}
}

func requireByKey(t *testing.T, tx pgx.Tx, sql string, args ...any) {
	t.Helper()
	var text []byte
	require.NoError(t, tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, FORMAT JSON) "+sql, args...).Scan(&text))
	var plans []struct{ Plan node }
	require.NoError(t, json.Unmarshal(text, &plans))
	found := false
	var walk func(node)
	walk = func(n node) {
		if n.Name == "job" && n.Type != "ModifyTable" && n.Type != "LockRows" {
			found = true
			require.NotEqual(t, "Seq Scan", n.Type, "%s", text)
			require.Contains(t, n.Cond, "id", "the rows are looked up by their keys: %s", text)
		}
		require.Less(t, n.Removed, 1000, "rows are compared with rows: %s", text)
		for _, p := range n.Plans {
			walk(p)
		}
	}
	walk(plans[0].Plan)
	require.True(t, found, "no scan of the jobs in %s", text)
}

// What happened is read along indexes, from however many days it is kept.
func TestHistoryIsReadByKeyAndNotByDay(t *testing.T) {
	t.Parallel()
	c := gallery(t)
	c.exec(`ANALYZE duly.job, duly.event, duly.done`)
	for name, args := range map[string][]any{
		"check_events": {int64(0), int64(500)},
		"check_leases": {int64(0), int64(500)},
		"check_done":   {c.worker.ID, time.Now(), 10},
		"show_events":  {int64(1), 100},
	} {
		tx, err := c.pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), c.Statement("seek"))
		require.NoError(t, err)
		var text []byte
		require.NoError(t, tx.QueryRow(t.Context(), "EXPLAIN (FORMAT JSON) "+c.Statement(name), args...).Scan(&text))
		require.NotContains(t, string(text), "Seq Scan", "%s: %s", name, text)
		require.NoError(t, tx.Rollback(t.Context()))
	}
}
