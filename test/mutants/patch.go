package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// proof is a test that must fail, by the folder of its package and its name.
type proof struct{ folder, test string }

func (p proof) String() string { return p.folder + " " + p.test }

// mutant is one weakening.
type mutant struct {
	name      string // of its file, without .patch
	says      string // what it weakens
	guarantee string
	proofs    []proof
	files     []string // that it changes, by their paths from the root of the repository
	patch     string   // the path of its file
}

// suffix ends the names of the files of mutants.
const suffix = ".patch"

var (
	guaranteeLine = regexp.MustCompile(`^Guarantee: (G\d+)$`)
	proofLine     = regexp.MustCompile(`^Caught-by: (\S+) (Test\w+)$`)
	changedLine   = regexp.MustCompile(`^\+\+\+ b/(\S+)`)
)

// readMutants reads the mutants of a folder in order of their names; what is wrong with any
// of them is told at once.
func readMutants(folder string) ([]mutant, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*"+suffix))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s: there is no mutant", folder)
	}
	slices.Sort(paths)
	var all []mutant
	var errs []error
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		m, err := parse(strings.TrimSuffix(filepath.Base(path), suffix), string(text))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", path, err))
			continue
		}
		m.patch = path
		all = append(all, m)
	}
	return all, errors.Join(errs...)
}

// parse reads a mutant: what it says, up to the first empty line, its lines of Guarantee and
// Caught-by, and what the patch below them changes.
func parse(name, text string) (mutant, error) {
	head, patch, found := strings.Cut(text, "\n--- a/")
	says, rest, _ := strings.Cut(head, "\n\n")
	m := mutant{name: name, says: strings.Join(strings.Fields(says), " ")}
	if !found || m.says == "" || guaranteeLine.MatchString(m.says) {
		return m, errors.New("it must begin with a sentence that says what it weakens, and end with a patch")
	}
	for line := range strings.Lines(rest) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
		case guaranteeLine.MatchString(line) && m.guarantee == "":
			m.guarantee = guaranteeLine.FindStringSubmatch(line)[1]
		case proofLine.MatchString(line):
			p := proofLine.FindStringSubmatch(line)
			m.proofs = append(m.proofs, proof{p[1], p[2]})
		default:
			return m, fmt.Errorf("%q: it must be one line of Guarantee, or one of Caught-by with a folder and a test", line)
		}
	}
	for line := range strings.Lines(patch) {
		if f := changedLine.FindStringSubmatch(line); f != nil {
			m.files = append(m.files, f[1])
		}
	}
	if m.guarantee == "" || len(m.proofs) == 0 || len(m.files) == 0 {
		return m, errors.New("it must name a guarantee and a test that catches it, and change a file")
	}
	return m, nil
}
