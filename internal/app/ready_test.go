package app

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReadyAsksAProcess(t *testing.T) {
	t.Parallel()
	ready := &Readiness{}
	succeeded := ready.Loop("claim", time.Hour)
	a := admin(t, ready, false)
	a.Start()
	var out bytes.Buffer
	ask := &ReadyCommand{URL: "http://" + a.Addr() + "/readyz", Timeout: time.Minute}
	err := ask.Run(t.Context(), &Process{Stdout: &out})
	require.ErrorContains(t, err, "not ready")
	require.Equal(t, ExitFailed, ExitCode(err))
	require.Contains(t, out.String(), "claim has not succeeded yet")
	succeeded()
	require.NoError(t, ask.Run(t.Context(), &Process{Stdout: &out}))

	ask.URL = "http://127.0.0.1:1/readyz"
	require.Equal(t, ExitUnavailable, ExitCode(ask.Run(t.Context(), &Process{Stdout: &out})))
}
