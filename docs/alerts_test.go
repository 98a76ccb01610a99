package docs_test

import (
	"fmt"
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

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"
)

// An alert on a metric that nobody exports never fires.
func TestAlertsWatchMetricsThatExistAndSayWhatToDo(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../deploy/alerts.yml")
	require.NoError(t, err)
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &file))
	source, makers := sources(t), metricMakers(t)
	rules := 0
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			rules++
			require.NotEmpty(t, r.Annotations["summary"], r.Alert)
			require.NotEmpty(t, r.Annotations["action"], r.Alert)
			names := regexp.MustCompile(`duly_[a-z_]+`).FindAllString(r.Expr, -1)
			require.NotEmpty(t, names, r.Alert)
			for _, name := range names {
				require.True(t, exported(source, name), "%s watches %s, which no source names", r.Alert, name)
			}
			requireLabels(t, makers, r.Alert, r.Expr, names, strings.Join(slices.Collect(maps.Values(r.Annotations)), " "))
		}
	}
	require.Positive(t, rules)
}

var (
	grouping = regexp.MustCompile(`\bby \(([a-z_, ]+)\)`)
	shown    = regexp.MustCompile(`\$labels\.([a-z_]+)`)
)

// requireLabels checks that the rule groups by labels that its metrics have, and shows no
// others: Prometheus takes those that are not there for empty, and folds all into one.
func requireLabels(t *testing.T, makers []maker, alert, expr string, names []string, annotations string) {
	t.Helper()
	grouped := map[string]bool{}
	for _, by := range grouping.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(by[1], ",") {
			label = strings.TrimSpace(label)
			grouped[label] = true
			for _, name := range names {
				require.True(t, labelled(makers, name, label), "%s groups by %s, and %s has no such label", alert, label, name)
			}
		}
	}
	for _, label := range shown.FindAllStringSubmatch(annotations, -1) {
		if len(grouped) > 0 {
			require.True(t, grouped[label[1]], "%s shows the label %s, by which it does not group", alert, label[1])
		}
	}
}

// maker is a call, in source that is shipped, that may make a metric: the words that stand
// in it, and in the function that it calls.
type maker struct{ own, all map[string]bool }

// labelled reports whether the label stands where the metric is made.
func labelled(makers []maker, name, label string) bool {
	for range 3 {
		found := false
		for _, m := range makers {
			if m.own[name] {
				found = true
				if m.all[label] {
					return true
				}
			}
		}
		if found {
			return false
		}
		_, name, _ = strings.Cut(name, "_")
	}
	return false
}

// metricMakers are all calls with words in them.
func metricMakers(t *testing.T) []maker {
	t.Helper()
	var all []maker
	eachSource(t, func(path string, text []byte) {
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		require.NoError(t, err)
		helpers := map[string]ast.Node{} // functions of this file, by name
		ast.Inspect(file, func(n ast.Node) bool {
			if a, ok := n.(*ast.AssignStmt); ok && len(a.Lhs) == 1 {
				if f, ok := a.Rhs[0].(*ast.FuncLit); ok {
					helpers[fmt.Sprint(a.Lhs[0])] = f
				}
			}
			return true
		})
		ast.Inspect(file, func(n ast.Node) bool {
			if c, ok := n.(*ast.CallExpr); ok {
				m := maker{own: words(c), all: words(c)}
				if f := helpers[fmt.Sprint(c.Fun)]; f != nil {
					maps.Copy(m.all, words(f))
				}
				all = append(all, m)
			}
			return true
		})
	})
	return all
}

// words are the strings in the node, other calls in it left out.
func words(node ast.Node) map[string]bool {
	all := map[string]bool{}
	ast.Inspect(node, func(n ast.Node) bool {
		if _, ok := n.(*ast.CallExpr); ok && n != node {
			_, whole := node.(*ast.CallExpr)
			return !whole
		}
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			if word, err := strconv.Unquote(l.Value); err == nil {
				all[word] = true
			}
		}
		return true
	})
	return all
}

// exported reports whether the source names the metric: whole, or without its
// namespace, or without namespace and subsystem.
func exported(source, name string) bool {
	rest := name
	for range 3 {
		if strings.Contains(source, `"`+rest+`"`) {
			return true
		}
		_, rest, _ = strings.Cut(rest, "_")
	}
	return false
}

// sources is all Go that is shipped.
func sources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	eachSource(t, func(_ string, text []byte) { all.Write(text) })
	return all.String()
}

func eachSource(t *testing.T, do func(path string, text []byte)) {
	t.Helper()
	require.NoError(t, filepath.WalkDir("../internal", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		do(path, text)
		return err
	}))
}
