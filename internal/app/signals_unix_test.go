//go:build unix

package app

import (
	"context"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// It is the only test that signals its own process, and not parallel: a signal
// reaches every context that Signals made.
func TestTheFirstSignalStopsAndTheSecondEnds(t *testing.T) { //nolint:paralleltest // see above
	ended := make(chan int, 1)
	ctx, stop := Signals(context.Background(), func(code int) { ended <- code })
	defer stop()
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
	<-ctx.Done()
	require.Equal(t, Interrupted{syscall.SIGTERM}, context.Cause(ctx))
	require.EqualError(t, context.Cause(ctx), "stopped by signal: terminated")
	require.Empty(t, ended, "the first signal only asks")
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGINT))
	require.Equal(t, 128+2, <-ended)
}
