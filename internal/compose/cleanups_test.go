package compose_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/compose"
	"duly.dev/duly/pkg/handler"
)

func tidy(context.Context, handler.Ended) error { return nil }

func TestACleanupBesideAHandlerIsDeclaredAndWhatIsDeclaredIsThere(t *testing.T) {
	t.Parallel()
	const gated = "kinds:\n  greeting: {channel: go, cleanup: {go: {}}}\n"
	both := map[string]handler.Handler{"greeting": handler.WithCleanup(nop, tidy)}
	s := service(t, &bytes.Buffer{})
	require.NoError(t, compose.Worker(s, config(t, gated), parts(both)))
	ctx, stop := context.WithCancel(t.Context())
	stop()
	require.NoError(t, s.Group.Run(ctx))

	err := compose.Worker(service(t, &bytes.Buffer{}), config(t, gated), parts(map[string]handler.Handler{"greeting": nop}))
	require.ErrorContains(t, err, "there is no cleanup beside the kind's handler")
	require.Equal(t, app.ExitUsage, app.ExitCode(err))
	err = compose.Worker(service(t, &bytes.Buffer{}), config(t, "kinds:\n  greeting: {channel: go}\n"), parts(both))
	require.ErrorContains(t, err, "does not declare it")
	require.Equal(t, app.ExitUsage, app.ExitCode(err))
}
