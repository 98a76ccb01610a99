package calendar

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// DayOff names the holiday that falls on a day; "" is none.
type DayOff func(Date) string

// Business says which days are business days: those that are neither of the weekend nor
// a holiday. The zero value has no weekend and no holidays.
type Business struct {
	weekend [7]bool
	off     []DayOff
}

// ErrAllWeekend refuses a week without a business day.
var ErrAllWeekend = errors.New("at least one day of the week must not be of the weekend")

// NewBusiness makes a calendar of business days. The first of off that names a holiday
// gives its name.
func NewBusiness(weekend []Weekday, off ...DayOff) (*Business, error) {
	b := &Business{off: off}
	for _, day := range weekend {
		b.weekend[day] = true
	}
	if b.weekend == [7]bool{true, true, true, true, true, true, true} {
		return nil, ErrAllWeekend
	}
	return b, nil
}

// Closed says why a day is no business day: the name of its holiday, or of the day of
// the weekend. "" is a business day.
func (b *Business) Closed(d Date) string {
	for _, off := range b.off {
		if name := off(d); name != "" {
			return name
		}
	}
	if weekday := d.Weekday(); b.weekend[weekday] {
		return weekday.String()
	}
	return ""
}

// maxClosed is the longest closure, in days, that a day is moved over.
const maxClosed = 366

// Roll returns the day itself if it is a business day, and else the nearest one before
// it (by -1) or behind it (by 1); false where everything is closed for over a year.
func (b *Business) Roll(d Date, by int) (Date, bool) {
	for range maxClosed {
		if b.Closed(d) == "" {
			return d, true
		}
		d += Date(by)
	}
	return d, false
}

// Add goes n business days on from a day, or back where n is negative: 1 is the first
// business day behind it, whether it is one itself or not. 0 is the day itself.
func (b *Business) Add(d Date, n int) (Date, bool) {
	by := 1
	if n < 0 {
		n, by = -n, -1
	}
	for range n {
		next, ok := b.Roll(d+Date(by), by)
		if !ok {
			return d, false
		}
		d = next
	}
	return d, true
}

// businessDays are numbered business days of each month.
type businessDays struct {
	days     []BusinessDay
	business *Business
}

// month implements dayRule.
func (r businessDays) month(year int, month time.Month) monthDays {
	var open []int
	first := NewDate(year, month, 1)
	for day := 1; day <= lengthOf(year, month); day++ {
		if r.business.Closed(first+Date(day-1)) == "" {
			open = append(open, day)
		}
	}
	var days monthDays
	for _, n := range r.days {
		i := int(n) - 1
		if n < 0 {
			i = len(open) + int(n)
		}
		if i >= 0 && i < len(open) {
			days |= 1 << open[i]
		}
	}
	return days
}

const (
	maxHolidayName = 80
	maxHolidays    = 10_000
)

// LineError is a line of a file of holidays that is refused.
type LineError struct {
	Line int
	Rule string
}

// Error is line 12: rule.
func (e *LineError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Rule) }

// ParseHolidays reads a file of holidays: on each line a date and what it is called,
//
//	2026-12-24 Christmas Eve
//
// in any order. Empty lines and those that begin with '#' are passed over. Everything
// else is refused, all errors joined, each a *LineError: a date that does not exist or is
// there twice, a holiday without a name.
func ParseHolidays(data []byte) (map[Date]string, error) {
	days := map[Date]string{}
	lines := map[Date]int{}
	var errs []error
	n := 0
	for raw := range bytes.Lines(data) {
		n++
		line := strings.TrimSpace(string(raw))
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		date, name, err := parseHoliday(line)
		switch {
		case err != nil:
			errs = append(errs, &LineError{n, err.Error()})
		case lines[date] != 0:
			errs = append(errs, &LineError{n, fmt.Sprintf("%s is on line %d already", date, lines[date])})
		case len(days) == maxHolidays:
			return nil, errors.Join(append(errs, &LineError{n, fmt.Sprintf("there are more than %d holidays", maxHolidays)})...)
		default:
			days[date], lines[date] = name, n
		}
	}
	return days, errors.Join(errs...)
}

func parseHoliday(line string) (Date, string, error) {
	if !utf8.ValidString(line) {
		return 0, "", errors.New("it is not valid UTF-8")
	}
	text, name, _ := strings.Cut(line, " ")
	date, err := ParseDate(text)
	if err != nil {
		return 0, "", err
	}
	name = strings.TrimSpace(name)
	switch {
	case name == "":
		return 0, "", errors.New("behind the date and a space, it must say what day it is")
	case len(name) > maxHolidayName:
		return 0, "", fmt.Errorf("a holiday's name has at most %d bytes", maxHolidayName)
	}
	return date, name, nil
}
