package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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
	source := sources(t)
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
		}
	}
	require.Positive(t, rules)
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
	require.NoError(t, filepath.WalkDir("../internal", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	}))
	return all.String()
}
