package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// fate is what became of a test.
type fate int

const (
	neverRan fate = iota
	passed
	failed
)

// tested is what came of one call of go test.
type tested struct {
	fates  map[string]fate
	broken string // why the tests could not be built; empty where they were
	output string // of the tests
}

// event is a line of go test -json.
type event struct {
	Action, Test, Output, FailedBuild string
}

// testLimit bounds one call of go test; a weakened program may wait for ever.
const testLimit = 4 * time.Minute

// goTest runs tests of one package of the module at root, with the overlay where one is
// given.
func goTest(ctx context.Context, root, folder string, tests []string, overlay string) (tested, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*testLimit)
	defer cancel()
	args := []string{"test", "-json", "-count=1", "-vet=off", "-timeout", testLimit.String(), "-run", "^(" + strings.Join(tests, "|") + ")$", "./" + folder}
	if randomised(filepath.Join(root, folder)) {
		args = append(args, "-rapid.nofailfile") // what fails here is no lesson for later runs
	}
	test := exec.CommandContext(ctx, "go", args...)
	test.Dir = root
	test.Env = os.Environ()
	if overlay != "" {
		test.Env = append(test.Env, "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+overlay))
	}
	var errors bytes.Buffer
	test.Stderr = &errors
	test.WaitDelay = 10 * time.Second
	said, err := test.Output()
	result, parseErr := readEvents(said)
	switch exit := (*exec.ExitError)(nil); {
	case ctx.Err() != nil:
		return result, fmt.Errorf("go test ./%s: %w", folder, ctx.Err())
	case parseErr != nil:
		return result, fmt.Errorf("go test ./%s: %w: %s", folder, parseErr, errors.String())
	case err != nil && !asExit(err, &exit):
		return result, fmt.Errorf("go test ./%s: %w", folder, err)
	case err != nil && result.broken == "" && len(result.fates) == 0:
		result.broken = strings.TrimSpace(errors.String() + result.output)
	}
	return result, nil
}

func asExit(err error, exit **exec.ExitError) bool { return errors.As(err, exit) }

// readEvents reads the output of go test -json. A test that was started and has no end did
// not pass: its program died, or was ended, in it.
func readEvents(said []byte) (tested, error) {
	result := tested{fates: map[string]fate{}}
	var output, build strings.Builder
	lines := json.NewDecoder(bytes.NewReader(said))
	for {
		var e event
		if err := lines.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return result, err
		}
		switch e.Action {
		case "build-output":
			build.WriteString(e.Output)
		case "build-fail":
			result.broken = strings.TrimSpace(build.String())
		case "output":
			output.WriteString(e.Output)
		case "run", "fail":
			if e.Test != "" {
				result.fates[e.Test] = failed
			}
		case "pass":
			if e.Test != "" {
				result.fates[e.Test] = passed
			}
		case "skip":
			delete(result.fates, e.Test)
		}
		if e.FailedBuild != "" && result.broken == "" {
			result.broken = strings.TrimSpace(build.String() + e.FailedBuild + " could not be built")
		}
	}
	result.output = output.String()
	return result, nil
}

// randomised reports whether the tests of a folder use rapid.
func randomised(folder string) bool {
	files, _ := filepath.Glob(filepath.Join(folder, "*_test.go"))
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && bytes.Contains(text, []byte(`"pgregory.net/rapid"`))
	})
}

// refused is what PostgreSQL says of a statement that it cannot read, or that names what is
// not there.
var refused = regexp.MustCompile(`SQLSTATE 42\w{3}`)

// unreadable is what the database refused to read, "" where it read everything: a weakened
// statement that cannot be run at all weakens nothing.
func (t tested) unreadable() string {
	at := refused.FindStringIndex(t.output)
	if at == nil {
		return ""
	}
	line := t.output[strings.LastIndexByte(t.output[:at[0]], '\n')+1 : at[1]]
	return strings.TrimSpace(line)
}

// complaint is the first line in which a failed test says what it found; "" where it says
// nothing that is known.
func (t tested) complaint() string {
	for _, mark := range []string{"Messages:", "Error:", "panic:", "[rapid]", "test timed out"} {
		for line := range strings.Lines(t.output) {
			if _, said, ok := strings.Cut(line, mark); ok && strings.TrimSpace(said) != "" {
				return strings.Join(strings.Fields(said), " ")
			}
		}
	}
	for line := range strings.Lines(t.output) {
		if _, said, ok := strings.Cut(line, "_test.go:"); ok {
			_, said, _ = strings.Cut(said, ": ")
			return strings.Join(strings.Fields(said), " ")
		}
	}
	return ""
}
