package eval

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

func TestEachSettingDiffersFromTheMiddleInOneThing(t *testing.T) {
	t.Parallel()
	points := settings()
	middle, varied := points[0].Setting, map[string]int{}
	for _, p := range points[1:] {
		differs := 0
		for _, d := range []bool{p.Lease != middle.Lease, p.AckWait != middle.AckWait, p.Slots != middle.Slots} {
			if d {
				differs++
			}
		}
		require.Equal(t, 1, differs, p.name())
		varied[p.Varied]++
	}
	require.Equal(t, map[string]int{"lease": 2, "ack wait": 2, "slots": 2}, varied)
}

func TestQuantiles(t *testing.T) {
	t.Parallel()
	var all []time.Duration
	for i := 100; i > 0; i-- {
		all = append(all, time.Duration(i)*time.Second)
	}
	require.Equal(t, Quantiles{N: 100, P50: 50, P99: 99, Max: 100}, quantilesOf(all))
	require.Equal(t, Quantiles{}, quantilesOf(nil))
}

func TestTheMeterCountsEachJobAndEachWaitOnce(t *testing.T) {
	t.Parallel()
	m := newMeter()
	m.leased(machine.Leases{Grants: []machine.Grant{{Row: machine.Row{Job: 1, Created: time.Now().Add(-time.Minute)}}}})
	m.settled([]machine.Settled{
		{Attempt: machine.Attempt{Job: 1}, State: job.Scheduled, WakeAt: time.Now().Add(time.Hour)},
		{Attempt: machine.Attempt{Job: 1}, State: job.Delivered},
		{Attempt: machine.Attempt{Job: 2}, State: job.Unknown},
		{Attempt: machine.Attempt{Job: 3}, State: job.Delivered, Late: true},
		{Attempt: machine.Attempt{Job: 4}, Pending: true},
	})
	m.cleanedUp([]machine.CleanupOutcome{machine.CleanupDone, machine.CleanupFailed})
	require.Equal(t, 2, m.ended())
	latency, wait := m.quantiles()
	require.Equal(t, []int{1, 1}, []int{latency.N, wait.N})
	require.InDelta(t, 60, latency.P50, 5)
	require.InDelta(t, 3600, wait.P50, 5)
	done, tries := m.cleanups()
	require.Equal(t, []int{1, 2}, []int{done, tries})
}

func TestALoadReportShowsEveryMeasureOfEveryPoint(t *testing.T) {
	t.Parallel()
	r := LoadReport{Customers: 100, Points: settings()}
	var table, page, plot bytes.Buffer
	require.NoError(t, r.table(&table))
	r.markdown(&page, "somewhere/load.svg")
	require.NoError(t, r.draw(&plot))
	for _, c := range columns {
		require.Contains(t, table.String(), c.head())
		require.Contains(t, page.String(), "| "+c.head()+" |")
		require.Contains(t, plot.String(), c.title)
	}
	for _, p := range r.Points {
		require.Contains(t, table.String(), p.name())
		require.Contains(t, page.String(), p.name())
	}
	require.Contains(t, page.String(), "](load.svg)")
	require.NoError(t, r.verdict())
	r.Points[1].problemf("it does not hold")
	require.ErrorIs(t, r.verdict(), ErrViolated)
	require.Equal(t, app.ExitFailed, app.ExitCode(r.verdict()))
}
