package app

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace/noop"
)

func process(log *slog.Logger) *Process {
	return &Process{Name: "duly-test", Version: "v1", Log: log}
}

func TestAServiceRunsUntilToldAndStopsInReverseOrder(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	ctx, stop := context.WithCancelCause(t.Context())
	var order []string
	err := Serve(ctx, process(NewLogger(&log, slog.LevelInfo, true)), AdminSettings{AdminAddr: "127.0.0.1:0"}, func(_ context.Context, s *Service) error {
		code, body := get(t, s.Admin, "/readyz")
		require.Equal(t, http.StatusServiceUnavailable, code)
		require.Contains(t, body, `"starting": true`, "whoever rolls it out waits until it has what its loops need")
		s.Stack.Push("ledger", time.Second, func(context.Context) error { order = append(order, "ledger"); return nil })
		s.Stack.Push("bus", time.Second, func(context.Context) error { order = append(order, "bus"); return nil })
		succeeded := s.Readiness.Loop("claim", time.Hour)
		s.Group.Add("claim", func(ctx context.Context) error {
			succeeded()
			code, _ := get(t, s.Admin, "/readyz")
			require.Equal(t, http.StatusOK, code)
			stop(Interrupted{})
			<-ctx.Done()
			require.Eventually(t, func() bool { // a service that drains is watched, and gets no new work
				code, _ := get(t, s.Admin, "/readyz")
				return code == http.StatusServiceUnavailable
			}, time.Minute, time.Millisecond)
			order = append(order, "loop")
			return nil
		})
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []string{"loop", "bus", "ledger"}, order)
	require.Contains(t, log.String(), "msg=running")
	require.Contains(t, log.String(), "msg=stopped")
}

func TestAServiceThatCannotStartUndoesWhatItHas(t *testing.T) {
	t.Parallel()
	broken, stuck := errors.New("no bus"), errors.New("stuck")
	err := Serve(t.Context(), process(quiet()), AdminSettings{AdminAddr: "127.0.0.1:0"}, func(_ context.Context, s *Service) error {
		s.Stack.Push("ledger", time.Second, func(context.Context) error { return stuck })
		return broken
	})
	require.ErrorIs(t, err, broken)
	require.ErrorIs(t, err, stuck)

	err = Serve(t.Context(), process(quiet()), AdminSettings{AdminAddr: "nowhere"}, func(context.Context, *Service) error { return nil })
	require.ErrorContains(t, err, "--admin-addr")
	require.Equal(t, ExitUsage, ExitCode(err))
}

func TestSpansLeaveOnlyWhereTheEnvironmentAsks(t *testing.T) {
	var received atomic.Int32
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/traces" {
			received.Add(1)
		}
	}))
	defer collector.Close()

	provider, stop, err := NewTracing(t.Context(), process(quiet()))
	require.NoError(t, err)
	require.IsType(t, noop.TracerProvider{}, provider)
	require.NoError(t, stop(t.Context()))

	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	provider, stop, err = NewTracing(t.Context(), process(quiet()))
	require.NoError(t, err)
	_, span := provider.Tracer("test").Start(t.Context(), "effect")
	require.True(t, span.IsRecording())
	span.End()
	require.NoError(t, stop(t.Context()), "the teardown sends what is left")
	require.EqualValues(t, 1, received.Load())

	t.Setenv("OTEL_TRACES_EXPORTER", "none")
	provider, _, err = NewTracing(t.Context(), process(quiet()))
	require.NoError(t, err)
	require.IsType(t, noop.TracerProvider{}, provider)
}

func TestTheVersionIsTheRevisionUnlessTheEnvironmentNamesOne(t *testing.T) {
	settings := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef0123"}, {Key: "vcs.modified", Value: modified}}
	}
	require.Equal(t, "0123456789ab", versionOf(&debug.BuildInfo{Settings: settings("false")}))
	require.Equal(t, "0123456789ab+dirty", versionOf(&debug.BuildInfo{Settings: settings("true")}))
	require.Equal(t, "v1.2.3", versionOf(&debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}))
	require.Equal(t, "unknown", versionOf(&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}))
	require.NotEmpty(t, Version())
	t.Setenv("DULY_WORKER_VERSION", "2026.10")
	require.Equal(t, "2026.10", Version())
}
