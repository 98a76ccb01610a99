package compose_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/bus/membus"
	"duly.dev/duly/internal/compose"
	"duly.dev/duly/internal/memledger"
	"duly.dev/duly/pkg/handler"
)

// service is a service without an admin server.
func service(t *testing.T, log io.Writer) *app.Service {
	t.Helper()
	l := slog.New(slog.NewTextHandler(log, nil))
	s := &app.Service{
		Process: &app.Process{Name: "test", Version: "v1", Log: l}, Log: l, Registry: prometheus.NewRegistry(),
		Readiness: &app.Readiness{}, Stack: app.NewStack(l), Group: app.NewGroup(l),
	}
	t.Cleanup(func() { require.NoError(t, s.Stack.Stop(context.Background())) })
	return s
}

func config(t *testing.T, text string) *app.Config {
	t.Helper()
	c, err := app.ParseConfig("duly.yaml", []byte(text))
	require.NoError(t, err)
	return c
}

func parts(handlers map[string]handler.Handler) compose.WorkerParts {
	l := memledger.New()
	return compose.WorkerParts{Ledger: l, Heart: l, Buses: compose.Buses{Bus: membus.New()}, Handlers: handlers, Asking: l}
}

var nop = handler.Func(func(context.Context, handler.Job) error { return nil })

func TestWorkerTellsOfKindsThatItCannotPerformOnItsLanes(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	err := compose.Worker(service(t, &log), config(t, `
lanes:
  alone: {}
kinds:
  greeting: {channel: go}
  farewell: {channel: go}
  elsewhere: {channel: go, lane: alone}
`), parts(map[string]handler.Handler{"greeting": nop}))
	require.NoError(t, err)
	require.Contains(t, log.String(), "lane=default kinds=farewell")
	require.NotContains(t, log.String(), "alone", "a lane of which it can perform nothing is not its business")
}

func TestWorkerWithoutAKindIsRefused(t *testing.T) {
	t.Parallel()
	err := compose.Worker(service(t, &bytes.Buffer{}), config(t, "kinds:\n  greeting: {channel: go}\n"), parts(nil))
	require.ErrorContains(t, err, "no kind is one that this worker can perform")
	require.Equal(t, app.ExitUsage, app.ExitCode(err))
}

func TestWorkerPerformsWhatItsChannelsCan(t *testing.T) {
	t.Parallel()
	s := service(t, &bytes.Buffer{})
	require.NoError(t, compose.Worker(s, config(t, "kinds:\n  call: {channel: http}\n"), parts(nil)))
	ctx, stop := context.WithCancel(t.Context())
	stop()
	require.NoError(t, s.Group.Run(ctx), "an order to stop at once is an order to drain")
}

func TestWorkerConnsGrowWithTheLanes(t *testing.T) {
	t.Parallel()
	require.Equal(t, int32(3), compose.WorkerConns(config(t, "kinds:\n  call: {channel: http}\n")))
}
