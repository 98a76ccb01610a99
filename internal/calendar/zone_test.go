package calendar

import (
	"testing"
	"time"
	_ "time/tzdata" // for machines without zone data of their own

	"github.com/stretchr/testify/require"
)

func TestOldNamesLeadToTheNameOfToday(t *testing.T) {
	t.Parallel()
	for old, today := range map[string]string{
		"Asia/Calcutta":       "Asia/Kolkata",
		"Asia/Katmandu":       "Asia/Kathmandu",
		"US/Pacific":          "America/Los_Angeles",
		"EST5EDT":             "EST5EDT",
		"Etc/UTC":             "UTC",
		"Zulu":                "UTC",
		"UTC":                 "UTC",
		"Europe/Amsterdam":    "Europe/Amsterdam",
		"Arctic/Longyearbyen": "Arctic/Longyearbyen",
	} {
		z, err := LoadZone(old)
		require.NoError(t, err)
		require.Equal(t, today, z.Name(), old)
		require.Equal(t, today, z.Location().String(), old)
	}
}

func TestWhatIsNoZoneIsRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "Local", "Mars/X", "europe/paris", "Factory", "links", "version", "Europe", "Europe/", "../etc/passwd", "+02:00", " UTC", "UTC\n"} {
		_, err := LoadZone(name)
		require.ErrorIs(t, err, ErrUnknownZone, "%q", name)
		require.False(t, KnownZone(name), "%q", name)
	}
}

func TestEveryListedNameLoadsAndItsCanonicalNameIsItsOwn(t *testing.T) {
	t.Parallel()
	names := ZoneNames()
	require.Greater(t, len(names), 590)
	for _, name := range names {
		z, err := LoadZone(name)
		require.NoError(t, err)
		again, err := LoadZone(z.Name())
		require.NoError(t, err)
		require.Equal(t, z.Name(), again.Name())
	}
}

// The embedded data must be as new as this: British Columbia put its clocks forward
// for good in 2026, which data of 2025 do not know.
func TestTheDataKnowTheRulesOfToday(t *testing.T) {
	t.Parallel()
	require.GreaterOrEqual(t, Release(), "2026f")
	z, err := LoadZone("America/Vancouver")
	require.NoError(t, err)
	_, offset := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC).In(z.Location()).Zone()
	require.Equal(t, -7*3600, offset)
}

// What the standard library has of the years past must be what is embedded.
func TestTheDataAgreeWithTheStandardLibraryOnThePast(t *testing.T) {
	t.Parallel()
	from := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, name := range []string{"Europe/Paris", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia"} {
		z, err := LoadZone(name)
		require.NoError(t, err)
		theirs, err := time.LoadLocation(name)
		require.NoError(t, err)
		for day := range 365 * 20 {
			at := from.AddDate(0, 0, day)
			require.Equal(t, at.In(theirs).Format(time.RFC3339), at.In(z.Location()).Format(time.RFC3339), name)
		}
	}
}
