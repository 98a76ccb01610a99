package app

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/machine"
)

const resolving = `SELECT k AS key, k AS destination FROM unnest($1::text[]) AS k`

func TestAResolveHasItsDefaultsAndIsFixedWithThePromises(t *testing.T) {
	t.Parallel()
	c := parse(t, `
sources: {crm: {env: CRM_URL}}
kinds:
  own: {channel: http, resolve: {sql: {statement: '`+resolving+`'}}}
  crm: {channel: smtp, smtp: {server: "mail.example.com:587", from: a@example.com, subject: s, text: t}, resolve: {timeout: 3s, receipt: plain, sql: {source: crm, statement: '`+resolving+`'}}}
  web: {channel: http, resolve: {http: {url: 'https://crm.example.com/addresses'}}}
  go: {channel: go, resolve: {go: {}}}
  none: {channel: http}
schedules:
  late: {cron: "0 9 * * MON", zone: Europe/Paris, period: iso-week, kind: own, key: "late:{period}:{customer}", select: "SELECT 1"}
  given: {cron: "0 9 * * MON", zone: Europe/Paris, period: iso-week, kind: none, key: "given:{period}:{customer}", select: "SELECT 1"}
`)
	says := map[string]string{}
	for _, k := range c.Summary().Kinds {
		says[k.Name] = k.Resolve
	}
	require.Equal(t, map[string]string{
		"own": "by sql (ledger) within 5s, receipt hash", "crm": "by sql (crm) within 3s, receipt plain",
		"web": "by http within 5s, receipt hash", "go": "by go within 5s, receipt hash", "none": "",
	}, says)
	for name, want := range map[string]machine.Means{"own": machine.MeansSQL, "web": machine.MeansHTTP, "go": machine.MeansGo, "none": ""} {
		k, _ := c.Kind(name)
		require.Equal(t, want, k.Promises.Resolve, name)
	}
	crm, _ := c.Kind("crm")
	require.Equal(t, 3*time.Second, crm.Resolve.Timeout)
	var table bytes.Buffer
	require.NoError(t, c.Summary().Table(&table))
	require.Contains(t, table.String(), "by sql (crm) within 3s, receipt plain")

	own, _ := c.Kind("own")
	none, _ := c.Kind("none")
	own.Name = none.Name
	require.NotEqual(t, none.Hash(), own.Hash())
	own.Promises.Resolve = ""
	require.Equal(t, none.Hash(), own.Hash(), "a kind without one is named as before")

	late, _ := c.Schedule("late")
	require.Equal(t, []string{"customer"}, late.Columns(), "a destination need not be selected that is asked for later")
	given, _ := c.Schedule("given")
	require.Equal(t, []string{"customer", "destination"}, given.Columns())

	checkers, err := c.Checkers()
	require.NoError(t, err)
	require.Nil(t, checkers.Check("own", "", []byte(`{}`)), "a job need not be given one")
	require.NotNil(t, checkers.Check("own", "not a URL", []byte(`{}`)))
	require.NotNil(t, checkers.Check("none", "", []byte(`{}`)))
}

func TestAResolveThatCannotWorkIsRefused(t *testing.T) {
	t.Parallel()
	const ok = "sql: {statement: '" + resolving + "'}"
	for written, want := range map[string]string{
		"{}":                                 "kinds.k.resolve: it must have exactly one of sql, http and go",
		"{go: {}, " + ok + "}":               "kinds.k.resolve: it must have exactly one of sql, http and go",
		"{go: {}}":                           "kinds.k.resolve.go: it is for kinds with channel go",
		"{sql: {}}":                          "kinds.k.resolve.sql.statement: it must be given",
		"{sql: {statement: 'SELECT 1'}}":     "kinds.k.resolve.sql.statement: it must name its parameter, $1",
		"{sql: {statement: 'DELETE $1'}}":    "kinds.k.resolve.sql.statement: it must be one query",
		"{sql: {statement: 'SELECT $1 $4'}}": "kinds.k.resolve.sql.statement: it has three parameters at most",
		"{sql: {statement: '" + resolving + "', source: crm}}": "kinds.k.resolve.sql.source: there is no such source; say where it is as sources.crm",
		"{http: {}}":                       "kinds.k.resolve.http.url: it must be given",
		"{http: {url: 'ftp://a.example'}}": "kinds.k.resolve.http.url: it must begin with http",
		"{timeout: 0s, " + ok + "}":        "kinds.k.resolve.timeout: it must be above 0 and at most 10s",
		"{timeout: 11s, " + ok + "}":       "kinds.k.resolve.timeout: it must be above 0 and at most 10s",
		"{timeout: 10s, " + ok + "}":       "kinds.k.resolve.timeout: together with limit (15s) it must be shorter than worker.lease_time - worker.heartbeat (25s)",
		"{receipt: none, " + ok + "}":      "kinds.k.resolve.receipt: it must be hash or plain",
		"{sql: {statemen: '" + "x" + "'}}": `did you mean "statement"`,
	} {
		found := problems(t, "kinds:\n  k:\n    channel: http\n    limit: 15s\n    resolve: "+written+"\n")
		field, rule, _ := strings.Cut(want, ": ")
		require.True(t, slices.ContainsFunc(found, func(p string) bool { return strings.Contains(p, field) && strings.Contains(p, rule) }), "%s: %s: %q", written, want, found)
	}
}
