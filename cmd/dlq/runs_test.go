package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// With --json every command prints one object, which more can be added to.
func TestRunsAndSchedulesArePrintedAsObjects(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	var runs struct {
		Runs []machine.Run `json:"runs"`
	}
	var refused struct {
		Refused []machine.RefusedRow `json:"refused"`
	}
	var kept struct {
		Occurrences []machine.Occurrence `json:"occurrences"`
	}
	o.json(&runs, "runs")
	require.NotNil(t, runs.Runs, "a list, also where it is empty")
	require.Empty(t, runs.Runs)
	o.json(&kept, "schedules", "weekly")
	require.NotNil(t, kept.Occurrences)

	_, created, err := o.ledger.StartRun(t.Context(), "weekly", o.kind.Name, machine.Opening{
		Period: "2026-W42", At: time.Now(), Local: "2026-10-12T09:00:00", Zone: "Europe/Paris", Cause: machine.RunManual, Actor: "ann",
	})
	require.NoError(t, err)
	require.True(t, created)
	_, err = o.ledger.FreezeNext(t.Context(), []string{"weekly"}, func(machine.Run) (machine.Selection, error) {
		return machine.Selection{Query: "SELECT 1", Recipient: func(machine.Columns) machine.Recipient {
			return machine.Recipient{Refused: job.Refuse("destination", "", job.RuleRequired, "")}
		}}, nil
	}, func(int) time.Duration { return time.Hour })
	require.NoError(t, err)
	o.json(&runs, "runs", "list")
	require.Equal(t, "2026-W42", runs.Runs[0].Period)
	o.json(&refused, "runs", "refused", "weekly", "2026-W42")
	require.Equal(t, job.RuleRequired, refused.Refused[0].Rule)
	o.json(&kept, "schedules", "weekly")
	require.Equal(t, "2026-W42", kept.Occurrences[0].Period)
	require.Contains(t, o.ok("runs", "show", "weekly", "2026-W42"), "1 = 1 refused + 0 expected")
}
