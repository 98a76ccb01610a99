package app

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/machine"
)

func TestALookupIsPartOfTheKindsPromises(t *testing.T) {
	t.Parallel()
	c := parse(t, `
kinds:
  hook:
    channel: http
    promises:
      window: 24h
      lookup:
        timeout: 3s
        at_once: 4
        http:
          url: "{{.Origin}}/effects/{{.EffectKey}}"
          answers: [{status: 200, means: yes}, {status: 404, means: no}]
  mail:
    channel: smtp
    promises: {lookup: {sql: {statement: "SELECT true AS happened, id AS receipt FROM sent WHERE effect_key = $1", dsn: {env: MAIL_LOG}}}}
    smtp: {server: "mail.example.com:587", from: a@example.com, subject: s, text: t}
  own:
    channel: go
    promises: {lookup: {go: {}}}
  silent:
    channel: http
`)
	require.Empty(t, c.Warnings())
	for name, want := range map[string]machine.Means{"hook": machine.MeansHTTP, "mail": machine.MeansSQL, "own": machine.MeansGo, "silent": ""} {
		k, ok := c.Kind(name)
		require.True(t, ok)
		require.Equal(t, want, k.Promises.Lookup, name)
	}
	hook, _ := c.Kind("hook")
	require.Equal(t, 3*time.Second, hook.Lookup.Timeout)
	require.Equal(t, 4, hook.Lookup.AtOnce)
	own, _ := c.Kind("own")
	require.Equal(t, 10*time.Second, own.Lookup.Timeout)
	require.Equal(t, 8, own.Lookup.AtOnce)
	silent, _ := c.Kind("silent")
	require.Nil(t, silent.Lookup)

	after := map[string]string{}
	for _, k := range c.Summary().Kinds {
		after[k.Name] = k.AfterDoubt
	}
	require.Equal(t, map[string]string{
		"hook": "repeat within 1d, then ask by http", "mail": "ask by sql", "own": "ask by go", "silent": "a person decides",
	}, after)

	stack := NewStack(slog.New(slog.DiscardHandler))
	lookups, err := c.OpenHTTPLookups(stack)
	require.NoError(t, err)
	require.Len(t, lookups, 1)
	require.NotNil(t, lookups["hook"])
	require.NoError(t, stack.Stop(t.Context()))
}

func TestALookupThatCannotWorkIsRefused(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]string{
		"{}": "kinds.k.promises.lookup: it must have exactly one of http, sql and go",
		"{go: {}, sql: {statement: 'SELECT true AS happened, id AS receipt FROM sent WHERE key = $1'}}": "exactly one of http, sql and go",
		"{go: {}}":                       `kinds.k.promises.lookup.go: it is for kinds with channel go`,
		"{sql: {statement: 'SELECT 1'}}": "kinds.k.promises.lookup.sql.statement: it must name its parameter",
		"{sql: {}}":                      "kinds.k.promises.lookup.sql.statement: it must be given",
		"{sql: {statement: 'SELECT $1', dsn: {}}}":                                           "kinds.k.promises.lookup.sql.dsn: it must name where the secret is",
		"{http: {url: 'https://a.example/{{.Key}}', answers: []}}":                           "kinds.k.promises.lookup.http.answers: at least one must mean yes",
		"{http: {url: 'https://a.example/', answers: [{status: 200, means: yes}]}}":          "it must name {{.EffectKey}} or {{.Key}}",
		"{http: {url: 'https://a.example/{{.Key}}', answers: [{status: 500, means: no}]}}":   "kinds.k.promises.lookup.http.answers[0].means: it must not be no for status 500",
		"{http: {url: 'https://a.example/{{.Key}}', answers: [{status: 2000, means: yes}]}}": "it must be a status (404), a class (2xx) or a range",
		"{timeout: 1m, go: {}}": "kinds.k.promises.lookup.timeout: it must be above 0 and at most 30s",
		"{timeout: 0s, go: {}}": "kinds.k.promises.lookup.timeout",
		"{at_once: 0, go: {}}":  "kinds.k.promises.lookup.at_once: it must be between 1 and 1000",
		"{at_once: 17, sql: {statement: 'SELECT true AS happened, id AS receipt FROM sent WHERE key = $1'}}": "kinds.k.promises.lookup.at_once: it must be between 1 and 16",
		"{how: {}, go: {}}": "there is no such key",
	} {
		text := "kinds:\n  k:\n    channel: http\n    promises:\n      lookup: " + written + "\n"
		field, rule, _ := strings.Cut(want, ": ")
		told := slices.ContainsFunc(problems(t, text), func(p string) bool { return strings.Contains(p, field) && strings.Contains(p, rule) })
		require.True(t, told, "%s: %s: %q", written, want, problems(t, text))
	}
}

func TestALookupThatNeverSaysNoIsWarnedOf(t *testing.T) {
	t.Parallel()
	c := parse(t, "kinds:\n  k:\n    channel: http\n    promises: {lookup: {http: {url: 'https://a.example/{{.Key}}', answers: [{status: 200, means: yes}]}}}\n")
	require.Len(t, c.Warnings(), 1)
	require.Contains(t, c.Warnings()[0], "no answer of its lookup means no")
}
