package calendar

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// endOfTime is behind every instant that Duly takes (the years 2000 to 2200).
var endOfTime = time.Date(2201, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	daySeconds  = 24 * 60 * 60
	dayDuration = 24 * time.Hour
)

// Date is a day of the Gregorian calendar, counted from 1970-01-01. It is of no zone.
type Date int

// NewDate is the date of a year, month and day. Days beyond a month's end lead into the
// next, as in time.Date.
func NewDate(year int, month time.Month, day int) Date {
	return Date(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / daySeconds)
}

// ErrDate is what every refused date matches with errors.Is.
var ErrDate = errors.New("it must be a date that exists, such as 2026-09-30")

// ParseDate reads a date in the form 2026-09-30.
func ParseDate(s string) (Date, error) {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return 0, fmt.Errorf("date %q: %w", short(s), ErrDate)
	}
	return Date(floorDiv(t.Unix(), daySeconds)), nil
}

// UnmarshalText is ParseDate.
func (d *Date) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDate(string(text))
	return err
}

func (d Date) midnight() time.Time { return time.Unix(int64(d)*daySeconds, 0).UTC() }

// Date is the year, month and day.
func (d Date) Date() (year int, month time.Month, day int) { return d.midnight().Date() }

// Weekday is the day of the week.
func (d Date) Weekday() time.Weekday { return d.midnight().Weekday() }

// String is the date in the form 2026-09-30.
func (d Date) String() string { return d.midnight().Format(time.DateOnly) }

// At is the wall time of a clock on the day.
func (d Date) At(c Clock) Local { return Local{d.midnight().Add(time.Duration(c) * time.Minute)} }

// Date is the day of the wall time.
func (l Local) Date() Date { return Date(floorDiv(l.wall.Unix(), daySeconds)) }

// isoWeek counts the weeks from Monday to Sunday; two days have the same number if
// and only if they lie in the same ISO week.
func (d Date) isoWeek() int { return int(floorDiv(int64(d)+3, 7)) } // 1970-01-01 was a Thursday

// floorDiv divides and rounds down, also below zero.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// Clock is a time of day in minutes after midnight, 0 to 1439.
type Clock int

// UnmarshalText reads a time of day in the form 17:00.
func (c *Clock) UnmarshalText(text []byte) error {
	t, err := time.Parse("15:04", string(text))
	if err != nil || len(text) != len("15:04") {
		return errors.New("it must be a time of day in hours and minutes, such as \"17:00\"")
	}
	*c = Clock(t.Hour()*60 + t.Minute())
	return nil
}

// String is the time of day in the form 17:00.
func (c Clock) String() string { return fmt.Sprintf("%02d:%02d", int(c)/60, int(c)%60) }

// monthDays are days of a month: bit d stands for day d, 1 to 31.
type monthDays uint32

// allDays are the days of a month of a length.
func allDays(length int) monthDays { return monthDays(1<<(length+1) - 2) }

func (m monthDays) has(day int) bool { return m&(1<<day) != 0 }

func (m monthDays) count() int { return bits.OnesCount32(uint32(m)) }

// lowest is the first day; of none it is 32.
func (m monthDays) lowest() int { return bits.TrailingZeros32(uint32(m)) }

// lengthOf is how many days a month has.
func lengthOf(year int, month time.Month) int {
	return time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// BusinessDay counts the business days of a month: 1 is the first, -1 the last, -2 the
// one before it.
type BusinessDay int

// maxBusinessDay is the most business days that a month can have, without a weekend.
const maxBusinessDay = 31

// UnmarshalText reads a number, or "last".
func (b *BusinessDay) UnmarshalText(text []byte) error {
	if strings.EqualFold(string(text), "last") {
		*b = -1
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n == 0 || n > maxBusinessDay || n < -maxBusinessDay {
		return errors.New("it must be a number such as 3, last, or a number from the end such as -2")
	}
	*b = BusinessDay(n)
	return nil
}

// String is the number, or "last".
func (b BusinessDay) String() string {
	if b == -1 {
		return "last"
	}
	return strconv.Itoa(int(b))
}

// Weekday is a day of the week that is written by its name.
type Weekday time.Weekday

// UnmarshalText reads an English name such as saturday, or its first three letters.
func (w *Weekday) UnmarshalText(text []byte) error {
	for day := time.Sunday; day <= time.Saturday; day++ {
		name := day.String()
		if strings.EqualFold(string(text), name) || strings.EqualFold(string(text), name[:3]) {
			*w = Weekday(day)
			return nil
		}
	}
	return errors.New("it must be a day of the week, such as saturday")
}

// String is the English name.
func (w Weekday) String() string { return time.Weekday(w).String() }
