package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

func TestStatesDocumentIsWhatTheTableSays(t *testing.T) {
	t.Parallel()
	written, err := os.ReadFile("../../../docs/states.md")
	require.NoError(t, err)
	require.Equal(t, document(), string(written), "docs/states.md is stale: run go generate ./internal/machine")
}

func TestEveryWordIsExplained(t *testing.T) {
	t.Parallel()
	for _, s := range job.States() {
		require.NotEmpty(t, states[s], s)
	}
	for _, n := range machine.Names() {
		require.NotEmpty(t, events[n], n)
	}
	for _, r := range job.Reasons() {
		require.NotEmpty(t, reasons[r], r)
	}
}

func TestEveryCellThatSaysAStateHasItsEdge(t *testing.T) {
	t.Parallel()
	found := edges()
	for _, n := range machine.Names() {
		for _, from := range job.States() {
			says := strings.Fields(machine.Says(n, from))
			if len(says) == 0 || from == job.Leased {
				continue
			}
			to := job.State(strings.Trim(says[0], ",."))
			if to.Valid() && to != from {
				require.Contains(t, found[edge{from, to}], string(n), "%s: %s", n, machine.Says(n, from))
			}
		}
	}
}
