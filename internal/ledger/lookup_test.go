package ledger_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/ledger/ledgertest"
)

const deliveries = `SELECT happened, message_id AS receipt, done_at AS at FROM deliveries WHERE effect_key = $1`

// withDeliveries is a ledger with a table of the user's own beside it.
func withDeliveries(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.exec(`CREATE TABLE deliveries (effect_key varchar(200) NOT NULL, happened boolean, message_id text, done_at timestamptz)`)
	b.exec(`INSERT INTO deliveries VALUES ('k/yes:1:go', true, 'm-1', '2026-09-30T12:00:00Z')`)
	b.exec(`INSERT INTO deliveries (effect_key, happened) VALUES ('k/no:1:go', false), ('k/working:1:go', NULL), ('k/twice:1:go', true), ('k/twice:1:go', false)`)
	return b
}

// lookup opens a statement that is closed with the test.
func (b *bench) lookup(statement string, timeout time.Duration) *ledger.Lookup {
	b.t.Helper()
	l, err := b.OpenLookup(b.t.Context(), ledger.LookupOptions{Statement: statement, Timeout: timeout, Conns: 2})
	require.NoError(b.t, err)
	b.t.Cleanup(l.Close)
	return l
}

func TestAStatementSaysWhatBecameOfAnEffect(t *testing.T) {
	t.Parallel()
	b := withDeliveries(t)
	l := b.lookup(deliveries, time.Minute)
	yes, no := true, false
	for key, want := range map[string]ledger.Looked{
		"k/yes:1:go":                   {Found: true, Happened: &yes, Receipt: "m-1", At: time.Date(2026, 9, 30, 12, 0, 0, 0, time.UTC)},
		"k/no:1:go":                    {Found: true, Happened: &no},
		"k/working:1:go":               {Found: true},
		"k/never:1:go":                 {},
		"'; DROP TABLE deliveries; --": {},
	} {
		got, err := l.Ask(t.Context(), key)
		require.NoError(t, err, key)
		got.At = got.At.UTC()
		if want.At.IsZero() {
			got.At = time.Time{}
		}
		require.Equal(t, want, got, key)
	}
	_, err := l.Ask(t.Context(), "k/twice:1:go")
	require.ErrorIs(t, err, ledger.ErrLookup)
	require.Contains(t, ledger.LookupFailure(err), "returned 2 rows")
}

func TestAStatementThatCannotWorkIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	b := withDeliveries(t)
	for statement, want := range map[string]string{
		"":                                       "it must be given",
		"SELECT true AS happened, '' AS receipt": "it must name its parameter",
		"SELECT true AS happened, '' AS receipt WHERE $1 = $2":                                           "it has one parameter",
		"SELECT true AS happened, '' AS receipt WHERE $10 = 'a'":                                         "it must name its parameter",
		"SELECT true AS happened FROM deliveries WHERE effect_key = $1":                                  "it returns 1 columns",
		"SELECT message_id AS receipt, happened FROM deliveries WHERE effect_key = $1":                   "its column 1 must be happened, of type boolean",
		"SELECT happened, done_at AS receipt FROM deliveries WHERE effect_key = $1":                      "its column 2 must be receipt, of type text",
		"SELECT happened, message_id AS receipt, message_id AS at FROM deliveries WHERE effect_key = $1": "its column 3 must be at, of type timestamptz",
		"SELECT happened, message_id AS receipt FROM deliveries WHERE done_at = $1":                      "its parameter is no text",
		"SELECT happened, message_id AS receipt FROM nowhere WHERE effect_key = $1":                      "SQLSTATE 42P01",
		"SELEC $1": "SQLSTATE 42601",
		"SELECT happened, message_id AS receipt FROM deliveries WHERE effect_key = $1; SELECT 1": "SQLSTATE 42601",
	} {
		_, err := b.OpenLookup(t.Context(), ledger.LookupOptions{Statement: statement, Timeout: time.Minute, Conns: 1})
		require.ErrorIs(t, err, ledger.ErrLookup, statement)
		require.ErrorContains(t, err, want, statement)
	}
}

// A lookup reads, whatever it says, and stands for no longer than it may.
func TestAStatementOnlyReadsAndIsCut(t *testing.T) {
	t.Parallel()
	b := withDeliveries(t)
	writing := b.lookup(`WITH gone AS (DELETE FROM deliveries WHERE effect_key = $1 RETURNING happened, message_id AS receipt) SELECT happened, receipt FROM gone`, time.Minute)
	_, err := writing.Ask(t.Context(), "k/yes:1:go")
	require.Error(t, err)
	require.Equal(t, "the statement failed (SQLSTATE 25006)", ledger.LookupFailure(err))
	require.Equal(t, 5, b.count(`SELECT count(*)::int FROM deliveries`))

	slow := b.lookup(`SELECT pg_sleep(60) IS NULL AS happened, $1::text AS receipt`, 50*time.Millisecond)
	_, err = slow.Ask(t.Context(), "k/yes:1:go")
	require.Error(t, err)
	require.Contains(t, []string{"the statement failed (SQLSTATE 57014)", "no answer in time"}, ledger.LookupFailure(err))
	require.Equal(t, "no connection to the database, or none that answered", ledger.LookupFailure(errors.New("confidential")))
}

func TestAnotherDatabaseCanBeAsked(t *testing.T) {
	t.Parallel()
	b := withDeliveries(t)
	o := ledger.LookupOptions{Statement: deliveries, Timeout: time.Minute, Conns: 2}
	other := ledgertest.Pool(t, ledgertest.URL(t))
	_, err := ledger.OpenLookup(t.Context(), other.Config(), o)
	require.ErrorIs(t, err, ledger.ErrLookup, "the table is in the first one")
	l, err := ledger.OpenLookup(t.Context(), b.pool.Config(), o)
	require.NoError(t, err)
	t.Cleanup(l.Close)
	got, err := l.Ask(t.Context(), "k/yes:1:go")
	require.NoError(t, err)
	require.Equal(t, "m-1", got.Receipt)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = ledger.OpenLookup(gone, b.pool.Config(), o)
	require.Error(t, err)
	require.NotErrorIs(t, err, ledger.ErrLookup, "a server that does not answer now may answer later")
}
