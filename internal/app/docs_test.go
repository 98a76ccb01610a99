package app

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// documentation is docs/configuration.md.
func documentation(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "configuration.md"))
	require.NoError(t, err)
	return string(text)
}

// keys lists the paths of all keys below a type, NAME standing for what the user names.
func keys(at string, t reflect.Type) []string {
	switch t.Kind() {
	case reflect.Pointer:
		return keys(at, t.Elem())
	case reflect.Map:
		return keys(at+".NAME", t.Elem())
	case reflect.Struct:
		var all []string
		for f := range t.Fields() {
			name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			if options == "inline" {
				all = append(all, keys(at, f.Type)...)
			}
			if name == "" {
				continue
			}
			path := strings.TrimPrefix(at+"."+name, ".")
			all = append(all, path)
			all = append(all, keys(path, f.Type)...)
		}
		return all
	default:
		return nil
	}
}

func TestTheDocumentationHasEveryKeyAndNoOther(t *testing.T) {
	t.Parallel()
	documented := []string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-zN][A-Za-z0-9_.]*)` \\|").FindAllStringSubmatch(documentation(t), -1) {
		documented = append(documented, m[1])
	}
	known := keys("", reflect.TypeFor[configFile]())
	slices.Sort(documented)
	slices.Sort(known)
	require.Equal(t, known, documented)
}

func TestTheDocumentationHasEveryFlagAndVariable(t *testing.T) {
	t.Parallel()
	text := documentation(t)
	parser, err := kong.New(&Settings{}, kong.Vars{"admin_addr": "", "log_format": "json"}, kong.Bind(&Process{}))
	require.NoError(t, err)
	for _, group := range parser.Model.AllFlags(true) {
		for _, flag := range group {
			if flag.Name == "help" {
				continue
			}
			require.Contains(t, text, "| `--"+flag.Name+"` | `"+strings.Join(flag.Envs, "")+"` |")
		}
	}
}

func TestTheExampleOfTheDocumentationIsValid(t *testing.T) {
	t.Parallel()
	example := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(documentation(t))
	require.NotNil(t, example)
	c := parse(t, example[1])
	require.Empty(t, c.Warnings())
	require.Len(t, c.Kinds(), 2)
}
