package devstack

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestPostgresDiesWithItsParent(t *testing.T) {
	t.Parallel()
	parent := startParent(t, "-")
	conn := connect(t, parent.url)
	parent.kill()
	require.Error(t, conn.QueryRow(t.Context(), "select pg_sleep(600)").Scan(nil))
	require.Eventually(t, func() bool {
		conn, err := pgx.Connect(t.Context(), parent.url)
		if err == nil {
			_ = conn.Close(t.Context())
		}
		return err != nil
	}, time.Minute, 20*time.Millisecond)
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
