package calendar

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBusinessDaysAreThoseThatAreNotClosed(t *testing.T) {
	t.Parallel()
	b := testBusiness()
	require.Equal(t, "Saturday", b.Closed(NewDate(2026, 8, 1)))
	require.Equal(t, "Christmas", b.Closed(NewDate(2026, 12, 25)))
	require.Empty(t, b.Closed(NewDate(2026, 12, 28)))
	friday := NewDate(2026, 9, 4)
	for n, want := range map[int]string{0: "2026-09-04", 1: "2026-09-07", 5: "2026-09-11", -1: "2026-09-03", -5: "2026-08-28"} {
		got, ok := b.Add(friday, n)
		require.True(t, ok)
		require.Equal(t, want, got.String(), n)
	}
	saturday := friday + 1
	for n, want := range map[int]string{0: "2026-09-05", 1: "2026-09-07", -1: "2026-09-04"} {
		got, _ := b.Add(saturday, n)
		require.Equal(t, want, got.String(), n)
	}
	none, err := NewBusiness(nil)
	require.NoError(t, err)
	require.Empty(t, none.Closed(saturday))
	_, err = NewBusiness([]Weekday{0, 1, 2, 3, 4, 5, 6})
	require.ErrorIs(t, err, ErrAllWeekend)
	closed := &Business{off: []DayOff{func(Date) string { return "closed" }}}
	_, ok := closed.Roll(friday, 1)
	require.False(t, ok)
	_, ok = closed.Add(friday, -1)
	require.False(t, ok)
}

func TestHolidaysAreReadFromAFile(t *testing.T) {
	t.Parallel()
	days, err := ParseHolidays([]byte("# ours\n\n2026-12-24 Christmas Eve\r\n  2026-12-31   New Year's Eve, from noon \n"))
	require.NoError(t, err)
	require.Equal(t, map[Date]string{NewDate(2026, 12, 24): "Christmas Eve", NewDate(2026, 12, 31): "New Year's Eve, from noon"}, days)
	days, err = ParseHolidays(nil)
	require.NoError(t, err)
	require.Empty(t, days)

	_, err = ParseHolidays([]byte("2026-02-30 Never\n2026-12-24\n2026-12-25 Christmas\n24.12.2026 Eve\n2026-12-25 Again\n2026-12-26 \xff\n2026-12-27 " + string(make([]byte, 81)) + "\n"))
	require.EqualError(t, err, `line 1: date "2026-02-30": it must be a date that exists, such as 2026-09-30
line 2: behind the date and a space, it must say what day it is
line 4: date "24.12.2026": it must be a date that exists, such as 2026-09-30
line 5: 2026-12-25 is on line 3 already
line 6: it is not valid UTF-8
line 7: a holiday's name has at most 80 bytes`)
}

func TestWhatIsWrittenInAFieldIsRead(t *testing.T) {
	t.Parallel()
	var c Clock
	require.NoError(t, c.UnmarshalText([]byte("17:05")))
	require.Equal(t, "17:05", c.String())
	for _, wrong := range []string{"", "5 PM", "24:00", "7:00", "17:00:00", "17.00", "17:60"} {
		require.ErrorContains(t, c.UnmarshalText([]byte(wrong)), "it must be a time of day", wrong)
	}
	var b BusinessDay
	for text, want := range map[string]BusinessDay{"3": 3, "last": -1, "LAST": -1, "-2": -2, "31": 31} {
		require.NoError(t, b.UnmarshalText([]byte(text)))
		require.Equal(t, want, b)
	}
	require.Equal(t, "last", BusinessDay(-1).String())
	require.Equal(t, "-2", BusinessDay(-2).String())
	for _, wrong := range []string{"", "0", "32", "-32", "third", "1.5"} {
		require.ErrorContains(t, b.UnmarshalText([]byte(wrong)), "it must be a number such as 3", wrong)
	}
	var w Weekday
	for text, want := range map[string]time.Weekday{"saturday": time.Saturday, "Sun": time.Sunday, "FRI": time.Friday} {
		require.NoError(t, w.UnmarshalText([]byte(text)))
		require.Equal(t, want.String(), w.String())
	}
	require.Error(t, w.UnmarshalText([]byte("s")))
	var d Date
	require.NoError(t, d.UnmarshalText([]byte("1969-12-31")))
	require.Equal(t, Date(-1), d)
	require.ErrorIs(t, d.UnmarshalText([]byte("2026-02-29")), ErrDate)
	require.Equal(t, Date(-1), Local{time.Unix(-1, 0).UTC()}.Date())
}
