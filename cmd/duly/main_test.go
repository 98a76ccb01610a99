package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/devstack"
	"duly.dev/duly/internal/importer"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/ledger/ledgertest"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

func TestMain(m *testing.M) { ledgertest.Main(m) }

// run runs the program and returns what it printed and its exit code.
func run(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return runIn(context.Background(), args...)
}

func runIn(ctx context.Context, args ...string) (stdout, stderr string, code int) {
	var out, err bytes.Buffer
	code = app.Exec(ctx, program(), args, &out, &err)
	return out.String(), err.String(), code
}

const goodConfig = `
lanes: {mail: {}}
kinds:
  renewal-reminder:
    lane: mail
    channel: smtp
    smtp: {server: "127.0.0.1:2525", tls: none, from: a@example.com, subject: s, text: t}
`

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestConfigCheckShowsAConfigurationWithItsDefaults(t *testing.T) {
	t.Parallel()
	file := write(t, "duly.yaml", goodConfig)
	out, _, code := run(t, "config", "check", "--config", file)
	require.Equal(t, app.ExitOK, code)
	require.Contains(t, out, "renewal-reminder")
	require.Contains(t, out, "a person decides")

	out, _, code = run(t, "config", "check", "--config", file, "--json")
	require.Equal(t, app.ExitOK, code)
	var got struct {
		OK    bool
		Kinds []struct{ Name, Limit string }
	}
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.True(t, got.OK)
	require.Equal(t, "renewal-reminder", got.Kinds[0].Name)
	require.Equal(t, "10s", got.Kinds[0].Limit)
}

func TestConfigCheckTellsEverythingThatIsWrong(t *testing.T) {
	t.Parallel()
	file := write(t, "duly.yaml", strings.Replace(goodConfig, "channel: smtp", "channel: smtp\n    limit: 0s\n    max_atempts: 3", 1))
	out, stderr, code := run(t, "config", "check", "--config", file)
	require.Equal(t, app.ExitUsage, code)
	require.Contains(t, out, file+":7: kinds.renewal-reminder.limit")
	require.Contains(t, out, file+":8: kinds.renewal-reminder.max_atempts")
	require.Contains(t, stderr, "2 problems")

	out, _, code = run(t, "config", "check", "--config", file, "--json")
	require.Equal(t, app.ExitUsage, code)
	var got struct {
		OK       bool
		Problems []struct {
			Line        int
			Field, Rule string
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.False(t, got.OK)
	require.Len(t, got.Problems, 2)
	require.Equal(t, 7, got.Problems[0].Line)

	_, stderr, code = run(t, "config", "check", "--config", file+".none")
	require.Equal(t, app.ExitUsage, code)
	require.Contains(t, stderr, "duly.yaml.none")
}

func TestTheExampleAndTheDeploymentHoldBeforeACheck(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"../../examples/duly.yaml", "../../deploy/duly.yaml"} {
		_, stderr, code := run(t, "config", "check", "--config", file)
		require.Equal(t, app.ExitOK, code, stderr)
	}
}

func TestMigrateSaysWhereTheSchemaIs(t *testing.T) {
	t.Parallel()
	url := ledgertest.URL(t)
	_, stderr, code := run(t, "migrate", "check", "--database-url", url)
	require.Equal(t, app.ExitOK, code, stderr)
	out, stderr, code := run(t, "migrate", "up", "--database-url", url)
	require.Equal(t, app.ExitOK, code, stderr)
	require.Contains(t, out, "applied")
	require.NotContains(t, out, "pending")
	out, _, code = run(t, "migrate", "status", "--database-url", url, "--json")
	require.Equal(t, app.ExitOK, code)
	var migrations []ledger.Migration
	require.NoError(t, json.Unmarshal([]byte(out), &migrations))
	require.NotEmpty(t, migrations)
	require.True(t, migrations[0].Applied)
}

func TestMigrateBringsUpAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	server, err := devstack.StartPostgres(context.Background(), devstack.PostgresOptions{UnsafeNoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.Background())) })
	url := server.URL()
	out, stderr, code := run(t, "migrate", "check", "--database-url", url)
	require.Equal(t, app.ExitFailed, code, out)
	require.Contains(t, stderr, "schema version")
	out, _, code = run(t, "migrate", "status", "--database-url", url)
	require.Equal(t, app.ExitOK, code)
	require.Contains(t, out, "pending")
	_, stderr, code = run(t, "migrate", "up", "--database-url", url)
	require.Equal(t, app.ExitOK, code, stderr)
	_, stderr, code = run(t, "migrate", "check", "--database-url", url)
	require.Equal(t, app.ExitOK, code, stderr)
}

