// Package docs_test holds the documents to what they speak of.
package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// documents are all texts that readers are led to, by their paths from this folder.
func documents(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	add := func(path string) {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		texts[path] = string(content)
	}
	add("../README.md")
	require.NoError(t, filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			add(path)
		}
		return err
	}))
	return texts
}

var link = regexp.MustCompile(`\]\(([^)#]+)(#[^)]*)?\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	for path, text := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			_, err := os.Stat(filepath.Join(filepath.Dir(path), m[1]))
			require.NoError(t, err, "%s links to %s", path, m[1])
		}
	}
}

// What architecture.md names as a place is one.
func TestPlacesThatAreNamedExist(t *testing.T) {
	t.Parallel()
	named := regexp.MustCompile("`((?:cmd|internal|pkg|docs|migrations|examples)/[a-z0-9/_.-]*)`")
	for path, text := range documents(t) {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			_, err := os.Stat(filepath.Join("..", m[1]))
			require.NoError(t, err, "%s names %s", path, m[1])
		}
	}
}

func TestEveryDecisionIsListed(t *testing.T) {
	t.Parallel()
	list, err := os.ReadFile("adr/README.md")
	require.NoError(t, err)
	files, err := filepath.Glob("adr/[0-9]*.md")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		require.Contains(t, string(list), "("+filepath.Base(f)+")")
	}
}

// Every direct requirement of the product and of the comparison is explained, and nothing
// else is.
func TestEveryDependencyIsExplained(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("dependencies.md")
	require.NoError(t, err)
	required := map[string]bool{}
	for _, file := range []string{"../go.mod", "../bench/go.mod"} {
		mod, err := os.ReadFile(file)
		require.NoError(t, err)
		for line := range strings.Lines(string(mod)) {
			fields := strings.Fields(line)
			if len(fields) >= 2 && strings.HasPrefix(fields[1], "v") && strings.Contains(fields[0], ".") && fields[0] != "duly.dev/duly" {
				required[fields[0]] = required[fields[0]] || !strings.HasSuffix(strings.TrimSpace(line), "// indirect")
			}
		}
	}
	for module, direct := range required {
		if direct {
			require.Contains(t, string(text), "`"+module+"`")
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(string(text), -1) {
		require.Contains(t, required, m[1], "dependencies.md explains what go.mod does not require")
	}
}
