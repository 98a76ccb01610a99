package app

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is shipped to be copied must hold, without a warning.
func TestTheShippedConfigurationsAreValid(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"deploy/duly.yaml"} {
		c, err := LoadConfig(filepath.Join("..", "..", filepath.FromSlash(file)))
		require.NoError(t, err)
		require.Empty(t, c.Warnings(), file)
	}
}
