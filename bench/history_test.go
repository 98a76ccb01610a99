package main

import (
	"context"
	"testing"
	"time"

	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
	"github.com/stretchr/testify/require"
)

// stackOf starts a server for a test.
func stackOf(t *testing.T) *Stack { return stackWith(t, nil) }

// watchedStackOf starts one that counts its statements.
func watchedStackOf(t *testing.T) *Stack { return stackWith(t, preload()) }

func stackWith(t *testing.T, settings map[string]string) *Stack {
	t.Helper()
	s, err := startStack(t.Context(), merged(map[string]string{"fsync": "off"}, settings), func(string) {})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.stop()) })
	return s
}

// groundOf is a ground of a test, open.
func groundOf(t *testing.T) *ground {
	t.Helper()
	g, err := newGround(t.Context(), stackOf(t), "ground", dulyTuning{producers: 2, batch: 100, slots: 200, pack: 100})
	require.NoError(t, err)
	g.hasty = true
	require.NoError(t, g.open(t.Context()))
	t.Cleanup(func() { require.NoError(t, g.Close(context.Background())) })
	return g
}

// Copies of what the real path left are what the ledger itself would have written, to its
// last row; and a ledger with them goes on working.
func TestHistoryIsWhatTheLedgerWouldHaveWritten(t *testing.T) {
	t.Parallel()
	g := groundOf(t)
	const jobs, sample, days = 2000, 400, 3
	h, err := g.grow(t.Context(), jobs, days, sample)
	require.NoError(t, err)
	require.Equal(t, sample, h.Sample)
	require.Zero(t, h.Disagreements)
	require.Positive(t, h.Checked)

	_, err = g.take(t.Context(), "both", 100, func(ctx context.Context, m *Meter) error { return g.Both(ctx, m, 100) })
	require.NoError(t, err)
	l := ledger.New(g.pool.Pool)
	checked, err := l.Check(t.Context(), ledger.CheckRequest{}, func(d machine.Disagreement) error {
		t.Errorf("%s/%s: %s", d.Kind, d.Key, d)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, jobs+100, checked.Jobs)
	require.Equal(t, jobs+100, checked.Keys)
	tally, err := l.Tally(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[job.State]int{job.Delivered: jobs + 100}, tally)
	var spread int
	require.NoError(t, g.pool.QueryRow(t.Context(), "select count(distinct tableoid) from duly.lease where at < $1", time.Now().Add(-time.Hour)).Scan(&spread))
	require.GreaterOrEqual(t, spread, days, "every day has its partition")
}

func TestWhatStandsIsOnTheBusAndNotWorked(t *testing.T) {
	t.Parallel()
	g := groundOf(t)
	require.NoError(t, g.stand(t.Context(), 300, func() time.Time { return time.Time{} }))
	require.NoError(t, g.stand(t.Context(), 200, func() time.Time { return time.Now().Add(time.Hour) }))
	s, err := g.take(t.Context(), "both", 100, func(ctx context.Context, m *Meter) error { return g.Both(ctx, m, 100) })
	require.NoError(t, err)
	require.Equal(t, 100, s.Jobs)
	tally, err := ledger.New(g.pool.Pool).Tally(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[job.State]int{job.Delivered: 100, job.Ready: 300, job.Scheduled: 200}, tally)
}
