package app

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/machine"
)

func TestACleanupHasItsDefaults(t *testing.T) {
	t.Parallel()
	c := parse(t, `
kinds:
  sql: {channel: http, cleanup: {statement: 'DELETE FROM generated WHERE operation_key = $1'}}
  go: {channel: go, max_lifetime: 40d, cleanup: {go: {}, when: receipt, from: 1d, max_tries: 3, max_age: 2d, timeout: 5s}}
  none: {channel: http}
`)
	k, _ := c.Kind("sql")
	rule := machine.DefaultCleanup()
	require.Equal(t, &rule, k.Cleanup)
	require.Equal(t, 10*time.Second, k.Gate.Timeout)
	require.Equal(t, "by sql, 0s after a delivery, 30d after any other end", k.summary().Cleanup)
	k, _ = c.Kind("go")
	require.Equal(t, &machine.CleanupRule{
		By: machine.MeansGo, When: machine.CleanupReceipt, From: 24 * time.Hour, After: 40 * 24 * time.Hour, MaxTries: 3, MaxAge: 48 * time.Hour,
	}, k.Cleanup)
	k, _ = c.Kind("none")
	require.Nil(t, k.Cleanup)
	require.Empty(t, k.summary().Cleanup)
	require.True(t, slices.ContainsFunc(c.Warnings(), func(w string) bool {
		return strings.Contains(w, "kind go is cleaned up behind its jobs up to 40d after their end, longer than retention (30d)")
	}))
}

// A gate is part of what a kind's hash names, and what has none is named as before.
func TestAGateChangesTheHashOfItsKindAlone(t *testing.T) {
	t.Parallel()
	hash := func(cleanup string) string {
		c := parse(t, "kinds:\n  k: {channel: http"+cleanup+"}\n")
		k, _ := c.Kind("k")
		return k.Hash()
	}
	require.NotEqual(t, hash(""), hash(", cleanup: {statement: 'DELETE FROM a WHERE k = $1'}"))
	require.Equal(t, hash(", cleanup: {statement: 'DELETE FROM a WHERE k = $1'}"), hash(", cleanup: {statement: 'DELETE FROM b WHERE k = $1'}"), "how it is done is no policy")
}

func TestACleanupThatCannotWorkIsRefused(t *testing.T) {
	t.Parallel()
	const ok = "statement: 'DELETE FROM a WHERE k = $1'"
	for written, want := range map[string]string{
		"{}":                           "kinds.k.cleanup: it must have exactly one of statement and go",
		"{go: {}, " + ok + "}":         "kinds.k.cleanup: it must have exactly one of statement and go",
		"{go: {}}":                     "kinds.k.cleanup.go: it is for kinds with channel go",
		"{statement: 'SELECT $1'}":     "kinds.k.cleanup.statement: it begins with SELECT",
		"{statement: 'DROP TABLE a'}":  "kinds.k.cleanup.statement: it begins with DROP",
		"{statement: 'DELETE FROM a'}": "kinds.k.cleanup.statement: it must name its parameter",
		"{statement: 'DELETE FROM a WHERE k = $1 OR k = $2'}": "kinds.k.cleanup.statement: it has one parameter",
		"{" + ok + ", when: always}":                          "kinds.k.cleanup.when: it must be delivered or receipt",
		"{" + ok + ", from: -1h}":                             "kinds.k.cleanup.from",
		"{" + ok + ", after: 6d}":                             "kinds.k.cleanup.after: it must not be shorter than max_lifetime (7d)",
		"{" + ok + ", max_tries: 0}":                          "kinds.k.cleanup.max_tries: it must be between 1 and 1000",
		"{" + ok + ", max_age: 0s}":                           "kinds.k.cleanup.max_age: it must be positive",
		"{" + ok + ", timeout: 31s}":                          "kinds.k.cleanup.timeout: it must be above 0 and at most 30s",
		"{" + ok + ", wen: delivered}":                        `did you mean "when"`,
	} {
		found := problems(t, "kinds:\n  k:\n    channel: http\n    cleanup: "+written+"\n")
		field, rule, _ := strings.Cut(want, ": ")
		require.True(t, slices.ContainsFunc(found, func(p string) bool { return strings.Contains(p, field) && strings.Contains(p, rule) }), "%s: %s: %q", written, want, found)
	}
}
