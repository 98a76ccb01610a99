package devstack

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPostgresDiesWithItsParent(t *testing.T) {
	t.Parallel()
	parent := startParent(t, "-")
	conn := connect(t, parent.url)
	parent.kill()
	_, err := conn.Exec(t.Context(), "select pg_sleep(600)")
	require.Error(t, err)
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(parent.folder, clusterName, "postmaster.pid"))
		return errors.Is(err, fs.ErrNotExist)
	}, time.Minute, 20*time.Millisecond, "the last that a server does is to remove this file")
	removeAbandoned("duly-postgres")
	require.NoDirExists(t, parent.folder)
}

func TestPostgresOfAKilledParentGivesItsDataToTheNext(t *testing.T) {
	t.Parallel()
	dir := reachableDir(t)
	parent := startParent(t, dir)
	conn := connect(t, parent.url)
	_, err := conn.Exec(t.Context(), "create table kept as select 42 as n")
	require.NoError(t, err)
	parent.kill()

	// The old server may still be shutting down.
	next := start(t, PostgresOptions{DataDir: dir, UnsafeNoSync: true})
	var n int
	require.NoError(t, connect(t, next.URL()).QueryRow(t.Context(), "select n from kept").Scan(&n))
	require.Equal(t, 42, n)
}
