package ledger_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/ledger"
)

const addresses = `SELECT a.key, c.mail AS destination FROM unnest($1::text[], $2::text[]) AS a (key, subject) JOIN customer c ON c.id = a.subject`

// withAddresses is a ledger with a table of the user's own beside it.
func withAddresses(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.exec(`CREATE TABLE customer (id text NOT NULL, mail varchar(100))`)
	b.exec(`INSERT INTO customer VALUES ('1', 'one@example.com'), ('2', NULL), ('3', 'a@example.com'), ('3', 'b@example.com'), ('4', '')`)
	return b
}

func (b *bench) resolver(statement string, timeout time.Duration) *ledger.Resolver {
	b.t.Helper()
	r, err := b.OpenResolver(ledger.ResolverOptions{Statement: statement, Timeout: timeout, Conns: 2})
	require.NoError(b.t, err)
	b.t.Cleanup(r.Close)
	return r
}

func TestAStatementSaysWhereManyEffectsGo(t *testing.T) {
	t.Parallel()
	b := withAddresses(t)
	r := b.resolver(addresses, time.Minute)
	require.NoError(t, r.Try(t.Context()))
	jobs := []ledger.Asked{
		{Key: "k:9", Subject: "9"},
		{Key: "k:4", Subject: "4"},
		{Key: "k:3", Subject: "3"},
		{Key: "k:2", Subject: "2"},
		{Key: "k:1", Subject: "1", Destination: "old@example.com"},
		{Key: "'; DROP TABLE customer; --"},
	}
	one, empty := "one@example.com", ""
	for range 2 { // the second time the statement is known
		found, err := r.Ask(t.Context(), jobs)
		require.NoError(t, err)
		require.Equal(t, 2, found[2].Rows)
		found[2].Destination = nil
		require.Equal(t, []ledger.Found{{}, {Rows: 1, Destination: &empty}, {Rows: 2}, {Rows: 1}, {Rows: 1, Destination: &one}, {}}, found)
	}
	given := b.resolver(`SELECT k AS key, d AS destination FROM unnest($1::text[], $2::text[], $3::text[]) AS a (k, s, d)`, time.Minute)
	found, err := given.Ask(t.Context(), jobs[4:5])
	require.NoError(t, err)
	require.Equal(t, "old@example.com", *found[0].Destination)
	keys := b.resolver(`SELECT k::name AS key, 'x'::char(3) AS destination FROM unnest($1::varchar[]) AS k`, time.Minute)
	found, err = keys.Ask(t.Context(), jobs[4:5])
	require.NoError(t, err)
	require.Equal(t, "x  ", *found[0].Destination)
}

func TestAResolveThatCannotWorkIsRefused(t *testing.T) {
	t.Parallel()
	b := withAddresses(t)
	for statement, want := range map[string]string{
		"": "it must be given",
		"SELECT id AS key, mail AS destination FROM customer":                                       "it must name its parameter, $1",
		"SELECT id AS key, '$1' AS destination FROM customer":                                       "it must name its parameter, $1",
		"SELECT id AS key, mail AS destination FROM customer WHERE id = ANY ($1::text[]) OR $4":     "it has three parameters at most",
		"SELECT id AS key, mail AS destination FROM customer WHERE id = ANY ($1::text[]); SELECT 1": "it must be one query, without a semicolon",
		"DELETE FROM customer WHERE id = ANY ($1::text[])":                                          "it must be one query: SELECT",
	} {
		_, err := b.OpenResolver(ledger.ResolverOptions{Statement: statement, Timeout: time.Minute})
		require.ErrorIs(t, err, ledger.ErrResolve, statement)
		require.ErrorContains(t, err, want, statement)
	}
	for statement, want := range map[string]string{
		"SELECT id AS key, mail AS destination FROM customer WHERE id = $1":                                      "its parameter $1 is no array of texts",
		"SELECT id AS key FROM customer WHERE id = ANY ($1::text[])":                                             "it returns 1 columns",
		"SELECT mail AS destination, id AS key FROM customer WHERE id = ANY ($1::text[])":                        "its column 1 must be key, of type text",
		"SELECT id AS key, 1 AS destination FROM customer WHERE id = ANY ($1::text[])":                           "its column 2 must be destination, of type text",
		"SELECT id AS key, mail AS destination FROM nowhere WHERE id = ANY ($1::text[])":                         "SQLSTATE 42P01",
		"WITH x AS (DELETE FROM customer WHERE id = ANY ($1::text[]) RETURNING *) SELECT id AS key, mail FROM x": "its column 2 must be destination",
	} {
		r := b.resolver(statement, time.Minute)
		err := r.Try(t.Context())
		require.ErrorIs(t, err, ledger.ErrResolve, statement)
		require.ErrorContains(t, err, want, statement)
		_, err = r.Ask(t.Context(), []ledger.Asked{{Key: "1"}})
		require.True(t, ledger.ResolveWrong(err), "%s: %v", statement, err)
	}
}

// What a statement does when it is asked: nothing of it is an address, and nothing of its
// data is told.
func TestAResolveThatFailsTellsWhyWithoutItsData(t *testing.T) {
	t.Parallel()
	b := withAddresses(t)
	jobs := []ledger.Asked{{Key: "1", Subject: "1"}}
	for statement, c := range map[string]struct {
		says        string
		wrong, late bool
	}{
		"SELECT id AS key, mail AS destination FROM customer WHERE $1::text[] IS NOT NULL":                                             {"returned a key that was not asked for", true, false},
		"SELECT NULL::text AS key, 'x' AS destination FROM unnest($1::text[])":                                                         {"returned a key that was not asked for", true, false},
		"SELECT k AS key, (k::int / 0)::text AS destination FROM unnest($1::text[]) k":                                                 {"SQLSTATE 22012", false, false},
		"SELECT k AS key, pg_sleep(60)::text AS destination FROM unnest($1::text[]) k":                                                 {"", false, true},
		"WITH x AS (DELETE FROM customer WHERE id = ANY ($1::text[]) RETURNING id, mail) SELECT id AS key, mail AS destination FROM x": {"SQLSTATE 25006", false, false},
	} {
		_, err := b.resolver(statement, 300*time.Millisecond).Ask(t.Context(), jobs)
		require.Error(t, err, statement)
		require.Contains(t, ledger.ResolveFailure(err), c.says, statement)
		require.NotContains(t, ledger.ResolveFailure(err), "example.com")
		require.Equal(t, []bool{c.wrong, c.late}, []bool{ledger.ResolveWrong(err), ledger.ResolveLate(err)}, "%s: %v", statement, err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := b.resolver(addresses, time.Minute).Ask(over, jobs)
	require.Contains(t, ledger.ResolveFailure(err), "no connection to the database")
	require.Equal(t, 5, b.count(`SELECT count(*) FROM customer`))
}
