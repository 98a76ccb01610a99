package main

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/ledger/ledgertest"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// A ledger that is down when the scheduler starts is waited for. One that goes down for
// longer than a lease time, so that no worker can beat, is nobody's death.
func TestLedgerThatIsDownIsWaitedForAndKillsNobody(t *testing.T) {
	t.Parallel()
	server := ledgertest.OwnServer(t)
	server.Kill()
	output := &syncBuffer{}
	exit := start(t, server.URL(), output)
	eventually(t, "it says that it waits", func() bool { return strings.Contains(output.String(), "cannot be reached, trying again") })
	require.NoError(t, server.Restart(t.Context()))
	eventually(t, "it runs", func() bool { return strings.Contains(output.String(), `"running"`) })
	ready := "http://" + adminAddr.FindStringSubmatch(output.String())[1] + "/readyz"
	eventually(t, "it is ready", func() bool { return status(t, ready) == http.StatusOK })

	pool := ledgertest.Pool(t, server.URL())
	l := ledger.New(pool)
	w := machine.Worker{ID: uuid.NewString(), Label: "alive", Version: "v1", LeaseTime: 3 * time.Second}
	require.NoError(t, l.RegisterWorker(t.Context(), w))
	stop := beat(t, l, w)
	server.Kill()
	timer := time.NewTimer(5 * time.Second)
	defer timer.Stop()
	<-timer.C // longer than the lease time
	require.NoError(t, server.Restart(t.Context()))

	var made []machine.Enqueued
	eventually(t, "the ledger is back", func() bool {
		var err error
		made, err = l.Enqueue(t.Context(), pool, []job.Spec{{Kind: "reminder", Key: "soon", Payload: []byte(`{}`), Due: time.Now().Add(7 * time.Second)}})
		return err == nil
	})
	eventually(t, "it promotes again, a lease time later", func() bool { return stateOf(t, pool, made[0].Job) == job.Ready })
	stop()
	_, err := l.Heartbeat(t.Context(), w.ID)
	require.NoError(t, err, "the worker was never ended: %s", output.String())
	require.Zero(t, exit(), output.String())
}

// beat renews the worker's lease as workers do, until it is stopped.
func beat(t *testing.T, l *ledger.Ledger, w machine.Worker) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		every := time.NewTicker(200 * time.Millisecond)
		defer every.Stop()
		for {
			select {
			case <-every.C:
				_, _ = l.Heartbeat(ctx, w.ID) // what matters is how it stands at the end
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}
