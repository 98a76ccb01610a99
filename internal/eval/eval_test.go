package eval

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/pkg/job"
)

// slow are the cases that take longer than anybody waits for a test; `duly eval` runs them.
var slow = []string{"lost-bus"}

// names are the cases that a test tries.
func names() []string {
	var all []string
	for _, c := range Cases() {
		if !slices.Contains(slow, c.Name) {
			all = append(all, c.Name)
		}
	}
	return all
}

// process makes a process, and returns what it prints.
func process() (p *app.Process, stdout *bytes.Buffer) {
	stdout = &bytes.Buffer{}
	return &app.Process{Name: "duly", Version: "test", Stdout: stdout, Stderr: &bytes.Buffer{}, Log: slog.New(slog.DiscardHandler)}, stdout
}

func TestEveryCaseHoldsInMemory(t *testing.T) {
	t.Parallel()
	p, stdout := process()
	out := filepath.Join(t.TempDir(), "report.md")
	report, err := Run(t.Context(), p, Options{Buses: []string{Memory}, Cases: names(), AtOnce: len(Cases()), JSON: true, Out: out})
	require.NoError(t, err, "%s", p.Stderr)
	verdicts := map[Verdict]int{}
	for _, r := range report.Rows {
		verdicts[r.Verdict]++
		if r.Verdict == Passed {
			require.Positive(t, r.Injected, "%s", r.Case)
		}
	}
	require.Equal(t, map[Verdict]int{Passed: len(names()) - 4, Found: 2, NotApplicable: 2}, verdicts)
	var printed Report
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &printed))
	require.Len(t, printed.Rows, len(names()))
	page, err := os.ReadFile(out)
	require.NoError(t, err)
	for _, name := range names() {
		require.Contains(t, string(page), "| `"+name+"` | memory |")
	}
}

// try runs a case of the test's own in memory.
func try(t *testing.T, c Case) Row {
	t.Helper()
	return task{&site{adapter: Memory}, c}.run(t.Context(), slog.New(slog.DiscardHandler))
}

func TestACaseWhoseFaultDoesNotHappenFails(t *testing.T) {
	t.Parallel()
	row := try(t, Case{Name: "nothing", run: func(ctx context.Context, w *world) (verify, error) {
		_, err := w.fleet(ctx, 1)
		return deliveredOnce, cmpOr(err, w.enqueue(ctx, w.each(1, plain)...))
	}})
	require.Equal(t, NotCovered, row.Verdict, "%v", row.Problems)
	err := Report{Rows: []Row{row}}.verdict()
	require.ErrorIs(t, err, ErrViolated)
	require.Equal(t, app.ExitFailed, app.ExitCode(err))
}

func cmpOr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// Each of these breaks a guarantee on purpose, in a way that only one of the witnesses sees.
func TestWhatDoesNotHoldIsFoundAndNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		run  func(ctx context.Context, w *world) error
		says string
	}{
		"an effect happens twice": {func(ctx context.Context, w *world) error {
			w.receiver.plans(func(v *visit) { v.act(); v.act(); v.answer(http.StatusOK) })
			return w.enqueue(ctx, w.each(1, plain)...)
		}, "G1: plain/plain-0 generation 1 had 2 effects"},
		"an accepted job is nowhere": {func(_ context.Context, w *world) error {
			w.accepted = append(w.accepted, w.spec(plain, "gone"))
			return nil
		}, "waited in vain"},
		"what is delivered did not happen": {func(ctx context.Context, w *world) error {
			w.receiver.plans(func(v *visit) { v.answer(http.StatusOK) })
			return w.enqueue(ctx, w.each(1, plain)...)
		}, "G2: plain/plain-0 is delivered, and no receiver saw it"},
		"what is quarantined has happened": {func(ctx context.Context, w *world) error {
			w.receiver.plans(func(v *visit) { v.act(); v.answer(http.StatusUnprocessableEntity) })
			return w.enqueue(ctx, w.each(1, plain)...)
		}, "G8: plain/plain-0 is quarantined, and a receiver acted"},
		"an effect of nobody": {func(ctx context.Context, w *world) error {
			w.receiver.mu.Lock()
			w.receiver.of("of-nobody").effects++
			w.receiver.mu.Unlock()
			return w.enqueue(ctx, w.each(1, plain)...)
		}, "a receiver saw the effect of-nobody"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row := try(t, Case{Name: "broken", patience: 10 * time.Second, run: func(ctx context.Context, w *world) (verify, error) {
				w.fire(1)
				if _, err := w.fleet(ctx, 1); err != nil {
					return nil, err
				}
				return nil, c.run(ctx, w)
			}})
			require.Equal(t, Violated, row.Verdict)
			require.Contains(t, strings.Join(row.Problems, "\n"), c.says)
		})
	}
}

// What a case expects of its own jobs is compared too.
func TestAJobThatEndsOtherwiseThanItsKindPromisesIsNamed(t *testing.T) {
	t.Parallel()
	row := try(t, Case{Name: "otherwise", run: func(ctx context.Context, w *world) (verify, error) {
		w.fire(1)
		_, err := w.fleet(ctx, 1)
		return func(a *account) { a.expect(plain, expectation{job.Unknown, 2, 3}, nil) }, cmpOr(err, w.enqueue(ctx, w.each(1, plain)...))
	}})
	require.Equal(t, Violated, row.Verdict)
	require.Len(t, row.Problems, 3, "state, attempts and sends: %v", row.Problems)
}

// A receiver that breaks a promise is a finding only where something shows it.
func TestABrokenPromiseThatNothingShowsFails(t *testing.T) {
	t.Parallel()
	row := try(t, Case{Name: "unseen", breaks: "window", run: func(ctx context.Context, w *world) (verify, error) {
		w.fire(1)
		_, err := w.fleet(ctx, 1)
		return nil, cmpOr(err, w.enqueue(ctx, w.each(1, deduped)...))
	}})
	require.Equal(t, Violated, row.Verdict)
	require.Contains(t, row.Problems[0], "window")
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	for says, o := range map[string]Options{
		"--bus rabbit": {Buses: []string{"rabbit"}},
		"named twice":  {Buses: []string{Memory, Memory}},
		"no such case": {Cases: []string{"nothing"}},
		"--bus-url":    {Buses: []string{NATS}, BusURL: "kafka://localhost:9092"},
		"--at-once -1": {AtOnce: -1},
	} {
		p, _ := process()
		_, err := Run(t.Context(), p, o)
		require.ErrorContains(t, err, says)
		require.Equal(t, app.ExitUsage, app.ExitCode(err))
	}
}

// The page of the last evaluation tells of every case on the buses that are tried without flags.
func TestTheLastReportTellsOfEveryCase(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reports", "eval.md"))
	require.NoError(t, err)
	for _, c := range Cases() {
		for _, adapter := range []string{Memory, NATS} {
			require.Contains(t, string(page), "| `"+c.Name+"` | "+adapter+" |", "run: go run ./cmd/duly eval --bus memory,nats,kafka --out docs/reports/eval.md")
		}
	}
	require.NotContains(t, string(page), string(Violated))
	require.NotContains(t, string(page), string(NotCovered))
}
