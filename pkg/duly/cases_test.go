package duly_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/pkg/duly"
	"duly.dev/duly/pkg/job"
)

// C24: a payload as large as what a broker takes by default, or a byte less, is refused
// where it comes in unless the limit allows it, and then it burdens no broker: the bus
// carries references.
func TestC24PayloadsOfABrokersLimitAreRefusedAtTheDoorOrStayInTheLedger(t *testing.T) {
	t.Parallel()
	pool := newLedger(t)
	const broker = 1 << 20
	specs := []job.Spec{specOf("its limit"), specOf("a byte less")}
	specs[0].Payload = []byte(`"` + strings.Repeat("x", broker-2) + `"`)
	specs[1].Payload = []byte(`"` + strings.Repeat("x", broker-3) + `"`)
	for _, s := range commit(t, pool, duly.NewClient(pool), specs) {
		refusals := job.Refusals(s.Reason)
		require.Len(t, refusals, 1)
		require.Equal(t, []any{"payload", job.RuleTooLarge}, []any{refusals[0].Field, refusals[0].Rule})
	}
	for _, s := range commit(t, pool, duly.NewClient(pool, duly.MaxPayload(broker)), specs) {
		require.Equal(t, duly.Created, s.Status)
	}
	require.Equal(t, broker, count(t, pool, `SELECT max(length(payload))::int FROM duly.job`))
	require.Less(t, count(t, pool, `SELECT max(length(o::text))::int FROM duly.outbox o`), 500)
}

// C25: nothing is announced by NOTIFY, whose limit would end the transaction: no trigger
// or function of the schema sends one.
func TestC25NoNotificationCanFailAnEnqueue(t *testing.T) {
	t.Parallel()
	pool := newLedger(t)
	require.Zero(t, count(t, pool, `SELECT count(*)::int FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
		WHERE n.nspname = 'duly' AND p.prosrc ~* 'notify'`))
	require.Zero(t, count(t, pool, `SELECT count(*)::int FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = 'duly' AND NOT t.tgisinternal`))
	require.Zero(t, count(t, pool, `SELECT count(*)::int FROM pg_rules WHERE schemaname = 'duly'`))
}
