package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/ledger/ledgertest"
	"duly.dev/duly/internal/machine"
)

func TestHeartKnowsOfItsLedgersLostReplies(t *testing.T) {
	t.Parallel()
	url := ledgertest.URL(t)
	b := benchOn(t, ledgertest.Pool(t, url))
	k, err := b.Kinds(t.Context())
	require.NoError(t, err)
	c := &crew{bench: b, kind: k[0]}
	cut := &cut{}
	l := ledger.New(cut.pool(t, url))
	heart := l.Heart(ledgertest.Pool(t, url))
	w := machine.Worker{ID: c.register().ID}
	request := machine.LeaseRequest{Worker: w, Kind: c.kind}
	_, err = l.Lease(t.Context(), request) // warms caches and connection
	require.NoError(t, err)
	held, err := heart.Heartbeat(t.Context(), w.ID)
	require.NoError(t, err)
	require.Empty(t, held)

	request.Refs = c.enqueue("cut", 2)
	cut.armed.Store(true)
	_, err = l.Lease(t.Context(), request)
	require.ErrorIs(t, err, machine.ErrUnclear)
	held, err = heart.Heartbeat(t.Context(), w.ID)
	require.NoError(t, err)
	require.Len(t, held, 2)

	require.NoError(t, heart.EndWorker(t.Context(), w.ID))
	_, err = heart.Heartbeat(t.Context(), w.ID)
	require.ErrorIs(t, err, machine.ErrWorkerEnded)
	w.ID, w.LeaseTime = "0b6d3f0e-2d0a-4c9e-9c59-0a3f4c1f7a11", c.kind.Policy.LeaseTime
	require.NoError(t, heart.RegisterWorker(t.Context(), w))
	_, err = heart.Heartbeat(t.Context(), w.ID)
	require.NoError(t, err)
}
