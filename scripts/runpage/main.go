// Runpage runs the commands of a page, so that it cannot say what does not work:
//
//	go run ./scripts/runpage docs/digest.md
//
// The blocks marked sh run one after the other in one shell that ends at the first failure,
// in an empty folder, with the programs of this repository on the path. A block marked text
// that follows is of what such a block prints: each of its lines must be among those that
// were printed since the block of commands before it began, in their order; … stands for
// anything.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: runpage PAGE.md")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "runpage:", err)
		os.Exit(1)
	}
}

func run(page string) (err error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	steps, err := stepsOf(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	folder, err := os.MkdirTemp("", "duly-page-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if err := os.Chmod(folder, 0o711); err != nil { //nolint:gosec // servers under other users enter it
		return err
	}
	bin := filepath.Join(folder, "bin")
	build := exec.Command("go", "build", "-o", bin+"/", "./cmd/...")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building the programs: %w", err)
	}
	output, ran := shell(steps, folder, bin)
	return errors.Join(ran, check(steps, output))
}

// step is a block of commands with the lines that they must print.
type step struct {
	line     int // of the page
	commands string
	prints   []string
}

// stepsOf reads the blocks of a page.
func stepsOf(page string) ([]step, error) {
	var steps []step
	lines := strings.Split(page, "\n")
	for i := 0; i < len(lines); i++ {
		language, is := strings.CutPrefix(lines[i], "```")
		if !is {
			continue
		}
		from := i + 1
		for i++; i < len(lines) && lines[i] != "```"; i++ {
		}
		if i == len(lines) {
			return nil, fmt.Errorf("line %d: the block has no end", from)
		}
		block := lines[from:i]
		switch language {
		case "sh":
			steps = append(steps, step{line: from, commands: strings.Join(block, "\n")})
		case "text":
			if len(steps) == 0 {
				return nil, fmt.Errorf("line %d: output without commands before it", from)
			}
			steps[len(steps)-1].prints = append(steps[len(steps)-1].prints, block...)
		}
	}
	if len(steps) == 0 {
		return nil, errors.New("there are no commands")
	}
	return steps, nil
}

// mark is printed before each step, so that it is known what printed what.
const mark = "\x1e runpage step "

// shell runs the steps and returns what each printed. What runs in the background is ended
// with it.
func shell(steps []step, folder, bin string) ([]string, error) {
	var script strings.Builder
	script.WriteString("set -euo pipefail\ntrap 'for j in $(jobs -p); do kill \"$j\" 2>/dev/null || true; done; wait' EXIT\n")
	for _, s := range steps {
		fmt.Fprintf(&script, "printf '%s\\n'\n%s\n", mark, s.commands)
	}
	var printed bytes.Buffer
	bash := exec.Command("bash", "-c", script.String())
	bash.Dir = folder
	bash.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	bash.Stdout = io.MultiWriter(&printed, os.Stdout)
	bash.Stderr = bash.Stdout
	err := bash.Run()
	parts := strings.Split(printed.String(), mark+"\n")[1:]
	if err != nil && len(parts) > 0 {
		err = fmt.Errorf("the commands at line %d failed: %w", steps[len(parts)-1].line+1, err)
	}
	return parts, err
}

// check says which lines were not printed.
func check(steps []step, printed []string) error {
	var errs []error
	for i, s := range steps {
		if i >= len(printed) {
			break
		}
		rest := strings.Split(printed[i], "\n")
		for _, want := range s.prints {
			if strings.TrimSpace(want) == "" {
				continue
			}
			pattern := patternOf(want)
			at := 0
			for at < len(rest) && !pattern.MatchString(spaced(rest[at])) {
				at++
			}
			if at == len(rest) {
				errs = append(errs, fmt.Errorf("the commands at line %d did not print: %s", s.line+1, want))
				continue
			}
			rest = rest[at+1:]
		}
	}
	return errors.Join(errs...)
}

// patternOf matches a line; columns may be as wide as they like.
func patternOf(line string) *regexp.Regexp {
	parts := strings.Split(spaced(line), "…")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$")
}

func spaced(line string) string { return strings.Join(strings.Fields(line), " ") }
