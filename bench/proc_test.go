package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStatIsReadAsTheKernelWritesIt(t *testing.T) {
	t.Parallel()
	p, err := parseStat([]byte("4711 (a (b) c) S 42 4711 4711 0 -1 4194560 100 200 0 0 13 7 5 3 20 0 1 0 100 1000 100\n"))
	require.NoError(t, err)
	require.Equal(t, process{pid: 4711, parent: 42, own: 200 * time.Millisecond, reaped: 80 * time.Millisecond}, p)
	for _, broken := range []string{"", "4711", "4711 (a", "x (a) S 42 1", "4711 (a) S 42 4711 4711 0 -1 4194560 100 200 0 0 13 y 5 3 20"} {
		_, err := parseStat([]byte(broken))
		require.ErrorIs(t, err, errStat, broken)
	}
}

func TestMachineIsBusyWithWhatIsNotIdleness(t *testing.T) {
	t.Parallel()
	busy, err := parseMachine([]byte("cpu  100 10 200 5000 70 3 4 5 1000 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n"))
	require.NoError(t, err)
	require.Equal(t, 3220*time.Millisecond, busy)
	for _, broken := range []string{"", "cpu 1 2 3", "cpu0 1 2 3 4 5 6 7 8 9", "cpu 1 x 3 4 5 6 7 8 9"} {
		_, err := parseMachine([]byte(broken))
		require.ErrorIs(t, err, errStat, broken)
	}
}

func TestTreesAreAddedUpWithThoseThatEnded(t *testing.T) {
	t.Parallel()
	all := []process{
		{pid: 1, own: time.Hour},
		{pid: 10, parent: 1, own: time.Second, reaped: 2 * time.Second},
		{pid: 11, parent: 10, own: 4 * time.Second},
		{pid: 12, parent: 11, own: 8 * time.Second, reaped: 16 * time.Second},
		{pid: 20, parent: 1, own: time.Hour},
	}
	sum, err := sumTree(all, 10)
	require.NoError(t, err)
	require.Equal(t, 31*time.Second, sum)
	_, err = sumTree(all, 99)
	require.ErrorContains(t, err, "there is no process 99 any more")
}

func TestStatementsInsertTheSampleWithWhatVaries(t *testing.T) {
	t.Parallel()
	columns := []string{"id", "state", "key", "payload"}
	require.Equal(t, `insert into raw (id, state, key, payload) select u.id, s."state", u.key, u.payload`+
		` from unnest($1::bigint[], $2::text[], $3::bytea[]) u(id, key, payload), duly.job s`, unnestStatement(columns))
	require.Equal(t, "insert into raw (id, state, key, payload) values ($1, $2, $3, $4)", valuesStatement(columns))
	r := &rawTable{columns: columns, sample: []any{int64(0), "ready", "bulk:0", []byte("x")}}
	require.Equal(t, []any{int64(5), "ready", "bulk:5", []byte("y")}, r.row(5, []byte("y")))
	require.Equal(t, []any{int64(0), "ready", "bulk:0", []byte("x")}, r.sample, "the sample stays")
}
