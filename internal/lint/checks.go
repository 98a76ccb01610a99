package lint

import (
	"go/ast"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// checks are the rules about one package of Go files.
var checks = []func(*pkg) []Problem{
	checkDirection,
	checkTechnologies,
	checkTestOnly,
	checkDevstack,
	checkPurity,
	checkSQLText,
	checkPackageDoc,
	checkExportedDocs,
}

// checkDirection: a package imports of this module only what its layer allows.
func checkDirection(p *pkg) []Problem {
	if isTestPackage(p.path) {
		return nil
	}
	allowed := layerOf(p)
	return p.eachImport(func(spec *ast.ImportSpec, _, local string) []Problem {
		switch {
		case local == "", matchAny(allowed.imports, local):
			return nil
		case isHelper(local) && !allowed.strict:
			return nil
		}
		return []Problem{p.problem(spec, "%s must not import %s: %s", p.path, local, allowed.why)}
	})
}

// checkTechnologies: loops and pure cores know no database and no broker.
func checkTechnologies(p *pkg) []Problem {
	if !matchAny(loops, p.path) && !matchAny(pureCores, p.path) {
		return nil
	}
	return p.eachImport(func(spec *ast.ImportSpec, full, _ string) []Problem {
		if !matchAny(technologies, full) {
			return nil
		}
		return []Problem{p.problem(spec, "%s must not import %s: loops and pure cores know no database and no broker", p.path, full)}
	})
}

// checkTestOnly: what exists for tests is not linked into programs.
func checkTestOnly(p *pkg) []Problem {
	if isTestPackage(p.path) {
		return nil
	}
	return p.eachImport(func(spec *ast.ImportSpec, full, local string) []Problem {
		if !matchAny(testOnly, full) && (local == "" || !isTestPackage(local)) {
			return nil
		}
		return []Problem{p.problem(spec, "%s must not import %s outside its _test.go files: it exists for tests", p.path, full)}
	})
}

// checkDevstack: the embedded servers start only where a newcomer or a test asks for them.
func checkDevstack(p *pkg) []Problem {
	if matchAny(devstackUsers, p.path) || isTestPackage(p.path) {
		return nil
	}
	return p.eachImport(func(spec *ast.ImportSpec, full, local string) []Problem {
		if !match("internal/devstack/...", local) && !matchAny(embeddedServers, full) {
			return nil
		}
		return []Problem{p.problem(spec, "%s must not import %s: embedded servers are for cmd/duly, internal/demo, internal/eval and tests", p.path, full)}
	})
}

// checkPurity: a pure core touches nothing outside and reads neither clock nor dice.
func checkPurity(p *pkg) []Problem {
	if !matchAny(pureCores, p.path) {
		return nil
	}
	problems := p.eachImport(func(spec *ast.ImportSpec, full, _ string) []Problem {
		if !matchAny(sideEffects, full) || slices.Contains(harmless, full) {
			return nil
		}
		return []Problem{p.problem(spec, "%s must not import %s: a pure core does no I/O", p.path, full)}
	})
	for _, f := range p.production() {
		names := importNames(f.ast)
		ast.Inspect(f.ast, func(node ast.Node) bool {
			selector, isSelector := node.(*ast.SelectorExpr)
			if !isSelector {
				return true
			}
			base, isName := selector.X.(*ast.Ident)
			if !isName {
				return true
			}
			if used := names[base.Name]; isImpure(used, selector.Sel.Name) {
				problems = append(problems, p.problem(selector, "%s must not use %s.%s: a pure core is given the time and its dice", p.path, used, selector.Sel.Name))
			}
			return true
		})
	}
	return problems
}

// isImpure reports whether a function of the standard library reads the clock or the process-wide dice.
func isImpure(imported, name string) bool {
	switch imported {
	case "time":
		return slices.Contains(clock, name)
	case "math/rand", "math/rand/v2":
		return !slices.Contains(diceFree, name)
	default:
		return false
	}
}

// importNames maps the names that a file uses for the standard library's packages to their paths.
func importNames(f *ast.File) map[string]string {
	names := map[string]string{}
	for _, spec := range f.Imports {
		full, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		name := path.Base(full)
		if full == "math/rand/v2" {
			name = "rand"
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = full
	}
	return names
}

// sqlText finds a statement in a string: one that begins like SQL in either case, or has SQL's words in capitals.
var sqlText = regexp.MustCompile(`^\s*(SELECT\s|select\s[^.]*\sfrom\s|with\s+\w+\s+as\s+\(|WITH\s+\w+\s+AS\s+\()` +
	`|\bSELECT\s[^.]*\sFROM\s` +
	`|\b(INSERT\s+INTO|DELETE\s+FROM)\s` +
	`|^\s*(insert\s+into|delete\s+from)\s` +
	`|\b(UPDATE\s+\S+(\s+AS)?(\s+\w+)?\s+SET|update\s+\S+(\s+as)?(\s+\w+)?\s+set)\s` +
	`|\b(CREATE|ALTER|DROP|TRUNCATE)\s+(TABLE|INDEX|SCHEMA|FUNCTION)\s`)

// checkSQLText: SQL lives in the ledger and the migrations, nowhere else.
func checkSQLText(p *pkg) []Problem {
	if matchAny(sqlHomes, p.path) || isTestPackage(p.path) {
		return nil
	}
	var problems []Problem
	tags := map[*ast.BasicLit]bool{} // help texts of flags are prose
	for _, f := range p.production() {
		ast.Inspect(f.ast, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.Field:
				tags[node.Tag] = true
			case *ast.BasicLit:
				if node.Kind != token.STRING || tags[node] {
					return false
				}
				if text, err := strconv.Unquote(node.Value); err == nil && sqlText.MatchString(text) {
					problems = append(problems, p.problem(node, "%s must not contain SQL: it belongs into a .sql file of internal/ledger", p.path))
				}
			}
			return true
		})
	}
	return problems
}

