package ledger_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/ledger/ledgertest"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

func TestATallyCountsEveryJobOnce(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := ledgertest.New(t)
	l := ledger.New(pool)
	require.NoError(t, l.SyncKinds(ctx, []machine.Kind{{
		Name: "tallied", Lane: "main", Channel: "go", Policy: machine.DefaultPolicy(), Promises: machine.DefaultPromises(time.Second),
	}}))
	empty, err := l.Tally(ctx)
	require.NoError(t, err)
	require.Empty(t, empty)

	_, err = l.Enqueue(ctx, pool, []job.Spec{
		{Kind: "tallied", Key: "now", Payload: []byte("1")},
		{Kind: "tallied", Key: "later", Payload: []byte("1"), Due: time.Now().Add(time.Hour)},
		{Kind: "tallied", Key: "much later", Payload: []byte("1"), Due: time.Now().Add(2 * time.Hour)},
	})
	require.NoError(t, err)
	tally, err := l.Tally(ctx)
	require.NoError(t, err)
	require.Equal(t, map[job.State]int{job.Ready: 1, job.Scheduled: 2}, tally)
}

func TestTheServersSettingsSayWhetherItIsDurable(t *testing.T) {
	t.Parallel()
	settings, err := ledger.New(ledgertest.New(t)).ServerSettings(context.Background())
	require.NoError(t, err)
	require.Contains(t, []string{"on", "off"}, settings["fsync"])
	require.Equal(t, "on", settings["synchronous_commit"])
	require.NotEmpty(t, settings["server_version"])
}
