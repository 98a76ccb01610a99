package devstack

import (
	"bytes"
	"context"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// startLimit bounds a start on a busy machine, the download included.
const startLimit = 5 * time.Minute

func startContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	t.Cleanup(cancel)
	return ctx
}

func start(t *testing.T, options PostgresOptions) *Postgres {
	t.Helper()
	ctx := startContext(t)
	p, err := StartPostgres(ctx, options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Stop(ctx)) })
	return p
}

func connect(t *testing.T, address string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func setting(t *testing.T, conn *pgx.Conn, name string) string {
	t.Helper()
	var value string
	require.NoError(t, conn.QueryRow(t.Context(), "select current_setting($1)", name).Scan(&value))
	return value
}

// reachableDir is a temporary folder that an unprivileged server may enter;
// t.TempDir's parents are closed to other users.
func reachableDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "duly-devstack-test-*") //nolint:usetesting // see above
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func TestPostgresIsDurable(t *testing.T) {
	t.Parallel()
	conn := connect(t, start(t, PostgresOptions{}).URL())
	for _, name := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		require.Equal(t, "on", setting(t, conn, name), name)
	}
}

func TestPostgresForTests(t *testing.T) { //nolint:tparallel // the subtests share a connection
	t.Parallel()
	p := start(t, PostgresOptions{UnsafeNoSync: true, Settings: map[string]string{"max_connections": "17"}})
	conn := connect(t, p.URL())

	t.Run("syncs no files and is otherwise the same", func(t *testing.T) {
		require.Equal(t, "off", setting(t, conn, "fsync"))
		require.Equal(t, "on", setting(t, conn, "synchronous_commit"))
	})
	t.Run("takes settings", func(t *testing.T) {
		require.Equal(t, "17", setting(t, conn, "max_connections"))
	})
	t.Run("says its version", func(t *testing.T) {
		require.Equal(t, p.Version(), firstWord(setting(t, conn, "server_version")))
	})
	t.Run("listens on loopback only", func(t *testing.T) {
		require.Equal(t, "127.0.0.1", setting(t, conn, "listen_addresses"))
		require.Empty(t, setting(t, conn, "unix_socket_directories"))
	})
	t.Run("asks for its password", func(t *testing.T) {
		address, err := url.Parse(p.URL())
		require.NoError(t, err)
		require.Equal(t, "/duly", address.Path)
		address.User = url.UserPassword(superuser, "a guess")
		_, err = pgx.Connect(t.Context(), address.String())
		var refused *pgconn.PgError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, "28P01", refused.Code)
	})
	t.Run("does not run as root", func(t *testing.T) {
		info, err := os.Stat(filepath.Join(p.cluster(), "postmaster.pid"))
		require.NoError(t, err)
		uid, _ := ownerOf(info)
		require.NotZero(t, uid)
	})
	t.Run("is out of reach of a Ctrl-C at the terminal", func(t *testing.T) {
		require.NotEqual(t, processGroup(t, os.Getpid()), processGroup(t, p.process.command.Process.Pid))
	})
}

func firstWord(text string) string {
	word, _, _ := bytes.Cut([]byte(text), []byte(" "))
	return string(word)
}

func TestPostgresKeepsItsDataAndPasswordInItsFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachableDir(t), "made", "on", "demand")
	ctx := startContext(t)
	first, err := StartPostgres(ctx, PostgresOptions{DataDir: dir})
	require.NoError(t, err)
	conn := connect(t, first.URL())
	_, err = conn.Exec(ctx, "create table kept (n int); insert into kept values (42)")
	require.NoError(t, err)
	require.NoError(t, first.Stop(ctx))
	require.NoError(t, first.Stop(ctx), "a second stop does nothing")

	second := start(t, PostgresOptions{DataDir: dir})
	var n int
	require.NoError(t, connect(t, second.URL()).QueryRow(ctx, "select n from kept").Scan(&n))
	require.Equal(t, 42, n)
}

func TestPostgresRemovesItsTemporaryFolder(t *testing.T) {
	t.Parallel()
	ctx := startContext(t)
	p, err := StartPostgres(ctx, PostgresOptions{UnsafeNoSync: true})
	require.NoError(t, err)
	require.DirExists(t, p.folder)
	require.NoError(t, p.Stop(ctx))
	require.NoDirExists(t, p.folder)
}

