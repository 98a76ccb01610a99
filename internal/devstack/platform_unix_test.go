//go:build unix

package devstack

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func processGroup(t *testing.T, pid int) int {
	t.Helper()
	group, err := syscall.Getpgid(pid)
	require.NoError(t, err)
	return group
}