func TestALedgerThatIsDownIsWaitedForAndThenUnavailable(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	_, stderr, code := runIn(ctx, "migrate", "up", "--database-url", "postgres://duly:hush@127.0.0.1:1/duly")
	require.Equal(t, app.ExitUnavailable, code)
	require.Contains(t, stderr, "trying again")
	require.Contains(t, stderr, "127.0.0.1:1/duly")
	require.NotContains(t, stderr, "hush")
}

const rows = "kind,key,destination,deadline,payload\n" +
	"renewal-reminder,a,a@example.com,,1\n" +
	"renewal-reminder,b,nobody,,1\n" +
	"renewal-reminder,c,c@example.com,5 PM,1\n" +
	"renewal-reminder,a,a@example.com,,1\n"

func TestImportTakesWhatItCanAndReportsTheRest(t *testing.T) {
	t.Parallel()
	config, file := write(t, "duly.yaml", goodConfig), write(t, "rows.csv", rows)
	report := filepath.Join(t.TempDir(), "refused.ndjson")
	url := ledgertest.URL(t)
	pool := ledgertest.Pool(t, url)
	parsed, err := app.LoadConfig(config)
	require.NoError(t, err)
	require.NoError(t, ledger.New(pool).SyncKinds(context.Background(), parsed.Kinds()))

	out, stderr, code := run(t, "import", file, "--config", config, "--database-url", url, "--report", report, "--json")
	require.Equal(t, app.ExitFailed, code, stderr)
	require.Contains(t, stderr, "2 of 4 rows were refused")
	var counts importer.Counts
	require.NoError(t, json.Unmarshal([]byte(out), &counts))
	require.Equal(t, importer.Counts{Rows: 4, Refused: 2, SameKey: 1, Jobs: 1}, counts)

	content, err := os.ReadFile(report)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	require.Len(t, lines, 2)
	var first, second importer.Refused
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &first))
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &second))
	require.Equal(t, importer.Refused{Line: 3, Kind: "renewal-reminder", Key: "b", Field: "destination", Value: "nobody", Rule: job.RuleDestination, Text: first.Text}, first)
	require.Equal(t, 4, second.Line)
	require.Equal(t, job.RuleTime, second.Rule)

	out, stderr, code = run(t, "import", file, "--config", config, "--database-url", url)
	require.Equal(t, app.ExitFailed, code)
	require.Contains(t, out, "4 rows = 0 new jobs + 2 of a known key + 2 refused")
	require.Contains(t, stderr, `line 3: destination "nobody"`)
}

func TestADryRunNeedsNoLedger(t *testing.T) {
	t.Parallel()
	config := write(t, "duly.yaml", goodConfig)
	out, stderr, code := run(t, "import", write(t, "rows.csv", rows), "--config", config, "--dry-run")
	require.Equal(t, app.ExitFailed, code, stderr)
	require.Contains(t, out, "4 rows = 2 rows that pass every check")
	_, stderr, code = run(t, "import", write(t, "good.csv", "kind,key,destination,payload\nrenewal-reminder,a,a@example.com,1\n"), "--config", config, "--dry-run")
	require.Equal(t, app.ExitOK, code, stderr)
}

