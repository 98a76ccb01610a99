package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/ledger/ledgertest"
	"duly.dev/duly/internal/machine"
)

// The numbers of kinds and terms are small, and every process says at its start what it
// knows: that must not use them up.
func TestRestartsUseUpNoNumbersOfKindsAndTerms(t *testing.T) {
	t.Parallel()
	pool := ledgertest.New(t)
	kind := machine.Kind{Name: "reminder", Lane: "mail", Channel: "smtp", Policy: machine.DefaultPolicy(), RedriveBy: machine.RoleOperator}
	other := kind
	other.Name, other.Channel = "invoice", "http"
	for range 20 {
		require.NoError(t, ledger.New(pool).SyncKinds(t.Context(), []machine.Kind{kind, other}))
	}
	for _, table := range []string{"duly.kind", "duly.terms"} {
		var drawn int64
		err := pool.QueryRow(t.Context(), "SELECT nextval(pg_get_serial_sequence($1, 'id'))", table).Scan(&drawn)
		require.NoError(t, err)
		require.EqualValues(t, 3, drawn, table)
	}
}
