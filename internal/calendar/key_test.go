package calendar

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKeysNameThePeriodAndColumns(t *testing.T) {
	t.Parallel()
	template, err := ParseKeyTemplate("digest:{period}:{customer}/{customer}-{contract_2}")
	require.NoError(t, err)
	require.Equal(t, []string{"customer", "contract_2"}, template.Columns())
	require.Equal(t, "digest:{period}:{customer}/{customer}-{contract_2}", template.String())
	row := map[string]string{"customer": "1842", "contract_2": "{period}"}
	value := func(column string) (string, bool) { v, ok := row[column]; return v, ok }
	key, err := template.Expand("2026-W42", value)
	require.NoError(t, err)
	require.Equal(t, "digest:2026-W42:1842/1842-{period}", key, "values are not read again")
	delete(row, "contract_2")
	_, err = template.Expand("2026-W42", value)
	require.ErrorIs(t, err, ErrNoValue)
	require.ErrorContains(t, err, "column contract_2: it is null in this row")

	single, err := ParseKeyTemplate("{period}")
	require.NoError(t, err)
	require.Empty(t, single.Columns())
}

func TestWrongKeyTemplatesAreRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"digest:{customer}":   `key "digest:{customer}": it must contain {period}, or the jobs of the next run would be taken for copies of this one's`,
		"":                    `key: it must contain {period}, or the jobs of the next run would be taken for copies of this one's`,
		"a{period":            `key "a{period": a '{' is not closed; placeholders are {period} and {column}`,
		"a}{period}":          `key "a}{period}": a '}' closes nothing; placeholders are {period} and {column}`,
		"{period}:{Customer}": `key "{period}:{Customer}": {Customer} names no column: a column has 1 to 63 characters of a-z, 0-9 and '_', a letter first`,
		"{period}:{}":         `key "{period}:{}": {} names no column: a column has 1 to 63 characters of a-z, 0-9 and '_', a letter first`,
		"{period}:{a}{b}":     `key "{period}:{a}{b}": a text must stand before {b}, or other values of the two could make the same key`,
		"{period}:{a} {b{c}}": "key \"{period}:{a} {b{c}}\": {b{c} names no column: a column has 1 to 63 characters of a-z, 0-9 and '_', a letter first\nkey \"{period}:{a} {b{c}}\": a '}' closes nothing; placeholders are {period} and {column}",
	} {
		_, err := ParseKeyTemplate(text)
		require.EqualError(t, err, want, text)
	}
}
