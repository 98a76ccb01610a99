package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/pkg/job"
)

// grammar is a program with a command of each sort.
type grammar struct {
	LogSettings
	Do   do   `cmd:"" help:"Does what it is told."`
	Need need `cmd:"" help:"Needs the ledger and the bus."`
}

type do struct {
	run func(context.Context, *Process) error
}

func (d *do) Run(ctx context.Context, p *Process) error { return d.run(ctx, p) }

type need struct {
	LedgerSettings
	BusSettings
}

func (n *need) Run(p *Process) error {
	_, err := fmt.Fprintln(p.Stdout, n.DatabaseURL, n.BusURL)
	return err
}

// exec runs the program and returns its exit code and output.
func exec(ctx context.Context, run func(context.Context, *Process) error, args ...string) (code int, stdout, stderr string) {
	var out, log bytes.Buffer
	g := &grammar{Do: do{run}}
	code = Exec(ctx, Program{Name: "duly-test", Description: "A program for tests.", Grammar: g, LogText: true}, args, &out, &log)
	return code, out.String(), log.String()
}

func TestAProgramEndsWithTheCodeOfItsError(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, ExitOK},
		{errors.New("it broke"), ExitFailed},
		{Exit(ExitUsage, errors.New("wrong file")), ExitUsage},
		{fmt.Errorf("starting: %w", Exit(ExitUsage, errors.New("wrong file"))), ExitUsage},
		{fmt.Errorf("the ledger: %w", ErrUnavailable), ExitUnavailable},
		{fmt.Errorf("showing a/b: %w", job.ErrNotFound), ExitRefused},
		{job.Refuse("kind", "x", job.RuleUnknownKind, ""), ExitRefused},
	} {
		code, _, stderr := exec(t.Context(), func(context.Context, *Process) error { return c.err }, "do")
		require.Equal(t, c.want, code, "%v", c.err)
		if c.err != nil {
			require.Contains(t, stderr, "duly-test: "+c.err.Error())
		}
	}
	require.NoError(t, Exit(ExitUsage, nil))
}

func TestAProgramThatPanicsFailsWithTheStack(t *testing.T) {
	t.Parallel()
	code, _, stderr := exec(t.Context(), func(context.Context, *Process) error { panic("a defect") }, "do")
	require.Equal(t, ExitFailed, code)
	require.Contains(t, stderr, "panic: a defect")
	require.Contains(t, stderr, "process_test.go")
}

func TestASignalThatCutsTheWorkShortShowsInTheCode(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(Interrupted{syscall.SIGTERM})
	code, _, _ := exec(ctx, func(ctx context.Context, _ *Process) error { return fmt.Errorf("importing: %w", ctx.Err()) }, "do")
	require.Equal(t, 128+15, code)
	code, _, _ = exec(ctx, func(context.Context, *Process) error { return nil }, "do")
	require.Equal(t, ExitOK, code)
}

func TestWrongArgumentsAreAUsageErrorWithAHint(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"dance"}, {"do", "--flag"}, {"do", "--log-level=loud"}, {"do", "--log-format=xml"}} {
		code, _, stderr := exec(t.Context(), nil, args...)
		require.Equal(t, ExitUsage, code, args)
		require.Contains(t, stderr, `duly-test --help`, args)
	}
}

func TestHelpNamesFlagsAndVariables(t *testing.T) {
	t.Parallel()
	code, stdout, _ := exec(t.Context(), nil, "need", "--help")
	require.Equal(t, ExitOK, code)
	for _, want := range []string{"--database-url", "$DULY_DATABASE_URL_FILE", "--bus-url-file", "$DULY_LOG_LEVEL"} {
		require.Contains(t, stdout, want)
	}
}

func TestTheLoggerIsMadeAsTheSettingsSay(t *testing.T) {
	t.Parallel()
	speak := func(ctx context.Context, p *Process) error {
		p.Log.DebugContext(ctx, "quiet")
		Component(p.Log, "relay").InfoContext(ctx, "loud")
		return nil
	}
	code, _, stderr := exec(t.Context(), speak, "do", "--log-format=json", "--log-level=info")
	require.Equal(t, ExitOK, code)
	require.Contains(t, stderr, `"msg":"loud","component":"relay"`)
	require.NotContains(t, stderr, "quiet")
	_, _, stderr = exec(t.Context(), speak, "do", "--log-level=debug")
	require.Contains(t, stderr, "msg=quiet")
}

func TestConnectionsComeFromFlagsOrFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, empty := filepath.Join(dir, "url"), filepath.Join(dir, "empty")
	require.NoError(t, os.WriteFile(file, []byte("postgres://duly@db/duly\n"), 0o600))
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))

	code, stdout, stderr := exec(t.Context(), nil, "need", "--database-url-file", file, "--bus-url=nats://bus:4222")
	require.Equal(t, ExitOK, code, stderr)
	require.Equal(t, "postgres://duly@db/duly nats://bus:4222\n", stdout)

	for _, c := range []struct {
		want string
		args []string
	}{
		{"where is the ledger? Give --database-url or set DULY_DATABASE_URL or DULY_DATABASE_URL_FILE", nil},
		{"where is the bus? Give --bus-url", []string{"--database-url=x"}},
		{"the ledger is given twice", []string{"--database-url=x", "--database-url-file=" + file}},
		{"empty is empty", []string{"--database-url-file=" + empty}},
		{"no such file", []string{"--database-url-file=" + filepath.Join(dir, "none")}},
	} {
		code, _, stderr := exec(t.Context(), nil, append([]string{"need"}, c.args...)...)
		require.Equal(t, ExitUsage, code)
		require.Contains(t, stderr, c.want)
	}
}