func TestAnImportThatCannotBeginSaysWhy(t *testing.T) {
	t.Parallel()
	config := write(t, "duly.yaml", goodConfig)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no such file":       {[]string{"none.csv", "--dry-run"}, "none.csv"},
		"an unknown format":  {[]string{config, "--dry-run"}, "must end in .csv or .ndjson"},
		"no ledger":          {[]string{write(t, "rows.csv", rows)}, "DULY_DATABASE_URL"},
		"a report elsewhere": {[]string{write(t, "rows.csv", rows), "--dry-run", "--report", "report.txt"}, "--report"},
		"unknown columns":    {[]string{write(t, "rows.csv", "kind,key,payload,dedline\n"), "--dry-run"}, `column "dedline"`},
	} {
		_, stderr, code := run(t, append([]string{"import", "--config", config}, c.args...)...)
		require.NotEqual(t, app.ExitOK, code, name)
		require.Contains(t, stderr, c.want, name)
	}
}

func TestImportNeverOverwritesItsInput(t *testing.T) {
	t.Parallel()
	input := filepath.Join(t.TempDir(), "in.csv")
	text := "kind,key,payload\nx,y,{}\n"
	require.NoError(t, os.WriteFile(input, []byte(text), 0o600))
	link := filepath.Join(filepath.Dir(input), "link.csv")
	require.NoError(t, os.Symlink(input, link))
	for _, report := range []string{input, link} {
		_, errs, code := run(t, "import", input, "--dry-run", "--config", "../../examples/duly.yaml", "--report", report)
		require.Equal(t, app.ExitUsage, code, errs)
		require.Contains(t, errs, "name another")
	}
	kept, err := os.ReadFile(input)
	require.NoError(t, err)
	require.Equal(t, text, string(kept))
}

func TestImportOfAFileWithoutAUsableHeaderIsAMistakeOfUse(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "kind,key,payload,nonsense\n"} {
		input := filepath.Join(t.TempDir(), "in.csv")
		require.NoError(t, os.WriteFile(input, []byte(text), 0o600))
		out, errs, code := run(t, "import", input, "--dry-run", "--config", "../../examples/duly.yaml")
		require.Equal(t, app.ExitUsage, code, errs)
		require.Empty(t, out)
	}
}

// A gate that was taken out of the file is told by looking into the ledger.
func TestConfigCheckAgainstALedgerTellsOfCleanupsThatNobodyDoes(t *testing.T) {
	t.Parallel()
	url := ledgertest.URL(t)
	pool := ledgertest.Pool(t, url)
	l := ledger.New(pool)
	rule := machine.DefaultCleanup()
	kind := machine.Kind{Name: "mail", Lane: "default", Channel: "http", Policy: machine.DefaultPolicy(), Promises: machine.DefaultPromises(1), Cleanup: &rule}
	require.NoError(t, l.SyncKinds(t.Context(), []machine.Kind{kind}))
	_, err := l.Enqueue(t.Context(), pool, []job.Spec{{Kind: "mail", Key: "1", Payload: []byte(`{}`)}})
	require.NoError(t, err)
	_, err = l.Cancel(t.Context(), machine.Cancellation{Kind: "mail", Key: "1", Actor: "ann", Reason: "left"})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "duly.yaml")
	require.NoError(t, os.WriteFile(file, []byte("kinds:\n  mail: {channel: http}\n"), 0o600))

	out, stderr, code := run(t, "config", "check", "--config", file)
	require.Zero(t, code, stderr)
	require.NotContains(t, out, "cleanups wait")
	out, stderr, code = run(t, "config", "check", "--config", file, "--against", url)
	require.Zero(t, code, stderr)
	require.Contains(t, out, "warning: 1 cleanups wait behind jobs of kind mail, which has no cleanup any more")
	_, _, code = run(t, "config", "check", "--config", file, "--against", "postgres://nobody@127.0.0.1:1/x", "--wait", "100ms")
	require.Equal(t, app.ExitUnavailable, code)
}
