package holiday

import (
	"testing"
	"time"

	"github.com/rickar/cal/v2"
	"github.com/stretchr/testify/require"
)

func of(t *testing.T, code string) *Calendar {
	t.Helper()
	c, ok := Of(code)
	require.True(t, ok, code)
	return c
}

func TestHolidaysAreThoseThatAreObserved(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code, date, want string
	}{
		{"fr", "2026-07-14", "Fête Nationale"},
		{"fr", "2026-04-06", "Lundi de Pâques"},
		{"fr", "2026-07-15", ""},
		{"de", "2026-10-03", "Tag der Deutschen Einheit"},
		{"de", "2026-11-01", ""},
		{"de-by", "2026-11-01", "Allerheiligen"},
		{"us", "2026-07-03", "Independence Day"}, // the 4th is a Saturday
		{"us", "2026-07-04", ""},
		{"us", "2021-12-31", "New Year's Day"}, // of 2022, a Saturday
		{"gb", "2027-12-27", "Christmas Day"},  // the 25th is a Saturday
		{"gb", "2027-12-28", "Boxing Day"},
		{"ecb", "2026-05-01", "Labour Day"},
	} {
		at, err := time.Parse(time.DateOnly, c.date)
		require.NoError(t, err)
		require.Equal(t, c.want, of(t, c.code).On(at.Date()), "%s %s", c.code, c.date)
	}
}

func TestUnknownCodesAreNotFound(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"", "FR", "france", "aa", "de-xx"} {
		_, ok := Of(code)
		require.False(t, ok, "%q", code)
	}
	require.Contains(t, Codes(), "fr")
	require.IsIncreasing(t, Codes())
}

// The library's own answer, day by day, is ours: ours only remembers a year at a time.
func TestEveryCalendarAgreesWithTheLibrary(t *testing.T) {
	t.Parallel()
	for _, code := range Codes() {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			ours := of(t, code)
			theirs := &cal.Calendar{Holidays: countries[code]}
			found := 0
			for at := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() < 2031; at = at.AddDate(0, 0, 1) {
				_, observed, _ := theirs.IsHoliday(at)
				name := ours.On(at.Date())
				if observed {
					require.NotEmpty(t, name, at)
				}
				if name != "" {
					found++
				}
			}
			require.GreaterOrEqual(t, found, 7*5, "a country has more than five holidays a year")
		})
	}
}
