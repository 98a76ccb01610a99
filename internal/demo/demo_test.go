package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/examples"
	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/importer"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/pkg/job"
)

// part is a part of the example: its header, and of the rows that each pattern matches
// the first, as many as most says.
func part(most int, patterns ...string) []byte {
	var out bytes.Buffer
	taken := make([]int, len(patterns))
	for line := range bytes.Lines(examples.Renewals) {
		keep := out.Len() == 0
		for i, p := range patterns {
			if !keep && taken[i] < most && regexp.MustCompile(p).Match(line) {
				taken[i]++
				keep = true
			}
		}
		if keep {
			out.Write(line)
		}
	}
	return out.Bytes()
}

func process(out *bytes.Buffer) *app.Process {
	return &app.Process{Name: "duly", Version: "test", Stdout: out, Stderr: &bytes.Buffer{}, Log: app.NewLogger(&bytes.Buffer{}, 0, true)}
}

// The whole path in one process, on every behaviour of both receivers; CI demonstrates
// the whole file on NATS.
func TestALedgerAndItsReceiversAgreeOnEveryBehaviour(t *testing.T) {
	t.Parallel()
	patterns := []string{`@example\.com,,`, `/crm/contracts/[0-9]+,,`, `:r-`}
	for _, b := range mailPlan {
		patterns = append(patterns, `@`+regexp.QuoteMeta(b.where)+`,(,|\+[123]s)`)
	}
	for _, b := range hookPlan {
		patterns = append(patterns, `8025/`+b.where+`/contracts/[0-9]+,(,|\+[123]s)`)
	}
	file := part(2, patterns...)
	header := bytes.IndexByte(examples.Renewals, '\n') + 1
	file = append(file, part(1, `@example\.com,,`, `/crm/contracts/[0-9]+,,`)[header:]...) // two copies
	var out bytes.Buffer
	result, err := Run(context.Background(), process(&out), Options{Bus: BusMemory, File: file, JSON: true})
	require.NoError(t, err)
	require.Equal(t, rowsOf(file), result.Rows)
	require.Equal(t, 2, result.SameKey)
	require.Equal(t, 2, result.Refused)
	require.Zero(t, result.Lost+result.DuplicateEffects+result.Disagreements)
	require.Equal(t, 2, result.States[job.Unknown])
	require.Equal(t, 2*(len(hookPlan)-3)+2*(len(mailPlan)-6)+2+2+1, result.States[job.Delivered], "one of them redriven")
	require.Equal(t, result.States[job.Delivered]+result.States[job.Unknown], result.Effects)
	require.Equal(t, result.Rows, result.Refused+result.SameKey+result.States[job.Delivered]+result.States[job.Unknown]+result.States[job.Quarantined])

	var printed Result
	require.NoError(t, json.Unmarshal(out.Bytes(), &printed), "standard output holds the result and nothing else")
	require.Equal(t, result, printed)
}

func TestADemonstrationThatDoesNotEndInTimeFailsAndKeepsItsFolder(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	dir := enterable(t)
	p := process(&out)
	result, err := Run(context.Background(), p, Options{Dir: dir, Bus: BusMemory, File: []byte(
		"kind,key,subject,period,destination,due,deadline,zone,payload\n" +
			`renewal-reminder,late,,,a@example.com,+1h,,,"{""name"":""A""}"` + "\n",
	), Patience: 3 * time.Second})
	require.ErrorIs(t, err, ErrDisagree)
	require.ErrorContains(t, err, dir)
	require.Equal(t, 1, result.Lost)
	require.Contains(t, out.String(), "DISAGREE: renewal-reminder/late is still scheduled")
	require.Contains(t, out.String(), "DO NOT AGREE: 1 lost")
	require.FileExists(t, filepath.Join(dir, "duly.log"))

	_, err = Run(context.Background(), p, Options{Dir: dir})
	require.ErrorContains(t, err, "must be empty")
	require.Equal(t, app.ExitUsage, app.ExitCode(err))
}

// What dev kept is there after a restart, at the same addresses, and goes on.
func TestDevContinuesWhereItStopped(t *testing.T) {
	t.Parallel()
	dir := enterable(t)
	o := DevOptions{Dir: dir, Bus: BusNATS, Admin: "127.0.0.1:0"}
	var at [2]addresses
	for i := range at {
		inDev(t, o, func(ctx context.Context, l *ledger.Ledger, pool *pgxpool.Pool, config *app.Config) {
			var err error
			at[i], err = readAddresses(filepath.Join(dir, "addresses.json"))
			require.NoError(t, err)
			limits, checkers, err := importer.Rules(config)
			require.NoError(t, err)
			counts, err := importer.Run(ctx, strings.NewReader("kind,key,destination,deadline,zone,payload.name,payload.contract,payload.plan,payload.ends,payload.amount\n"+
				"renewal-reminder,one,a@example.com,2099-01-01T00:00,Asia/Tokyo,A,B,C,D,E\n"),
				importer.Options{Format: importer.CSV, Door: importer.NewLedgerDoor(pool, 0), Limits: limits, Checkers: checkers})
			require.NoError(t, err)
			require.Equal(t, importer.Counts{Rows: 1, Jobs: 1 - i, SameKey: i}, counts)
			require.Eventually(t, func() bool {
				tally, err := l.Tally(ctx)
				return err == nil && tally[job.Delivered] == 1
			}, time.Minute, 50*time.Millisecond)
		})
	}
	require.Equal(t, at[0], at[1])
	book, err := readLogbook(filepath.Join(dir, "received-mail.ndjson"))
	require.NoError(t, err)
	require.Len(t, book, 1)
}

// inDev runs do beside Dev, which has introduced itself, and stops it.
func inDev(t *testing.T, o DevOptions, do func(context.Context, *ledger.Ledger, *pgxpool.Pool, *app.Config)) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	r, w, err := os.Pipe()
	require.NoError(t, err)
	p := process(nil)
	p.Stdout = w
	ended := make(chan error, 1)
	go func() {
		err := Dev(ctx, p, o)
		_ = w.Close()
		ended <- err
	}()
	introduction := make([]byte, 4096)
	n, err := r.Read(introduction)
	require.NoError(t, err)
	said := regexp.MustCompile(`(?m)^  export (DULY_[A-Z_]+)='(.*)'$`).FindAllStringSubmatch(string(introduction[:n]), -1)
	require.Len(t, said, 3)
	require.Equal(t, "DULY_DATABASE_URL", said[0][1])
	pool, err := pgxpool.New(ctx, said[0][2])
	require.NoError(t, err)
	config, err := app.LoadConfig(said[2][2])
	require.NoError(t, err)
	do(ctx, ledger.New(pool), pool, config)
	pool.Close()
	stop()
	require.NoError(t, <-ended)
	_ = r.Close()
}

// enterable is a folder that the server's user may enter too, gone after the test.
func enterable(t *testing.T) string {
	t.Helper()
	dir, err := tempFolder("test")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}
