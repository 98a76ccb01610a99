package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/ledger/ledgertest"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

func TestMain(m *testing.M) { ledgertest.Main(m) }

var update = flag.Bool("update", false, "write what the commands print to testdata")

// operator is a person with dlq in front of a ledger.
type operator struct {
	t      *testing.T
	url    string
	pool   *pgxpool.Pool
	ledger *ledger.Ledger
	worker machine.Worker
	kind   machine.Kind
}

func newOperator(t *testing.T) *operator {
	t.Helper()
	o := &operator{t: t, url: ledgertest.URL(t)}
	o.pool = ledgertest.Pool(t, o.url)
	o.ledger = ledger.New(o.pool)
	policy := machine.DefaultPolicy()
	o.kind = machine.Kind{Name: "mail", Lane: "main", Channel: "smtp", Policy: policy, Promises: machine.DefaultPromises(policy.Limit)}
	require.NoError(t, o.ledger.SyncKinds(t.Context(), []machine.Kind{o.kind}))
	o.worker = machine.Worker{ID: uuid.NewString(), Label: "test", Version: "v1", LeaseTime: policy.LeaseTime}
	require.NoError(t, o.ledger.RegisterWorker(t.Context(), o.worker))
	return o
}

// dlq runs a command and returns its exit code and what it printed.
func (o *operator) dlq(args ...string) (code int, stdout, stderr string) {
	o.t.Helper()
	var out, errs bytes.Buffer
	code = app.Exec(o.t.Context(), program(), append([]string{"--database-url", o.url, "--actor", "bob"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

// ok runs a command that must succeed, and returns what it printed.
func (o *operator) ok(args ...string) string {
	o.t.Helper()
	code, stdout, stderr := o.dlq(args...)
	require.Zero(o.t, code, "%v: %s", args, stderr)
	return stdout
}

// refused runs a command that must be refused, and returns what it said.
func (o *operator) refused(args ...string) string {
	o.t.Helper()
	code, stdout, stderr := o.dlq(args...)
	require.Equal(o.t, app.ExitRefused, code, "%v: %s", args, stderr)
	require.Empty(o.t, stdout)
	return stderr
}

// json runs a command with --json into a value.
func (o *operator) json(v any, args ...string) {
	o.t.Helper()
	decoder := json.NewDecoder(strings.NewReader(o.ok(append(args, "--json")...)))
	require.NoError(o.t, decoder.Decode(v))
}

// job schedules a job that is due.
func (o *operator) job(key string) job.Ref {
	o.t.Helper()
	made, err := o.ledger.Enqueue(o.t.Context(), o.pool, []job.Spec{{
		Kind: "mail", Key: key, Subject: "customer-1842", Destination: "ann@example.com", Payload: []byte(`{"name":"Ann"}`),
		Deadline: time.Now().Add(time.Hour),
	}})
	require.NoError(o.t, err)
	return job.Ref{Job: made[0].Job, Generation: 1, Emission: 1}
}

// ended schedules a job and ends its attempt.
func (o *operator) ended(key string, r job.Result) job.Ref {
	o.t.Helper()
	ref := o.job(key)
	o.end(ref, r)
	return ref
}

func (o *operator) end(ref job.Ref, r job.Result) {
	o.t.Helper()
	leases, err := o.ledger.Lease(o.t.Context(), machine.LeaseRequest{Worker: o.worker, Kind: o.kind, Refs: []job.Ref{ref}})
	require.NoError(o.t, err)
	require.Len(o.t, leases.Grants, 1)
	row := leases.Grants[0].Row
	_, err = o.ledger.Settle(o.t.Context(), o.worker, []machine.Report{{
		Attempt: machine.Attempt{Job: row.Job, Generation: row.Generation, Fence: row.Fence}, Result: r, Kind: &row.Kind, Classifier: "c1",
	}})
	require.NoError(o.t, err)
}

var (
	poison = job.NotDone(job.ClassPermanent, job.CodeDestinationInvalid, "550 5.1.1 no such user")
	doubt  = job.MayBeDone(job.CodeTimeout, "no answer in 10s")
)

var changing = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d( UTC|Z)|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{8}…|in \d[\dhms]*\b`)

// golden compares what was printed with testdata, instants and ids apart.
func golden(t *testing.T, name, got string) {
	t.Helper()
	got = changing.ReplaceAllStringFunc(got, func(s string) string {
		switch {
		case strings.HasPrefix(s, "in "):
			return "in TIME"
		case strings.HasSuffix(s, "Z"):
			return "YYYY-MM-DD hh:mm:ssZ"
		case strings.HasSuffix(s, "UTC"):
			return "YYYY-MM-DD hh:mm:ss UTC"
		case strings.HasSuffix(s, "…"):
			return "WORKERID…"
		}
		return "WORKER"
	})
	file := filepath.Join("testdata", name+".golden")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func TestTheWholeWayOfAPoisonedJob(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	golden(t, "list-empty", o.ok("list"))
	ref := o.ended("renewal:2026/customer 1842", poison)
	name := "mail/renewal:2026/customer 1842"
	golden(t, "list", o.ok("list"))
	golden(t, "explain-quarantined", o.ok("explain", name))

	args := []string{"redrive", name, "--generation", "1", "--recovery-key", "fix-1", "--approver", "ann", "--reason", "address corrected", "--destination", "ann@example.org"}
	require.Equal(t, name+": generation 2 is ready\n", o.ok(args...))
	require.Equal(t, name+": this recovery key had opened generation 2 before, which is ready now\n", o.ok(args...))
	require.Contains(t, o.refused(append(args, "--recovery-key", "fix-2")...), "generation 2 is its successor")
	require.Contains(t, o.refused(append(args, "--destination", "x@example.org")...), "used before, with another generation or other corrections")
	golden(t, "list-after", o.ok("list"))

	o.end(job.Ref{Job: ref.Job, Generation: 2, Emission: 2}, job.Done(&job.Receipt{ID: "msg-7", Status: "250"}))
	shown := o.ok("show", name)
	golden(t, "show", shown)
	require.NotContains(t, shown, "ann@example", "G13: destinations are masked")
	golden(t, "explain-delivered", o.ok("explain", name))
	require.Contains(t, o.refused("redrive", name, "--generation=2", "--recovery-key=k", "--approver=ann", "--reason=again"), "it is delivered")
	require.Contains(t, o.refused("cancel", name), "it is delivered")
}

func TestTheWholeWayOfADoubt(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	o.ended("d1", doubt)
	golden(t, "explain-unknown", o.ok("explain", "mail/d1"))
	require.Contains(t, o.refused("resolve", "mail/d1", "--fence=1", "--as=not-delivered", "--evidence=log"), "only if it was looked for after")
	require.Contains(t, o.refused("resolve", "mail/d1", "--fence=9", "--as=delivered", "--evidence=log"), "which is 1")
	require.Equal(t, "mail/d1: generation 1 is unknown, and closed: it is asked about no more\n", o.ok("resolve", "mail/d1", "--fence=1", "--as=give-up", "--evidence=nobody knows"))
	redrive := []string{"redrive", "mail/d1", "--generation=1", "--recovery-key=k", "--approver=ann", "--reason=must go"}
	require.Contains(t, o.refused(redrive...), "force")
	code, _, stderr := o.dlq(append(redrive, "--force")...)
	require.Equal(t, app.ExitUsage, code, "force needs evidence: %s", stderr)
	require.Contains(t, o.ok(append(redrive, "--force", "--evidence=the receiver lost it")...), "generation 2 is ready")

	o.ended("d2", doubt)
	require.Equal(t, "mail/d2: generation 1 is delivered\n", o.ok("resolve", "mail/d2", "--fence=1", "--as=delivered", "--evidence=seen in the log", "--looked-at=2026-09-30T17:00:00+02:00"))
	require.Equal(t, 1, o.count(`SELECT count(*)::int FROM duly.audit WHERE actor = 'bob' AND action = 'resolve' AND detail->>'looked_at' = '2026-09-30T15:00:00Z'`))
}

func (o *operator) count(sql string) (n int) {
	o.t.Helper()
	require.NoError(o.t, o.pool.QueryRow(o.t.Context(), sql).Scan(&n))
	return n
}

func TestJSONIsWhatTheDocumentationSays(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	for i := range 3 {
		o.ended(fmt.Sprintf("j%d", i), poison)
	}
	var page map[string]any
	o.json(&page, "list", "--limit", "2")
	require.Len(t, page["entries"], 2)
	entry := page["entries"].([]any)[0].(map[string]any)
	require.Equal(t, []any{"mail", "j2", "quarantined", "permanent", "DESTINATION_INVALID", 1.0}, []any{entry["kind"], entry["key"], entry["state"], entry["reason"], entry["code"], entry["generation"]})
	var rest map[string]any
	o.json(&rest, "list", "--limit", "2", "--after", page["next"].(string))
	require.Len(t, rest["entries"], 1)
	require.NotContains(t, rest, "next")
	o.json(&rest, "list", "--code", "REJECTED")
	require.Empty(t, rest["entries"])
	require.NotNil(t, rest["entries"], "an empty list is a list")

	var shown map[string]any
	o.json(&shown, "show", "mail/j0", "--private")
	generation := shown["generations"].([]any)[0].(map[string]any)
	require.Equal(t, "ann@example.com", generation["destination"])
	require.NotContains(t, generation, "payload")
	require.Equal(t, "mail/j0:1:smtp", generation["effect_key"])
	o.json(&shown, "show", "mail/j0", "--payload")
	require.Equal(t, map[string]any{"name": "Ann"}, shown["generations"].([]any)[0].(map[string]any)["payload"])

	var explained map[string]any
	o.json(&explained, "explain", "mail/j0")
	require.Equal(t, "quarantined", explained["state"])
	require.NotEmpty(t, explained["explanation"].(map[string]any)["why"])

	var made map[string]any
	o.json(&made, "redrive", "mail/j0", "--generation=1", "--recovery-key=k", "--approver=ann", "--reason=r")
	require.Equal(t, map[string]any{"kind": "mail", "key": "j0", "job": made["job"], "generation": 2.0, "state": "ready", "again": false}, made)
	var stood map[string]any
	o.json(&stood, "cancel", "mail/j0", "--reason", "left")
	require.Equal(t, map[string]any{"kind": "mail", "key": "j0", "job": made["job"], "generation": 2.0, "state": "cancelled"}, stood)
	o.json(&stood, "cancel", "mail/j0")
	require.Equal(t, true, stood["again"])
}

func TestCorrectionsComeFromFilesAndLocalTimesAndAreChecked(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	o.ended("c1", poison)
	dir := t.TempDir()
	write := func(name, content string) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		return file
	}
	config := write("duly.yaml", "kinds:\n  mail:\n    channel: smtp\n    smtp:\n      server: mail.example.com:25\n      from: us@example.com\n      subject: Hello\n      text: Hello\n")
	redrive := []string{"redrive", "mail/c1", "--generation=1", "--recovery-key=k", "--approver=ann", "--reason=r", "--config", config}
	require.Contains(t, o.refused(append(redrive, "--payload", write("bad.json", `{"a":`))...), "payload: it must be exactly one valid JSON value")
	require.Contains(t, o.refused(append(redrive, "--destination", "no address")...), "it must be one mail address")
	require.Contains(t, o.refused(append(redrive, "--deadline", "2020-01-01T00:00:00Z")...), "begin after its deadline")
	next := time.Now().Year() + 1
	out := o.ok(append(redrive, "--payload", write("good.json", `{"b":2}`), "--deadline", fmt.Sprintf("%d-09-30T17:00:00 Europe/Paris", next), "--not-before", time.Now().Add(time.Hour).Format(time.RFC3339))...)
	require.Contains(t, out, "generation 2 begins at")
	var shown struct {
		Generations []struct {
			Payload  json.RawMessage
			Deadline string
			Zone     string `json:"deadline_zone"`
			Local    string `json:"deadline_local"`
		}
	}
	o.json(&shown, "show", "mail/c1", "--payload")
	g := shown.Generations[1]
	require.JSONEq(t, `{"b":2}`, string(g.Payload))
	require.Equal(t, []string{fmt.Sprintf("%d-09-30T15:00:00Z", next), "Europe/Paris", fmt.Sprintf("%d-09-30T17:00:00", next)}, []string{g.Deadline, g.Zone, g.Local})
}

func TestExitCodesTellWhatKindOfErrorItIs(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no such job":     {[]string{"show", "mail/nobody"}, app.ExitRefused, "mail/nobody: no such job"},
		"no such kind":    {[]string{"list", "--kind", "nothing"}, app.ExitRefused, `kind "nothing": no kind of this name`},
		"no key":          {[]string{"explain", "mail"}, app.ExitUsage, "a job is KIND/KEY"},
		"no generation":   {[]string{"redrive", "mail/k"}, app.ExitUsage, "--generation"},
		"a bad instant":   {[]string{"list", "--since", "5 PM"}, app.ExitUsage, "5 PM"},
		"a bad place":     {[]string{"list", "--after", "x"}, app.ExitUsage, "no place in a list"},
		"a bad answer":    {[]string{"resolve", "mail/k", "--fence=1", "--as=perhaps", "--evidence=e"}, app.ExitUsage, "delivered"},
		"no file":         {[]string{"redrive", "mail/k", "--generation=1", "--recovery-key=k", "--approver=a", "--reason=r", "--payload=/nowhere/x"}, app.ExitUsage, "--payload"},
		"no ledger":       {[]string{"list", "--database-url=postgres://nobody@127.0.0.1:1/x", "--wait=50ms"}, app.ExitUnavailable, "the ledger at 127.0.0.1:1/x"},
		"all that is bad": {[]string{"redrive", "mail/k", "--generation=0", "--recovery-key= k", "--approver=a", "--reason=r"}, app.ExitRefused, "recovery_key"},
	} {
		code, stdout, stderr := o.dlq(c.args...)
		require.Equal(t, c.code, code, "%s: %s", name, stderr)
		require.Contains(t, stderr, c.says, name)
		require.Empty(t, stdout, name)
	}
}

func TestListsOfEveryState(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	o.ended("done", job.Done(nil))
	o.ended("dead", poison)
	o.ended("doubt", doubt)
	o.ended("again", job.NotDone(job.ClassTransient, job.CodeGreylisted, "451"))
	o.job("fresh")
	for state, want := range map[string]string{"delivered": "mail/done", "quarantined": "mail/dead", "unknown": "mail/doubt", "scheduled": "mail/again", "ready": "mail/fresh"} {
		out := o.ok("list", "--state", state, "--since", "1h")
		require.Contains(t, out, want)
		require.Len(t, regexp.MustCompile(`(?m)^mail/`).FindAllString(out, -1), 1, "%s: %s", state, out)
	}
	golden(t, "list-scheduled", o.ok("list", "--state", "scheduled"))
}
