package ledger

import (
	"embed"
	"fmt"
	"path"
	"strings"
)

//go:embed *.sql
var files embed.FS

// statements maps the name of every statement ("-- name: lease_refs") to its text.
var statements = mustLoad()

func mustLoad() map[string]string {
	all := make(map[string]string)
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(fmt.Errorf("reading the embedded statements: %w", err))
	}
	for _, e := range entries {
		text, err := files.ReadFile(path.Join(".", e.Name()))
		if err != nil {
			panic(fmt.Errorf("reading %s: %w", e.Name(), err))
		}
		for _, part := range strings.Split("\n"+string(text), "\n-- name: ")[1:] {
			name, body, _ := strings.Cut(part, "\n")
			name = strings.TrimSpace(name)
			if _, twice := all[name]; twice {
				panic("statement " + name + " is there twice")
			}
			all[name] = strings.TrimSpace(body)
		}
	}
	return all
}

// stmt returns the statement of the name; a missing one is a programming error.
func stmt(name string) string {
	s, ok := statements[name]
	if !ok {
		panic("no statement " + name)
	}
	return s
}
