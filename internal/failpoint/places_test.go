package failpoint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every place is in the list, in the code and on the page, and nothing else is.
func TestPlacesAreInTheListInTheCodeAndOnThePage(t *testing.T) {
	t.Parallel()
	names := constants(t)
	calls := callSites(t)
	listed := map[string]bool{}
	page := documented(t)
	for _, i := range Places() {
		name := names[i.Place]
		require.NotEmpty(t, name, "%s has no constant", i.Place)
		require.False(t, listed[name], "%s is listed twice", i.Place)
		listed[name] = true
		call := "Pass"
		if i.Err != "" {
			call = "At"
		}
		require.Contains(t, calls, name, "nothing passes %s", i.Place)
		require.Equal(t, []string{call}, calls[name], "%s is passed otherwise than the list says", i.Place)
		require.Equal(t, row(i), page[i.Place], "docs/proof.md on %s", i.Place)
		delete(page, i.Place)
	}
	require.Equal(t, slices.Sorted(maps.Values(names)), slices.Sorted(maps.Keys(listed)), "a constant is not in the list")
	for name := range calls {
		require.Contains(t, listed, name, "the code passes what is not in the list")
	}
	require.Empty(t, page, "docs/proof.md tells of places that there are not")
	require.GreaterOrEqual(t, len(listed), 20)
}

// row is how the page tells of a place.
func row(i Info) [2]string {
	err := string(i.Err)
	if err == "" {
		err = "–"
	}
	return [2]string{err, i.Where}
}

// constants are the names of the constants of places.go, by their values.
func constants(t *testing.T) map[Place]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "places.go", nil, 0)
	require.NoError(t, err)
	names := map[Place]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if typ, ok := spec.Type.(*ast.Ident); ok && typ.Name == "Place" {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			require.Empty(t, names[Place(value)], "two constants are %s", value)
			names[Place(value)] = spec.Names[0].Name
		}
		return true
	})
	return names
}

var call = regexp.MustCompile(`failpoint\.(At|Pass)\(failpoint\.(\w+)\)`)

// callSites are the functions by which the code passes each constant.
func callSites(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, folder := range []string{"internal", "pkg", "cmd"} {
		require.NoError(t, filepath.WalkDir(filepath.Join("..", "..", folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range call.FindAllStringSubmatch(string(text), -1) {
				if !slices.Contains(found[m[2]], m[1]) {
					found[m[2]] = append(found[m[2]], m[1])
				}
			}
			return err
		}))
	}
	return found
}

// documented are the rows of the page's table.
func documented(t *testing.T) map[Place][2]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "proof.md"))
	require.NoError(t, err)
	rows := map[Place][2]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z]+-[a-z]+)` \\| ([^|]*) \\| ([^|]*) \\|").FindAllStringSubmatch(string(text), -1) {
		rows[Place(m[1])] = [2]string{strings.Trim(m[2], "` "), strings.TrimSpace(m[3])}
	}
	return rows
}
