package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkFreeze freezes runs of 100,000 members.
func BenchmarkFreeze(b *testing.B) {
	const members = 100_000
	l := newBench(b)
	l.customers(members)
	for n := range b.N {
		l.fire(l.Ledger, fmt.Sprint("run-", n))
		began := time.Now()
		run, err := l.freeze(l.Ledger, selecting(allCustomers))
		require.NoError(b, err)
		require.EqualValues(b, members, run.Expected())
		b.ReportMetric(members/time.Since(began).Seconds(), "members/s")
	}
}