func TestPostgresSurvivesRestartAndKillAtTheSameAddress(t *testing.T) {
	t.Parallel()
	p := start(t, PostgresOptions{UnsafeNoSync: true})
	ctx := startContext(t)
	conn := connect(t, p.URL())
	_, err := conn.Exec(ctx, "create table kept (n int)")
	require.NoError(t, err)
	add := func() { // on a connection of its own: the server's end breaks them all
		conn := connect(t, p.URL())
		_, err := conn.Exec(ctx, "insert into kept values (1)")
		require.NoError(t, err)
	}

	add()
	require.NoError(t, p.Restart(ctx))
	require.Error(t, conn.Ping(ctx))
	add()
	p.Kill()
	_, err = pgx.Connect(ctx, p.URL())
	require.Error(t, err)
	p.Kill() // does nothing
	require.NoError(t, p.Restart(ctx))

	var n int
	require.NoError(t, connect(t, p.URL()).QueryRow(ctx, "select count(*) from kept").Scan(&n))
	require.Equal(t, 2, n)
}

func TestPostgresStopDisconnectsClients(t *testing.T) {
	t.Parallel()
	ctx := startContext(t)
	p, err := StartPostgres(ctx, PostgresOptions{UnsafeNoSync: true})
	require.NoError(t, err)
	conn := connect(t, p.URL())
	asleep := make(chan error, 1)
	go func() {
		_, err := conn.Exec(ctx, "select pg_sleep(600)")
		asleep <- err
	}()
	require.NoError(t, p.Stop(ctx))
	require.Error(t, <-asleep)
}

func TestPostgresRefusesASecondServerOnItsPort(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	require.NoError(t, err)
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	_, err = StartPostgres(startContext(t), PostgresOptions{Port: port, UnsafeNoSync: true})
	require.ErrorContains(t, err, "port "+strconv.Itoa(port)+" of 127.0.0.1 is taken")
}

func TestPostgresLogHoldsNoValues(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	ctx := startContext(t)
	p, err := StartPostgres(ctx, PostgresOptions{UnsafeNoSync: true, Log: &log})
	require.NoError(t, err)
	conn := connect(t, p.URL())
	_, err = conn.Exec(ctx, "create table customers (address text unique); insert into customers values ('a-secret')")
	require.NoError(t, err)
	_, err = conn.Exec(ctx, "insert into customers values ('a-secret')")
	require.ErrorContains(t, err, "duplicate key")
	require.NoError(t, p.Stop(ctx))
	require.Contains(t, log.String(), "duplicate key")
	require.NotContains(t, log.String(), "a-secret")
}

// lockedBuffer may be written and read at once.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(text)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

func TestPostgresStartEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := StartPostgres(ctx, PostgresOptions{UnsafeNoSync: true})
	require.ErrorIs(t, err, context.Canceled)
}

func TestPostgresNamesTheFolderThatItsUserCannotEnter(t *testing.T) {
	t.Parallel()
	closed := reachableDir(t)
	require.NoError(t, os.Chmod(closed, 0o700))
	options := PostgresOptions{DataDir: filepath.Join(closed, "data"), UnsafeNoSync: true}
	if os.Geteuid() != 0 {
		start(t, options) // a user's own folder is open to their own server
		return
	}
	_, err := StartPostgres(startContext(t), options)
	require.ErrorContains(t, err, "cannot enter "+closed)
}

func TestPostgresFetchedRuns(t *testing.T) {
	t.Parallel()
	p := start(t, PostgresOptions{Source: "fetch", UnsafeNoSync: true})
	conn := connect(t, p.URL())
	require.Equal(t, p.Version(), firstWord(setting(t, conn, "server_version")))
	require.GreaterOrEqual(t, p.binaries.major, 18)
}

func TestFailedStartLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := reachableDir(t)
	_, err := StartPostgres(startContext(t), PostgresOptions{
		DataDir: dir, UnsafeNoSync: true, Settings: map[string]string{"max_connections": "many"},
	})
	require.ErrorContains(t, err, "max_connections", "the server's own words are in the error")
	_, err = os.Stat(filepath.Join(dir, clusterName, "postmaster.pid"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}
