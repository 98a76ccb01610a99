package devstack

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestScratchOfAKilledProcessIsRemovedByTheNext(t *testing.T) {
	t.Parallel()
	parent := startParent(t, "-")
	require.DirExists(t, parent.folder)
	removeAbandoned("duly-postgres")
	require.DirExists(t, parent.folder, "a living process keeps its folder")
	parent.kill()
	removeAbandoned("duly-postgres")
	require.NoDirExists(t, parent.folder)
}

func TestScratchIsRemovedByItsOwner(t *testing.T) {
	t.Parallel()
	folder, remove, err := newScratch("duly-devstack-scratch")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "file"), nil, 0o600))
	require.NoError(t, remove())
	require.NoDirExists(t, folder)
}

func TestFolderLockExcludesAndEndsWithItsContext(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	lock, err := lockFolder(t.Context(), folder)
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = lockFolder(ctx, folder)
	require.ErrorIs(t, err, context.Canceled)

	require.NoError(t, lock.Close())
	again, err := lockFolder(t.Context(), folder)
	require.NoError(t, err)
	require.NoError(t, again.Close())
}