// checkSQLFile: a .sql file lies in one of SQL's homes, and each of the ledger's statements states its contract in a
// comment: the lines between "-- name: …" and the statement.
func checkSQLFile(root fs.FS, name string) ([]Problem, error) {
	dir := path.Dir(name)
	if !matchAny(sqlHomes, dir) {
		return []Problem{{Position: name, Rule: "SQL belongs into internal/ledger or migrations"}}, nil
	}
	if !match("internal/ledger/...", dir) {
		return nil, nil
	}
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return nil, err
	}
	var problems []Problem
	lines := strings.Split(string(text), "\n")
	if !strings.HasPrefix(lines[0], "--") {
		problems = append(problems, Problem{Position: name + ":1", Rule: "must begin with a comment"})
	}
	for i, line := range lines[:len(lines)-1] {
		statement, isName := strings.CutPrefix(line, "-- name: ")
		if isName && !isComment(lines[i+1]) {
			problems = append(problems, Problem{
				Position: name + ":" + strconv.Itoa(i+1),
				Rule:     statement + " must state its contract in a comment above the statement",
			})
		}
	}
	return problems, nil
}

func isComment(line string) bool {
	return strings.HasPrefix(line, "--") && !strings.HasPrefix(line, "-- name: ")
}

// checkPackageDoc: every package explains its idea.
func checkPackageDoc(p *pkg) []Problem {
	files := p.production()
	documented := func(f file) bool { return f.ast.Doc != nil && strings.TrimSpace(f.ast.Doc.Text()) != "" }
	if len(files) == 0 || slices.ContainsFunc(files, documented) {
		return nil
	}
	return []Problem{{Position: p.path, Rule: "the package has no doc comment"}}
}

// checkExportedDocs: whatever users import is documented, symbol by symbol.
func checkExportedDocs(p *pkg) []Problem {
	if !match("pkg/...", p.path) {
		return nil
	}
	var problems []Problem
	for _, f := range p.production() {
		for _, decl := range f.ast.Decls {
			for _, name := range undocumented(decl) {
				problems = append(problems, p.problem(name, "exported %s has no doc comment", name.Name))
			}
		}
	}
	return problems
}

// undocumented returns the exported names of a declaration that no comment describes. A comment on a group of
// constants or variables describes them all; types and functions need their own.
func undocumented(decl ast.Decl) []*ast.Ident {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Doc == nil && decl.Name.IsExported() && exportedReceiver(decl) {
			return []*ast.Ident{decl.Name}
		}
	case *ast.GenDecl:
		var names []*ast.Ident
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				own := spec.Doc != nil || !decl.Lparen.IsValid() && decl.Doc != nil
				if !own && spec.Name.IsExported() {
					names = append(names, spec.Name)
				}
			case *ast.ValueSpec:
				if decl.Doc == nil && spec.Doc == nil && spec.Comment == nil {
					names = append(names, slices.DeleteFunc(slices.Clone(spec.Names), func(n *ast.Ident) bool { return !n.IsExported() })...)
				}
			}
		}
		return names
	}
	return nil
}

// exportedReceiver reports whether a function is no method, or one of an exported type.
func exportedReceiver(decl *ast.FuncDecl) bool {
	if decl.Recv == nil || len(decl.Recv.List) == 0 {
		return true
	}
	receiver := decl.Recv.List[0].Type
	for {
		switch t := receiver.(type) {
		case *ast.StarExpr:
			receiver = t.X
		case *ast.IndexExpr:
			receiver = t.X
		case *ast.IndexListExpr:
			receiver = t.X
		case *ast.Ident:
			return t.IsExported()
		default:
			return true
		}
	}
}

// eachImport collects the problems of every import in the production files.
func (p *pkg) eachImport(check func(spec *ast.ImportSpec, full, local string) []Problem) []Problem {
	var problems []Problem
	for _, f := range p.production() {
		for _, spec := range f.ast.Imports {
			full, local := p.imported(spec)
			problems = append(problems, check(spec, full, local)...)
		}
	}
	return problems
}
