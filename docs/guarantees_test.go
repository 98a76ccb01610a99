package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// proof is a test, by the folder of its package and its name.
type proof struct{ folder, name string }

func (p proof) String() string { return p.folder + " " + p.name }

var (
	ids = regexp.MustCompile(`^Test((?:[GC]\d+)+)`)
	id  = regexp.MustCompile(`[GC]\d+`)
)

// namedAfter are the guarantees and cases that the test is named after.
func (p proof) namedAfter() []string { return id.FindAllString(ids.FindString(p.name), -1) }

// proofs are the tests of the repository, and the cases of suites, which are named by the
// keys of maps of functions outside of tests.
func proofs(t *testing.T) map[proof]bool {
	t.Helper()
	all := map[proof]bool{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			if entry != nil && entry.IsDir() && path != ".." && strings.HasPrefix(entry.Name(), ".") {
				return fs.SkipDir
			}
			return err
		}
		folder := filepath.ToSlash(strings.TrimPrefix(filepath.Dir(path), ".."+string(filepath.Separator)))
		suite := folder == "internal/bus/bustest" && strings.HasSuffix(path, ".go")
		if !suite && !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parsing %s: %w", path, err)
		}
		for _, name := range testsOf(file, suite) {
			all[proof{folder, name}] = true
		}
		return nil
	})
	require.NoError(t, err)
	return all
}

// testsOf are the tests that a file declares, and in a suite its cases.
func testsOf(file *ast.File, suite bool) (names []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv == nil && strings.HasPrefix(n.Name.Name, "Test") {
				names = append(names, n.Name.Name)
			}
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.BasicLit); ok && suite && key.Kind == token.STRING {
				name, err := strconv.Unquote(key.Value)
				if err == nil {
					names = append(names, name)
				}
			}
		}
		return true
	})
	return names
}

// claim is what guarantees.md says about one guarantee or case.
type claim struct {
	id     string
	proofs []proof
}

// claims reads guarantees.md: a guarantee is a heading with a list of proofs below it, a
// case is a line of the table. A proof is a name in backticks behind the folder of its
// package.
func claims(t *testing.T) (all []claim) {
	t.Helper()
	text, err := os.ReadFile("guarantees.md")
	require.NoError(t, err)
	begins := regexp.MustCompile(`^(?:### (G\d+) |\| (C\d+) \|)`)
	quoted := regexp.MustCompile("`([^`]+)`(:?)")
	var folder string
	for line := range strings.Lines(string(text)) {
		part := line
		switch m := begins.FindStringSubmatch(line); {
		case strings.HasPrefix(line, "#") && m == nil:
			folder = "" // what follows proves nothing
			continue
		case m != nil:
			all = append(all, claim{id: m[1] + m[2]})
			folder, part = "", line[strings.LastIndex(line, " | ")+1:]
		}
		for _, m := range quoted.FindAllStringSubmatch(part, -1) {
			switch {
			case m[2] == ":":
				folder = m[1]
			case folder != "":
				last := &all[len(all)-1]
				last.proofs = append(last.proofs, proof{folder, m[1]})
			}
		}
	}
	return all
}

func TestWhatProvesAGuaranteeExists(t *testing.T) {
	t.Parallel()
	there := proofs(t)
	for _, c := range claims(t) {
		for _, p := range c.proofs {
			require.True(t, there[p], "guarantees.md: %s is proved by %s, which is not there", c.id, p)
		}
	}
}

// Each guarantee and case has a proof, and each guarantee one that is named after it.
func TestEveryGuaranteeHasATestOfItsName(t *testing.T) {
	t.Parallel()
	claimed := map[string]bool{}
	for _, c := range claims(t) {
		require.False(t, claimed[c.id], "guarantees.md speaks of %s twice", c.id)
		claimed[c.id] = true
		require.NotEmpty(t, c.proofs, "guarantees.md: nothing proves %s", c.id)
		named := false
		for _, p := range c.proofs {
			named = named || slices.Contains(p.namedAfter(), c.id)
		}
		require.True(t, named || strings.HasPrefix(c.id, "C"), "guarantees.md: no test is named after %s", c.id)
	}
	for _, id := range []string{"G1", "G2", "G3", "G4", "G5", "G6", "G7", "G8", "G9", "G12", "G13", "G14"} {
		require.True(t, claimed[id], "guarantees.md: %s is missing", id)
	}
}

// Whoever names a test after a guarantee or a case finds it in guarantees.md.
func TestEveryTestThatIsNamedAfterAGuaranteeIsListed(t *testing.T) {
	t.Parallel()
	listed := map[string]bool{}
	for _, c := range claims(t) {
		for _, p := range c.proofs {
			listed[c.id+" "+p.String()] = true
		}
	}
	var missing []string
	for p := range proofs(t) {
		for _, id := range p.namedAfter() {
			if !listed[id+" "+p.String()] {
				missing = append(missing, id+" is proved by "+p.String())
			}
		}
	}
	slices.Sort(missing)
	require.Empty(t, missing, "add these to docs/guarantees.md")
}
