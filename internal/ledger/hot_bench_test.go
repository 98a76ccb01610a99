package ledger_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// BenchmarkHot measures what one job costs in each statement of its path, a batch at a
// time on one connection at a time: nanoseconds a job, and bytes of WAL a job.
func BenchmarkHot(b *testing.B) {
	for _, n := range []int{1, 50, 100, 200, ledger.EnqueueBatch} {
		b.Run(fmt.Sprintf("batch=%d", n), func(b *testing.B) { benchmarkHot(b, n) })
	}
}

func benchmarkHot(b *testing.B, batch int) {
	b.Helper()
	c := newCrew(b)
	var refs []job.Ref
	for i := range b.N {
		refs = append(refs, job.Ref{Job: int64(i + 1), Generation: 1, Emission: 1})
	}
	step := func(name string, do func(from, to int)) {
		_, err := c.pool.Exec(b.Context(), "CHECKPOINT")
		require.NoError(b, err)
		before, began := c.wal(), b.Elapsed()
		b.StartTimer()
		for from := 0; from < b.N; from += batch {
			do(from, min(from+batch, b.N))
		}
		b.StopTimer()
		b.ReportMetric(float64((b.Elapsed()-began).Nanoseconds())/float64(b.N), name+"-ns/job")
		b.ReportMetric(float64(c.wal()-before)/float64(b.N), name+"-wal/job")
	}
	b.StopTimer()
	step("enqueue", func(from, to int) {
		specs := make([]job.Spec, 0, to-from)
		for i := from; i < to; i++ {
			specs = append(specs, job.Spec{Kind: kind, Key: fmt.Sprintf("key:%d", i), Payload: fmt.Appendf(nil, `"%098d"`, i)})
		}
		_, err := c.Enqueue(b.Context(), c.pool, specs)
		require.NoError(b, err)
	})
	grants := make([]machine.Grant, 0, b.N)
	step("lease", func(from, to int) {
		leases, err := c.Lease(b.Context(), machine.LeaseRequest{Worker: c.worker, Kind: c.kind, Refs: refs[from:to]})
		require.NoError(b, err)
		require.Len(b, leases.Grants, to-from)
		grants = append(grants, leases.Grants...)
	})
	step("settle", func(from, to int) {
		reports := make([]machine.Report, 0, to-from)
		for _, g := range grants[from:to] {
			reports = append(reports, report(g, job.Result{Outcome: job.OutcomeDelivered}))
		}
		_, err := c.Settle(b.Context(), c.worker, reports)
		require.NoError(b, err)
	})
}

// wal is how much WAL the server has written.
func (c *crew) wal() (bytes int64) {
	c.t.Helper()
	require.NoError(c.t, c.pool.QueryRow(c.t.Context(), "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").Scan(&bytes))
	return bytes
}
