package app

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRetryGoesOnUntilItSucceedsAndSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		tries := 0
		err := Retry(t.Context(), NewLogger(&log, slog.LevelInfo, true), "the ledger at db:5432/duly", func(context.Context) error {
			if tries++; tries < 20 {
				return errors.New("connection refused")
			}
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, 20, tries)
		require.Contains(t, log.String(), `msg="cannot be reached, trying again" what="the ledger at db:5432/duly" error="connection refused" try=1 next_in=`)
		require.Contains(t, log.String(), `msg=reached what="the ledger at db:5432/duly" tries=20`)
	})
}

func TestRetryNeverWaitsMuchLongerThanTenSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		last, longest, tries := time.Now(), time.Duration(0), 0
		_ = Retry(t.Context(), quiet(), "it", func(context.Context) error {
			longest, last = max(longest, time.Since(last)), time.Now()
			if tries++; tries < 200 {
				return errors.New("down")
			}
			return nil
		})
		require.LessOrEqual(t, longest, longestWait*3/2)
	})
}

func TestRetryStopsAtWhatNoRetryRepairs(t *testing.T) {
	t.Parallel()
	wrong := errors.New("password authentication failed")
	tries := 0
	err := Retry(t.Context(), quiet(), "the ledger", func(context.Context) error {
		tries++
		return Permanent(wrong)
	})
	require.EqualError(t, err, "the ledger: password authentication failed")
	require.ErrorIs(t, err, wrong)
	require.Equal(t, 1, tries)
	require.Equal(t, ExitFailed, ExitCode(err))
	require.NoError(t, Permanent(nil))
}

func TestRetryEndsWithItsContextAndKeepsTheLastFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("connection refused")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := Retry(ctx, quiet(), "the bus", func(context.Context) error { return down })
		require.ErrorIs(t, err, down)
		require.ErrorIs(t, err, ErrUnavailable)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, ExitUnavailable, ExitCode(err))
	})
}

func TestAddressesAreShownWithoutTheirSecrets(t *testing.T) {
	t.Parallel()
	for connection, want := range map[string]string{
		"postgres://duly:hunter2@db:5433/ledger?sslmode=disable":          "db:5433/ledger",
		"postgresql://duly:hunter2@db/ledger?sslmode=prefer":              "db:5432/ledger",
		"host=db port=5433 user=duly password=hunter2 dbname=ledger":      "db:5433/ledger",
		"postgres://duly:hunter2@a:1,b:2/ledger?sslmode=disable":          "a:1,b:2/ledger",
		"nats://user:hunter2@bus:4222":                                    "bus:4222",
		"nats://token@a:4222, nats://b:4222":                              "a:4222,b:4222",
		"hunter2":                                                         "(an unreadable address)",
		"postgres://duly:hunter2@db:notaport/ledger":                      "(an unreadable address)",
		"nats://user:hunter2@bus:4222,%zz":                                "(an unreadable address)",
		"nats://user:hunter2@[::1]:4222":                                  "[::1]:4222",
		"postgres://duly:hunter2@[::1]:5432/ledger?sslmode=disable&app=x": "[::1]:5432/ledger",
		"kafka://user:hunter2@one:9092,two:9092?sasl=plain,more":          "one:9092,two:9092",
		"kafka://user:hunter2@one:9092,kafka://user:hunter2@two:9092?a=b": "one:9092,two:9092",
	} {
		require.Equal(t, want, Where(connection), connection)
	}
}
