package ledger_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/pkg/job"
)

// What a dead notice says of a job without a subject is nothing, not whom it was for.
func TestG13NoticesNameNoDestination(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	made := b.enqueueSpecs(job.Spec{
		Kind: kind, Key: "n", Destination: "https://confidential.example/hook", Payload: []byte(`{"card": "4111"}`),
	})
	notices, err := b.Notices(t.Context(), []job.Ref{{Job: made[0].Job, Generation: 1, Emission: 1}})
	require.NoError(t, err)
	require.Len(t, notices, 1)
	require.Equal(t, "n", notices[0].Key)
	body, err := json.Marshal(notices[0])
	require.NoError(t, err)
	require.NotContains(t, string(body), "confidential")
	require.NotContains(t, string(body), "4111")
}
