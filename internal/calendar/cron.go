package calendar

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Cron is a cron expression of five fields: minute, hour, day of the month, month and
// day of the week, as POSIX has them, with names, steps and the signs for last, nearest
// and numbered days. See ParseCron.
type Cron struct {
	text string

	minutes uint64
	hours   uint64
	months  uint64
	day     dayField
	weekday weekdayField

	// Whether the field contains '*'.
	anyMinute, anyHour, anyDay, anyWeekday bool
}

// dayField is the day of the month.
type dayField struct {
	days        uint64
	nearest     uint64 // 15W
	last        bool   // L
	lastWorkday bool   // LW
}

// weekdayField is the day of the week, 0 for Sunday.
type weekdayField struct {
	days uint64
	nth  [7]uint64 // MON#2: bit 2 of nth[1]
	last uint64    // FRIL
}

// aliases are not taken; the refusal says what to write.
var aliases = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// ParseCron reads an expression. Every element that is wrong is told, each as a
// FieldError with the name of its field (minute, hour, day, month, weekday); what is
// wrong with the whole has the field "cron". An expression that no day of any year
// fits, such as 31 February, is refused too.
//
//	field    values            signs
//	minute   0-59              * , - /
//	hour     0-23              * , - /
//	day      1-31              * , - /  L (last)  15W (weekday nearest the 15th)  LW (last weekday)
//	month    1-12, JAN-DEC     * , - /
//	weekday  0-7, SUN-SAT      * , - /  MON#2 (second Monday)  5L or FRIL (last Friday)
//
// 0 and 7 are Sunday; letters may be of either case. A step follows '*' or a range. If
// neither the day nor the weekday contains '*', a day needs to fit only one of them, as
// POSIX says ("the command will be run when either field matches", in the words of
// Vixie's crontab); so 1-31 counts as restricted, and */2 does not. The weekdays of W
// are Monday to Friday, whatever the holidays.
func ParseCron(text string) (Cron, error) {
	c := Cron{text: text}
	var r refusals
	fields := strings.Fields(text)
	if standsFor, ok := aliases[strings.ToLower(text)]; ok {
		r.add("cron", text, "aliases are not taken, since they hide at what time of which zone; write %s", standsFor)
		return c, r.join()
	}
	if strings.ContainsFunc(text, func(c rune) bool { return c > 127 }) {
		r.add("cron", text, "it must be plain ASCII")
		return c, r.join()
	}
	if len(fields) != 5 {
		r.add("cron", text, "it must have five fields (minute, hour, day, month, weekday), but has %d; there are no seconds, years, aliases or zones in it", len(fields))
		return c, r.join()
	}
	c.minutes = minuteField.parse(fields[0], &r, nil)
	c.hours = hourField.parse(fields[1], &r, nil)
	c.day.days = dayOfMonth.parse(fields[2], &r, c.day.sign)
	c.months = monthField.parse(fields[3], &r, nil)
	c.weekday.days = dayOfWeek.parse(fields[4], &r, c.weekday.sign)
	c.weekday.days = c.weekday.days&0x7f | c.weekday.days>>7 // 7 is Sunday too
	c.anyMinute, c.anyHour = strings.Contains(fields[0], "*"), strings.Contains(fields[1], "*")
	c.anyDay, c.anyWeekday = strings.Contains(fields[2], "*"), strings.Contains(fields[4], "*")
	if len(r) == 0 && !c.fires() {
		r.add("cron", text, "it never fires: no day of any year fits")
	}
	return c, r.join()
}

// String is the expression as it was written.
func (c Cron) String() string { return c.text }

// Wildcard reports whether the minute or the hour contains '*'. Such an expression means
// "again and again", and goes by elapsed time where the clocks jump.
func (c Cron) Wildcard() bool { return c.anyMinute || c.anyHour }

// EitherDay reports whether a day needs to fit only one of day and weekday.
func (c Cron) EitherDay() bool { return !c.anyDay && !c.anyWeekday }

