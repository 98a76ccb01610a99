package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPartTakesThePlaceOfItsFormerSelf(t *testing.T) {
	t.Parallel()
	p := part{document: "performance.md", name: "flat", text: "one\n"}
	first, err := p.in("# Performance\n\nby hand\n")
	require.NoError(t, err)
	require.Equal(t, "# Performance\n\nby hand\n\n"+p.begin()+"\none\n"+p.end()+"\n", first)

	p.text = "two"
	second, err := p.in(first + "\nbehind\n")
	require.NoError(t, err)
	require.Equal(t, "# Performance\n\nby hand\n\n"+p.begin()+"\ntwo\n"+p.end()+"\n\nbehind\n", second)
}

func TestPartThatDoesNotEndIsRefused(t *testing.T) {
	t.Parallel()
	p := part{document: "performance.md", name: "flat", text: "one"}
	_, err := p.in(p.begin() + "\nthe end is missing")
	require.ErrorContains(t, err, "flat does not end")
}

func TestPublishWritesBothForms(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, publish(folder, part{"a.md", "flat", "text"}, map[string]int{"n": 1}))
	require.NoError(t, publish(folder, part{"a.md", "other", "more"}, 2))
	text, err := os.ReadFile(filepath.Join(folder, "a.md"))
	require.NoError(t, err)
	require.Contains(t, string(text), "text")
	require.Contains(t, string(text), "more")
	text, err = os.ReadFile(filepath.Join(folder, "flat.json"))
	require.NoError(t, err)
	require.JSONEq(t, `{"n":1}`, string(text))
}
