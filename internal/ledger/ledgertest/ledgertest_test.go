package ledgertest_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/ledger/ledgertest"
)

func TestMain(m *testing.M) { ledgertest.Main(m) }

func connect(t *testing.T, address string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.Background())) })
	return conn
}

func databaseOf(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	var name string
	require.NoError(t, pool.QueryRow(t.Context(), "select current_database()").Scan(&name))
	return name
}

func TestNewLedgerHasTheSchemaOfTheProgram(t *testing.T) {
	t.Parallel()
	require.NoError(t, ledger.CheckSchema(t.Context(), ledgertest.URL(t)))
}

func TestTestsDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	for range 4 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			pool := ledgertest.New(t)
			_, err := pool.Exec(t.Context(), "create table mine (n int)")
			require.NoError(t, err, "another test's table is not here")
		})
	}
}

func TestLedgerIsGoneAfterItsTest(t *testing.T) {
	t.Parallel()
	var name string
	var leftOpen *pgx.Conn
	t.Run("a test that forgets a connection", func(t *testing.T) {
		address := ledgertest.URL(t)
		conn, err := pgx.Connect(t.Context(), address)
		require.NoError(t, err)
		leftOpen, name = conn, databaseOf(t, ledgertest.Pool(t, address))
	})
	require.Error(t, leftOpen.Ping(t.Context()))
	var exists bool
	err := ledgertest.New(t).QueryRow(t.Context(), "select exists(select from pg_database where datname = $1)", name).Scan(&exists)
	require.NoError(t, err)
	require.False(t, exists)
}

func TestOwnServerHasALedgerAndCanBeKilled(t *testing.T) {
	t.Parallel()
	server := ledgertest.OwnServer(t)
	_, err := connect(t, server.URL()).Exec(t.Context(), "create table kept as select 42 as n")
	require.NoError(t, err)
	server.Kill()
	require.NoError(t, server.Restart(t.Context()))
	require.NoError(t, ledger.CheckSchema(t.Context(), server.URL()))
	var n int
	require.NoError(t, connect(t, server.URL()).QueryRow(t.Context(), "select n from kept").Scan(&n))
	require.Equal(t, 42, n)
}
