package lint

import (
	"bufio"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Problem is one broken rule.
type Problem struct {
	// Position is file:line relative to the root; the line is absent where the rule is about the whole file or package.
	Position string
	// Rule says what must be true and is not.
	Rule string
}

// String returns "position: rule", the form that editors can follow.
func (p Problem) String() string { return p.Position + ": " + p.Rule }

// file is one parsed Go file.
type file struct {
	name   string // relative to the root
	isTest bool
	ast    *ast.File
}

// pkg is the parsed files of one folder.
type pkg struct {
	path   string // relative to the module's root, "." for the root itself
	module string
	fset   *token.FileSet
	files  []file
}

// Check parses the module in root, whose go.mod must be there, and returns the problems in order of position, or
// an error when something cannot be read or parsed. Folders named testdata, those that begin with a dot or an
// underscore, and modules within the module are left out.
func Check(root fs.FS) ([]Problem, error) {
	module, err := modulePath(root)
	if err != nil {
		return nil, err
	}
	pkgs := map[string]*pkg{}
	fset := token.NewFileSet()
	var problems []Problem
	err = fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return enterDir(root, name)
		case strings.HasSuffix(name, ".go"):
			return addFile(root, pkgs, fset, module, name)
		case strings.HasSuffix(name, ".sql"):
			found, err := checkSQLFile(root, name)
			problems = append(problems, found...)
			return err
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the module %s: %w", module, err)
	}
	for _, name := range slices.Sorted(maps.Keys(pkgs)) {
		for _, check := range checks {
			problems = append(problems, check(pkgs[name])...)
		}
	}
	slices.SortStableFunc(problems, func(a, b Problem) int { return strings.Compare(a.Position, b.Position) })
	return problems, nil
}

func enterDir(root fs.FS, name string) error {
	base := path.Base(name)
	if name == "." {
		return nil
	}
	if base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return fs.SkipDir
	}
	switch _, err := fs.Stat(root, path.Join(name, "go.mod")); {
	case err == nil:
		return fs.SkipDir
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		return err
	}
}

func addFile(root fs.FS, pkgs map[string]*pkg, fset *token.FileSet, module, name string) error {
	source, err := fs.ReadFile(root, name)
	if err != nil {
		return err
	}
	parsed, err := parser.ParseFile(fset, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	dir := path.Dir(name)
	if pkgs[dir] == nil {
		pkgs[dir] = &pkg{path: dir, module: module, fset: fset}
	}
	pkgs[dir].files = append(pkgs[dir].files, file{name: name, isTest: strings.HasSuffix(name, "_test.go"), ast: parsed})
	return nil
}

func modulePath(root fs.FS) (string, error) {
	gomod, err := root.Open("go.mod")
	if err != nil {
		return "", fmt.Errorf("finding the module: %w", err)
	}
	defer gomod.Close()
	lines := bufio.NewScanner(gomod)
	for lines.Scan() {
		if name, found := strings.CutPrefix(lines.Text(), "module "); found {
			return strings.TrimSpace(name), nil
		}
	}
	if err := lines.Err(); err != nil {
		return "", fmt.Errorf("reading go.mod: %w", err)
	}
	return "", errors.New("go.mod has no module line")
}

// production returns the files that are compiled into programs.
func (p *pkg) production() []file {
	return slices.DeleteFunc(slices.Clone(p.files), func(f file) bool { return f.isTest })
}

// isProgram reports whether the package is compiled into a binary of its own.
func (p *pkg) isProgram() bool {
	return slices.ContainsFunc(p.production(), func(f file) bool { return f.ast.Name.Name == "main" })
}

// problem places a broken rule at a node.
func (p *pkg) problem(node ast.Node, rule string, args ...any) Problem {
	at := p.fset.Position(node.Pos())
	return Problem{Position: at.Filename + ":" + strconv.Itoa(at.Line), Rule: fmt.Sprintf(rule, args...)}
}

// imported returns the path of an import and, when it lies in this module, the path relative to the module's root.
func (p *pkg) imported(spec *ast.ImportSpec) (full, local string) {
	full, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return spec.Path.Value, ""
	}
	if full == p.module {
		return full, "."
	}
	if within, found := strings.CutPrefix(full, p.module+"/"); found {
		return full, within
	}
	return full, ""
}
