package ledgertest_test

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/ledger/ledgertest"
)

func TestMain(m *testing.M) { ledgertest.Main(m) }

// leakVariable makes TestLeak leave a goroutine behind.
const leakVariable = "DULY_TEST_LEDGERTEST_LEAK"

// rerun runs one test of this program in a process of its own, with one
// variable in its environment, and returns what it printed.
func rerun(t *testing.T, test, variable string) (string, error) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	command := exec.Command(self, "-test.run=^"+test+"$")
	command.Env = append(os.Environ(), variable)
	output, err := command.CombinedOutput()
	return string(output), err
}

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

func TestLedgerIsGoneAfterItsTest(t *testing.T) { //nolint:tparallel // the subtest ends before what is asserted
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

func TestServerThatRunsAlreadyIsUsedAndLeftAsItWas(t *testing.T) {
	t.Parallel()
	server := ledgertest.OwnServer(t)
	output, err := rerun(t, "TestNewLedgerHasTheSchemaOfTheProgram", "DULY_TEST_POSTGRES="+server.URL())
	require.NoError(t, err, output)

	var left int
	err = connect(t, server.URL()).QueryRow(t.Context(), "select count(*) from pg_database where datname like 'duly_test_%'").Scan(&left)
	require.NoError(t, err)
	require.Zero(t, left)
}

func TestLeak(*testing.T) {
	if os.Getenv(leakVariable) != "" {
		go func() { select {} }()
	}
}

func TestMainFailsWhenAGoroutineIsLeft(t *testing.T) {
	t.Parallel()
	output, err := rerun(t, "TestLeak", leakVariable+"=")
	require.NoError(t, err, output)
	output, err = rerun(t, "TestLeak", leakVariable+"=1")
	require.Error(t, err)
	require.Contains(t, output, "goroutines are left after the tests")
}
