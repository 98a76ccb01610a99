package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// trace is a stack that was seen while a profile was taken, the innermost function first,
// and for how long.
type trace struct {
	frames []string
	took   time.Duration
}

// readProfile reads a CPU profile by the tool that comes with Go.
func readProfile(ctx context.Context, file string) ([]trace, error) {
	tool := exec.CommandContext(ctx, "go", "tool", "pprof", "-traces", "-unit=ms", file)
	out, err := tool.Output()
	if err != nil {
		if failed, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, failed.Stderr)
		}
		return nil, fmt.Errorf("reading the profile: %w", err)
	}
	return parseTraces(strings.NewReader(string(out)))
}

// parseTraces reads what `go tool pprof -traces` prints: stacks between lines of dashes,
// the first frame of each behind its time.
func parseTraces(r io.Reader) ([]trace, error) {
	var all []trace
	lines := bufio.NewScanner(r)
	inside := false
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "-----------+") {
			inside = true
			continue
		}
		fields := strings.Fields(strings.TrimSuffix(line, " (inline)"))
		if !inside || len(fields) == 0 {
			continue
		}
		if took, err := time.ParseDuration(fields[0]); err == nil && len(fields) > 1 {
			all = append(all, trace{frames: []string{strings.Join(fields[1:], " ")}, took: took})
			continue
		}
		if n := len(all); n > 0 && !strings.HasSuffix(fields[0], ":") { // a line with a label is no frame
			all[n-1].frames = append(all[n-1].frames, strings.Join(fields, " "))
		}
	}
	return all, lines.Err()
}

// rule says what a function whose name begins so belongs to.
type rule struct{ prefix, group string }

// parts of the program, by the outermost function of a stack that is one of these.
var parts = []rule{
	{"duly.dev/duly/bench", "producers"},
	{"main.", "producers"},
	{"duly.dev/duly/internal/execute", "worker"},
	{"duly.dev/duly/internal/dispatch", "dispatcher"},
	{"duly.dev/duly/internal/sweep", "scheduler"},
	{"duly.dev/duly/internal/schedule", "scheduler"},
	{"duly.dev/duly/internal/contact", "scheduler"},
	{"github.com/nats-io/nats-server", "NATS server"},
	{"github.com/nats-io/nats.go", "NATS client"},
	{"github.com/jackc/pgx", "connections to PostgreSQL"},
	{"runtime.gcBgMarkWorker", "garbage collection"},
	{"runtime.bgsweep", "garbage collection"},
	{"runtime.bgscavenge", "garbage collection"},
	{"", "Go's scheduler, and the rest"},
}

// kinds of work, by the innermost function of a stack that is one of these.
var kinds = []rule{
	{"internal/runtime/syscall", "system calls"},
	{"runtime/internal/syscall", "system calls"},
	{"syscall.", "system calls"},
	{"runtime.futex", "system calls"},
	{"runtime.usleep", "system calls"},
	{"runtime.write1", "system calls"},
	{"runtime.nanotime", "clocks"},
	{"time.Now", "clocks"},
	{"runtime.gcAssistAlloc", "memory"},
	{"runtime.gcBgMarkWorker", "memory"},
	{"runtime.mallocgc", "memory"},
	{"runtime.newobject", "memory"},
	{"runtime.growslice", "memory"},
	{"runtime.makeslice", "memory"},
	{"runtime.bgsweep", "memory"},
	{"runtime.bgscavenge", "memory"},
	{"github.com/jackc/pgx", "driver (pgx)"},
	{"duly.dev/duly/internal/ledger", "ledger"},
	{"duly.dev/duly/internal/execute", "execute"},
	{"duly.dev/duly/internal/dispatch", "dispatch"},
	{"duly.dev/duly/internal/bus", "bus"},
	{"duly.dev/duly", "rest of Duly"},
	{"github.com/nats-io/nats.go", "NATS client"},
	{"github.com/nats-io/nats-server", "NATS server"},
	{"", "Go's scheduler, and the rest"},
}

// ofFrames is the group of the first frame that a rule knows.
func ofFrames(rules []rule, frames func(yield func(int, string) bool)) string {
	last := rules[len(rules)-1]
	for _, f := range frames {
		for _, r := range rules[:len(rules)-1] {
			if strings.HasPrefix(f, r.prefix) {
				return r.group
			}
		}
	}
	return last.group
}