// bothDays reports whether day and weekday both say something, and both must fit.
func (c Cron) bothDays() bool {
	restricted := func(bits, all uint64) bool { return bits&all != all }
	return !c.EitherDay() && restricted(c.weekday.days, 0x7f) && restricted(c.day.days, 1<<32-2)
}

// times are the times of day, in order.
func (c Cron) times() []Clock {
	var all []Clock
	for hour := range 24 {
		for minute := range 60 {
			if c.hours&(1<<hour) != 0 && c.minutes&(1<<minute) != 0 {
				all = append(all, Clock(hour*60+minute))
			}
		}
	}
	return all
}

// month implements dayRule.
func (c Cron) month(year int, month time.Month) monthDays {
	return c.fitting(month, NewDate(year, month, 1).Weekday(), lengthOf(year, month))
}

// fitting are the days that fit in a month that begins on a weekday and has a length.
func (c Cron) fitting(month time.Month, first time.Weekday, length int) monthDays {
	if c.months&(1<<month) == 0 {
		return 0
	}
	day, weekday := c.day.fitting(first, length), c.weekday.fitting(first, length)
	if c.EitherDay() {
		return day | weekday
	}
	return day & weekday
}

// fires tries every month that there can be: each begins on one of seven days, and
// February has two lengths.
func (c Cron) fires() bool {
	for month := time.January; month <= time.December; month++ {
		for first := time.Sunday; first <= time.Saturday; first++ {
			// 2024 was a leap year, 2023 none.
			if c.fitting(month, first, lengthOf(2024, month))|c.fitting(month, first, lengthOf(2023, month)) != 0 {
				return true
			}
		}
	}
	return false
}

// weekdayOf is the day of the week of a day in a month that begins on first.
func weekdayOf(day int, first time.Weekday) time.Weekday { return (first + time.Weekday(day-1)) % 7 }

func (f dayField) fitting(first time.Weekday, length int) monthDays {
	days := monthDays(f.days) & allDays(length) //nolint:gosec // the field has 32 bits
	if f.last {
		days |= 1 << length
	}
	if f.lastWorkday {
		days |= 1 << nearestWorkday(length, first, length)
	}
	for day := 1; day <= length; day++ {
		if f.nearest&(1<<day) != 0 {
			days |= 1 << nearestWorkday(day, first, length)
		}
	}
	return days
}

// nearestWorkday is the day from Monday to Friday that is nearest, in the same month.
func nearestWorkday(day int, first time.Weekday, length int) int {
	switch weekdayOf(day, first) {
	case time.Saturday:
		if day == 1 {
			return 3
		}
		return day - 1
	case time.Sunday:
		if day == length {
			return day - 2
		}
		return day + 1
	default:
		return day
	}
}

func (f weekdayField) fitting(first time.Weekday, length int) monthDays {
	var days monthDays
	for day := 1; day <= length; day++ {
		weekday := weekdayOf(day, first)
		nth := (day-1)/7 + 1
		isLast := day+7 > length
		if f.days&(1<<weekday) != 0 || f.nth[weekday]&(1<<nth) != 0 || isLast && f.last&(1<<weekday) != 0 {
			days |= 1 << day
		}
	}
	return days
}

// sign reads L, LW and 15W.
func (f *dayField) sign(element string) (bool, error) {
	switch number, isNearest := strings.CutSuffix(element, "W"); {
	case element == "L":
		f.last = true
	case element == "LW":
		f.lastWorkday = true
	case isNearest:
		day, err := dayOfMonth.value(number)
		if err != nil {
			return true, fmt.Errorf("before W, %w", err)
		}
		f.nearest |= 1 << day
	default:
		return false, nil
	}
	return true, nil
}

