package calendar

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestWallTimesResolveByTheWrittenRule(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, local, zone, want string
		fit                     Fit
	}{
		{"an ordinary afternoon", "2026-09-30T17:00:00", "Europe/Paris", "2026-09-30T15:00:00Z", Once},
		{"UTC never jumps", "2026-03-29T02:30:00", "UTC", "2026-03-29T02:30:00Z", Once},
		{"a gap of an hour fires at its end", "2026-03-29T02:30:00", "Europe/Paris", "2026-03-29T01:00:00Z", Skipped},
		{"the first minute of the gap", "2026-03-29T02:00:00", "Europe/Paris", "2026-03-29T01:00:00Z", Skipped},
		{"the end of the gap exists", "2026-03-29T03:00:00", "Europe/Paris", "2026-03-29T01:00:00Z", Once},
		{"an overlap means the first", "2026-10-25T02:30:00", "Europe/Paris", "2026-10-25T00:30:00Z", Repeated},
		{"the overlap begins", "2026-10-25T02:00:00", "Europe/Paris", "2026-10-25T00:00:00Z", Repeated},
		{"the overlap is over", "2026-10-25T03:00:00", "Europe/Paris", "2026-10-25T02:00:00Z", Once},
		{"an old name", "2026-03-08T02:30:00", "US/Pacific", "2026-03-08T10:00:00Z", Skipped},
		{"a gap of half an hour", "2026-10-04T02:15:00", "Australia/Lord_Howe", "2026-10-03T15:30:00Z", Skipped},
		{"a gap at midnight", "2018-11-04T00:00:00", "America/Sao_Paulo", "2018-11-04T03:00:00Z", Skipped},
		{"a day that was left out", "2011-12-30T12:00:00", "Pacific/Apia", "2011-12-30T10:00:00Z", Skipped},
		{"an offset of 45 minutes", "2026-01-01T00:00:00", "Asia/Katmandu", "2025-12-31T18:15:00Z", Once},
		{"beyond the table of jumps", "2199-07-01T12:00:00", "Europe/Paris", "2199-07-01T10:00:00Z", Once},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			local, err := ParseLocal(c.local)
			require.NoError(t, err)
			got, fit := local.In(zone(t, c.zone))
			require.Equal(t, c.want, got.Format(time.RFC3339))
			require.Equal(t, c.fit, fit)
			require.Equal(t, time.UTC, got.Location())
		})
	}
}

func TestWhatIsNoWallTimeIsRefused(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"", "5 PM", "17:00", "2026-09-30", "2026-02-30T10:00:00", "2026-13-01T10:00:00", "2026-09-30T24:00:00",
		"2026-09-30T17:00:60", "2026-09-30T17:00:00Z", "2026-09-30T17:00:00+02:00", "26-09-30T17:00:00", "2026-09-30T17:00:00 ",
	} {
		_, err := ParseLocal(s)
		require.ErrorIs(t, err, ErrLocal, "%q", s)
	}
}

func TestWallTimesReadBackAsWritten(t *testing.T) {
	t.Parallel()
	for in, out := range map[string]string{
		"2026-09-30T17:00:00":      "2026-09-30T17:00:00",
		"2026-09-30 17:00":         "2026-09-30T17:00:00",
		"2026-09-30T17:00:00.2500": "2026-09-30T17:00:00.25",
	} {
		l, err := ParseLocal(in)
		require.NoError(t, err)
		require.Equal(t, out, l.String())
		again, err := ParseLocal(l.String())
		require.NoError(t, err)
		require.Equal(t, l, again)
	}
}

// Property: the wall time that an instant shows resolves to that instant, or to an
// earlier one that shows the same.
func TestAnInstantsWallTimeResolvesToTheFirstInstantThatShowsIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		z, at := drawZone(t), drawInstant(t)
		shown := LocalAt(at, z)
		got, fit := shown.In(z)
		require.NotEqual(t, Skipped, fit)
		require.Equal(t, shown, LocalAt(got, z), "the result shows the same wall time")
		require.False(t, got.After(at), "the first was taken")
		if !got.Equal(at) {
			require.Equal(t, Repeated, fit)
		}
	})
}

// Property: where no instant shows the wall time, the result is the first instant
// after the jump: it shows later, and a nanosecond before it the clocks showed earlier.
func TestASkippedWallTimeResolvesToTheFirstValidInstant(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		z := drawZone(t)
		wall := Local{drawNearJump(t, z)}
		got, fit := wall.In(z)
		require.False(t, got.IsZero())
		shown := LocalAt(got, z)
		if fit != Skipped {
			require.Equal(t, wall, shown)
			return
		}
		require.True(t, shown.wall.After(wall.wall))
		require.True(t, LocalAt(got.Add(-1), z).wall.Before(wall.wall))
	})
}

func TestEveryPeriodOfAZoneEndsBehindItsBeginning(t *testing.T) {
	t.Parallel()
	last := time.Date(2201, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, name := range ZoneNames() {
		z := zone(t, name)
		for at := time.Date(1850, 1, 1, 0, 0, 0, 0, time.UTC); at.Before(last); {
			_, end := period(at, z)
			if end.IsZero() {
				break
			}
			require.True(t, end.After(at), "%s at %s", name, at)
			at = end
		}
	}
}

func TestTheLastDayOfALeapYearIsADay(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"America/New_York", "Australia/Sydney", "Europe/Paris", "Africa/Cairo"} {
		for _, wall := range []string{"2028-12-30T23:30:00", "2028-12-31T12:00:00", "2029-01-01T00:30:00"} {
			l, err := ParseLocal(wall)
			require.NoError(t, err)
			at, fit := l.In(zone(t, name))
			require.Equal(t, Once, fit)
			require.Equal(t, wall, LocalAt(at, zone(t, name)).String())
		}
	}
}

func zone(t require.TestingT, name string) *Zone {
	z, err := LoadZone(name)
	require.NoError(t, err)
	return z
}

func drawZone(t *rapid.T) *Zone {
	return zone(t, rapid.SampledFrom(ZoneNames()).Draw(t, "zone"))
}

func drawInstant(t *rapid.T) time.Time {
	first := time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	last := time.Date(2200, 12, 31, 0, 0, 0, 0, time.UTC).Unix()
	return time.Unix(rapid.Int64Range(first, last).Draw(t, "instant"), 0).UTC()
}

// drawNearJump draws a wall time within a day of the next jump of the zone's clocks.
func drawNearJump(t *rapid.T, z *Zone) time.Time {
	at := drawInstant(t)
	if _, end := period(at, z); !end.IsZero() {
		at = end
	}
	offset, _ := period(at, z)
	return at.Add(offset).Add(time.Duration(rapid.Int64Range(-86400, 86400).Draw(t, "seconds")) * time.Second)
}
