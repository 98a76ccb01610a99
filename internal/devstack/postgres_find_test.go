package devstack

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// programs makes a folder with an initdb and a postgres that says its version. No process
// is started while they are written: it would hold them open, and what is open for writing
// cannot be run ("text file busy").
func programs(t *testing.T, says string) string {
	t.Helper()
	folder := reachableDir(t)
	script := fmt.Sprintf("#!/bin/sh\necho '%s'\n", says)
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	for _, name := range []string{"initdb", "postgres"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(script), 0o755))
	}
	return folder
}

func TestProbeReadsEveryFormOfVersion(t *testing.T) {
	t.Parallel()
	for says, want := range map[string]binaries{
		"postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)": {version: "15.14", major: 15},
		"postgres (PostgreSQL) 18.3":                           {version: "18.3", major: 18},
		"postgres (PostgreSQL) 19beta1":                        {version: "19beta1", major: 19},
	} {
		want.folder = programs(t, says)
		found, err := probe(t.Context(), want.folder, nil, 0)
		require.NoError(t, err, says)
		require.Equal(t, want, found, says)
	}
}

func TestProbeSaysWhyItRefuses(t *testing.T) {
	t.Parallel()
	_, err := probe(t.Context(), programs(t, "postgres (PostgreSQL) 14.9"), nil, 0)
	require.ErrorContains(t, err, "version 14.9 is too old, Duly needs 15 or later")
	_, err = probe(t.Context(), programs(t, "postgres (PostgreSQL) 18.3"), nil, 15)
	require.ErrorContains(t, err, "version 18.3 cannot read data made by PostgreSQL 15")
	_, err = probe(t.Context(), programs(t, "something else"), nil, 0)
	require.ErrorContains(t, err, `postgres --version says "something else"`)
	_, err = probe(t.Context(), t.TempDir(), nil, 0)
	require.ErrorContains(t, err, "initdb")
}

func TestSourceMustBeKnown(t *testing.T) {
	t.Parallel()
	_, err := StartPostgres(t.Context(), PostgresOptions{Source: "latest"})
	require.ErrorContains(t, err, `"latest": it must be "installed", "fetch" or the absolute path`)
}

func TestSourceMayBeAFolder(t *testing.T) {
	t.Parallel()
	installed, err := locate(startContext(t), PostgresOptions{}, accountFor(""), 0)
	require.NoError(t, err)
	p := start(t, PostgresOptions{Source: installed.folder, UnsafeNoSync: true})
	require.Equal(t, installed.version, p.Version())
}

func TestDataIsRunByTheMajorThatMadeIt(t *testing.T) {
	t.Parallel()
	dir := reachableDir(t)
	cluster := filepath.Join(dir, clusterName)
	require.NoError(t, os.Mkdir(cluster, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(cluster, "PG_VERSION"), []byte("9\n"), 0o644))
	_, err := StartPostgres(startContext(t), PostgresOptions{DataDir: dir, Source: "fetch"})
	require.ErrorContains(t, err, "cannot read data made by PostgreSQL 9")
	_, err = StartPostgres(startContext(t), PostgresOptions{DataDir: dir, Source: "installed"})
	require.ErrorContains(t, err, "found no PostgreSQL 9 that is installed")
}

func TestNewerFoldersComeFirst(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]int{
		"/usr/lib/postgresql/15/bin":                              15,
		"/opt/homebrew/opt/postgresql@18/bin":                     18,
		"/opt/homebrew/opt/postgresql/bin":                        0,
		"/Applications/Postgres.app/Contents/Versions/17/bin":     17,
		"/Applications/Postgres.app/Contents/Versions/latest/bin": 0,
	} {
		require.Equal(t, want, majorInPath(path), path)
	}
}