// sign reads MON#2 and FRIL.
func (f *weekdayField) sign(element string) (bool, error) {
	name, number, isNth := strings.Cut(element, "#")
	name, isLast := strings.CutSuffix(name, "L")
	if !isNth && !isLast {
		return false, nil
	}
	day, err := dayOfWeek.value(name)
	if err != nil {
		return true, fmt.Errorf("before %s, %w", element[len(name):], err)
	}
	if !isNth {
		f.last |= 1 << (day % 7)
		return true, nil
	}
	if isLast || len(number) != 1 || number < "1" || number > "5" {
		return true, errors.New("behind # it must be a number from 1 to 5")
	}
	f.nth[day%7] |= 1 << (number[0] - '0')
	return true, nil
}

// cronField is one of the five fields.
type cronField struct {
	name     string
	min, max int
	names    []string // of the values from min on
}

var (
	minuteField = cronField{"minute", 0, 59, nil}
	hourField   = cronField{"hour", 0, 23, nil}
	dayOfMonth  = cronField{"day", 1, 31, nil}
	monthField  = cronField{"month", 1, 12, []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}}
	dayOfWeek   = cronField{"weekday", 0, 7, []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}}
)

// parse returns the values of a list as bits, and has what the field writes in signs of
// its own read by sign.
func (f cronField) parse(text string, r *refusals, sign func(element string) (bool, error)) (bits uint64) {
	for element := range strings.SplitSeq(strings.ToUpper(text), ",") {
		if sign != nil {
			if ours, err := sign(element); ours {
				if err != nil {
					r.add(f.name, element, "%v", err)
				}
				continue
			}
		}
		some, err := f.element(element)
		if err != nil {
			r.add(f.name, element, "%v", err)
		}
		bits |= some
	}
	return bits
}

// element reads *, 5, 1-5, and the last with a step.
func (f cronField) element(element string) (uint64, error) {
	span, stepText, hasStep := strings.Cut(element, "/")
	from, to, err := f.span(span)
	if err != nil {
		return 0, err
	}
	step := 1
	if hasStep {
		switch step, err = number(stepText); {
		case err != nil || step == 0:
			return 0, errors.New("a step must be a number of at least 1")
		case from == to:
			return 0, fmt.Errorf("a step follows * or a range: write %d-%d/%d", from, f.last(), step)
		case step > to-from:
			return 0, fmt.Errorf("a step of %d leaves only the first value of %s: write %d", step, span, from)
		}
	}
	var bits uint64
	for v := from; v <= to; v += step {
		bits |= 1 << v
	}
	return bits, nil
}

// last is the largest value that has no other name.
func (f cronField) last() int {
	if f.name == dayOfWeek.name {
		return 6
	}
	return f.max
}

// span reads *, a value, or a range.
func (f cronField) span(text string) (from, to int, err error) {
	if text == "*" {
		return f.min, f.last(), nil
	}
	first, second, isRange := strings.Cut(text, "-")
	if from, err = f.value(first); err != nil || !isRange {
		return from, from, err
	}
	if to, err = f.value(second); err != nil {
		return 0, 0, err
	}
	if f.name == dayOfWeek.name && to == 0 && from > 0 {
		to = 7 // SAT-SUN
	}
	if from > to {
		return 0, 0, fmt.Errorf("the range runs backwards: write %s-%d,%d-%s", first, f.last(), f.min, second)
	}
	return from, to, nil
}

// value reads a number or a name.
func (f cronField) value(text string) (int, error) {
	if i := slices.Index(f.names, text); i >= 0 {
		return f.min + i, nil
	}
	v, err := number(text)
	if err != nil || v < f.min || v > f.max {
		rule := fmt.Sprintf("it must be between %d and %d", f.min, f.max)
		if f.names != nil {
			rule += fmt.Sprintf(", or one of %s to %s", f.names[0], f.names[len(f.names)-1])
		}
		return 0, errors.New(rule)
	}
	return v, nil
}

// number reads one to three digits; nothing in a field needs more.
func number(text string) (int, error) {
	if text == "" || len(text) > 3 {
		return 0, errors.New("no number")
	}
	n := 0
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return 0, errors.New("no number")
		}
		n = n*10 + int(c-'0')
	}
	return n, nil
}
