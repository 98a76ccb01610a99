package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/ledger/ledgertest"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

func TestCheckPassesASoundLedgerAndFailsAnother(t *testing.T) {
	t.Parallel()
	url := ledgertest.URL(t)
	pool := ledgertest.Pool(t, url)
	l := ledger.New(pool)
	kind := machine.Kind{Name: "mail", Lane: "mail", Channel: "smtp", Policy: machine.DefaultPolicy(), Promises: machine.DefaultPromises(1)}
	require.NoError(t, l.SyncKinds(t.Context(), []machine.Kind{kind}))
	_, err := l.Enqueue(t.Context(), pool, []job.Spec{
		{Kind: "mail", Key: "customer/1", Payload: []byte(`{}`)}, {Kind: "mail", Key: "customer/2", Payload: []byte(`{}`)},
	})
	require.NoError(t, err)

	out, stderr, code := run(t, "check", "--database-url", url)
	require.Equal(t, app.ExitOK, code, stderr)
	require.Contains(t, out, "2 jobs with 2 generations, 0 events and 0 leases, and 0 runs: 0 disagreements")

	_, err = pool.Exec(t.Context(), `UPDATE duly.job SET attempt = 3 WHERE key = 'customer/2'`)
	require.NoError(t, err)
	out, stderr, code = run(t, "check", "--database-url", url)
	require.Equal(t, app.ExitFailed, code)
	require.Contains(t, stderr, "1 disagreement between")
	require.Regexp(t, `(?m)^mail/customer/2 +1 +row +attempt=3 +attempt=0$`, out)

	out, _, code = run(t, "check", "--database-url", url, "--json")
	require.Equal(t, app.ExitFailed, code)
	var report checkReport
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.Equal(t, 2, report.Jobs)
	require.Len(t, report.Found, 1)
	require.Equal(t, machine.RuleRow, report.Found[0].Rule)

	_, stderr, code = run(t, "check", "--database-url", url, "--job", "mail/customer/1")
	require.Equal(t, app.ExitOK, code, stderr)
	_, _, code = run(t, "check", "--database-url", url, "--job", "mail/customer/2")
	require.Equal(t, app.ExitFailed, code)
	_, _, code = run(t, "check", "--database-url", url, "--job", "mail/customer/3")
	require.Equal(t, app.ExitRefused, code)
	_, stderr, code = run(t, "check", "--database-url", url, "--job", "mail")
	require.Equal(t, app.ExitUsage, code)
	require.Contains(t, stderr, "KIND/KEY")
}
