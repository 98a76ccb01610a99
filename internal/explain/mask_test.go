package explain_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/explain"
)

func TestG13MaskedDestinationsShowTheReceiverAndNotThePerson(t *testing.T) {
	t.Parallel()
	for destination, want := range map[string]string{
		"":                                      "",
		"ann@example.com":                       "a…@example.com",
		"élise@example.com":                     "é…@example.com",
		"https://u:pw@hooks.example.com/x?t=s#": "https://hooks.example.com/…",
		"+33 6 12 34 56 78":                     "+…",
		"@":                                     "@…",
	} {
		require.Equal(t, want, explain.Mask(destination))
	}
}
