package calendar

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEachRecipientIsDueOnItsOwnClock(t *testing.T) {
	t.Parallel()
	s := compile(t, Spec{Cron: "30 2 29 3 *", Zone: "Europe/Paris", Clock: ClockRecipient, Period: PeriodDate})
	o, ok := s.Next(instant(t, "2026-01-01T00:00:00Z"))
	require.True(t, ok)
	require.Equal(t, "2026-03-28T12:30:00Z", o.At.Format(time.RFC3339), "the run opens where the day is first, at UTC+14")
	for name, want := range map[string]string{
		"Pacific/Kiritimati": "2026-03-28T12:30:00Z",
		"Asia/Calcutta":      "2026-03-28T21:00:00Z",
		"Europe/Paris":       "2026-03-29T01:00:00Z", // a gap there
		"Atlantic/Azores":    "2026-03-29T02:30:00Z",
		"America/New_York":   "2026-03-29T06:30:00Z",
		"Etc/GMT+12":         "2026-03-29T14:30:00Z",
	} {
		require.Equal(t, want, s.Due(o, zone(t, name)).Format(time.RFC3339), name)
	}
	require.Equal(t, s.Due(o, zone(t, "Europe/Paris")), s.Due(o, nil), "without a zone, the schedule's")
	require.Equal(t, "2026-03-29T14:30:00Z", s.LastDue(o).Format(time.RFC3339))
	require.Equal(t, "2026-03-29", s.PeriodOf(o))

	shifted := compile(t, Spec{Cron: "30 2 29 3 *", Zone: "Europe/Paris", Clock: ClockRecipient, Gap: GapShift, Overlap: OverlapSecond, Period: PeriodDate})
	require.Equal(t, "2026-03-29T01:30:00Z", shifted.Due(o, nil).Format(time.RFC3339))
	autumn, ok := compile(t, Spec{Cron: "30 2 25 10 *", Zone: "UTC", Clock: ClockRecipient, Period: PeriodDate}).Next(instant(t, "2026-06-01T00:00:00Z"))
	require.True(t, ok)
	require.Equal(t, "2026-10-25T00:30:00Z", s.Due(autumn, nil).Format(time.RFC3339))
	require.Equal(t, "2026-10-25T01:30:00Z", shifted.Due(autumn, nil).Format(time.RFC3339))

	narrow := compile(t, Spec{Cron: "0 9 * * *", Zone: "Europe/Paris", Clock: ClockRecipient, EarliestZone: "Europe/Helsinki", Period: PeriodDate})
	o, ok = narrow.Next(instant(t, "2026-06-01T00:00:00Z"))
	require.True(t, ok)
	require.Equal(t, "2026-06-01T06:00:00Z", o.At.Format(time.RFC3339))
	require.True(t, narrow.Due(o, zone(t, "Asia/Tokyo")).Before(o.At), "who is earlier than the earliest zone is late from the beginning")

	one := compile(t, Spec{Cron: "0 9 * * *", Zone: "Europe/Paris", Period: PeriodDate})
	o, ok = one.Next(instant(t, "2026-06-01T00:00:00Z"))
	require.True(t, ok)
	require.Equal(t, o.At, one.Due(o, zone(t, "Asia/Tokyo")), "on the schedule's clock all are due at once")
	require.Equal(t, o.At, one.LastDue(o))
}

// The run of an occurrence opens before all of its recipients are due, and LastDue is
// behind all of them, wherever they are.
func TestNoZoneIsDueOutsideOfTheWorldsDay(t *testing.T) {
	t.Parallel()
	s := compile(t, Spec{Cron: "30 2 * * *", Zone: "UTC", Clock: ClockRecipient, Period: PeriodDate})
	for _, name := range ZoneNames() {
		z := zone(t, name)
		for day := NewDate(2026, 1, 1); day < NewDate(2031, 1, 1); day += 3 {
			// Jumps are on Sundays and some Fridays: all days come by within years.
			wall := day.At(150)
			at, _ := wall.In(s.Opens())
			o := Occurrence{At: at, Wall: wall, Named: day}
			due := s.Due(o, z)
			require.False(t, due.Before(o.At), "%s %s", name, wall)
			require.False(t, due.After(s.LastDue(o)), "%s %s", name, wall)
		}
	}
}
