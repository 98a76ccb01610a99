package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPageIsHeldToWhatItsCommandsPrint(t *testing.T) {
	t.Parallel()
	const page = "# A page\n\n```sh\nx=one\necho \"$x   two\"\n```\n\nIt prints:\n\n```text\none two\n```\n\n```yaml\nnot: run\n```\n\n```sh\necho \"$x\"; echo three\n```\n```text\no…\nthree\n```\n"
	steps, err := stepsOf(page)
	require.NoError(t, err)
	require.Len(t, steps, 2)
	printed, err := shell(steps, t.TempDir(), t.TempDir())
	require.NoError(t, err)
	require.Equal(t, []string{"one   two\n", "one\nthree\n"}, printed)
	require.NoError(t, check(steps, printed))

	steps[0].prints = []string{"one three"}
	require.ErrorContains(t, check(steps, printed), "line 4 did not print: one three")
	steps[0].prints = nil
	steps[1].prints = []string{"three", "one"}
	require.ErrorContains(t, check(steps, printed), "did not print: one", "in their order")
	steps[0].commands = "false; echo never"
	_, err = shell(steps, t.TempDir(), t.TempDir())
	require.ErrorContains(t, err, "the commands at line 4 failed")
}

func TestAPageThatCannotBeRunIsRefused(t *testing.T) {
	t.Parallel()
	for page, want := range map[string]string{
		"text alone":              "no commands",
		"```text\nx\n```":         "output without commands",
		"```sh\necho no end here": "has no end",
	} {
		_, err := stepsOf(page)
		require.ErrorContains(t, err, want)
	}
}
