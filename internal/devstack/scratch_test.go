package devstack

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestScratchOfAKilledProcessIsRemovedByTheNext(t *testing.T) {
	t.Parallel()
	parent := startParent(t, "-")
	require.DirExists(t, parent.folder)
	removeAbandoned("duly-postgres")
	require.DirExists(t, parent.folder, "a living process keeps its folder")
	parent.kill()
	require.Eventually(t, func() bool { // its server may still be shutting down
		removeAbandoned("duly-postgres")
		_, err := os.Stat(parent.folder)
		return errors.Is(err, fs.ErrNotExist)
	}, time.Minute, 50*time.Millisecond)
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
