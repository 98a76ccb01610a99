package calendar

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// naive decides whether a wall time fits an expression by reading the expression anew
// for each, element by element. It knows nothing of the implementation and is what the
// implementation is held to.
func naive(expr string, at time.Time) bool {
	f := strings.Fields(strings.ToUpper(expr))
	day := naiveField(f[2], at.Day(), 1, 31, nil) || naiveDaySigns(f[2], at)
	weekday := naiveField(f[4], int(at.Weekday()), 0, 7, dayOfWeek.names) ||
		at.Weekday() == 0 && naiveField(f[4], 7, 0, 7, dayOfWeek.names) && !strings.Contains(f[4], "*") || naiveWeekdaySigns(f[4], at)
	fits := day && weekday
	if !strings.Contains(f[2], "*") && !strings.Contains(f[4], "*") {
		fits = day || weekday
	}
	return fits && naiveField(f[0], at.Minute(), 0, 59, nil) && naiveField(f[1], at.Hour(), 0, 23, nil) &&
		naiveField(f[3], int(at.Month()), 1, 12, append([]string{"?"}, monthField.names...))
}

func naiveField(field string, v, min, max int, names []string) bool {
	value := func(s string) int {
		if i := slices.Index(names, s); i >= 0 {
			return i
		}
		n, err := strconv.Atoi(s)
		if err != nil {
			return -1000
		}
		return n
	}
	for element := range strings.SplitSeq(field, ",") {
		span, stepText, hasStep := strings.Cut(element, "/")
		step := 1
		if hasStep {
			step = value(stepText)
		}
		from, to := min, max
		if first, second, isRange := strings.Cut(span, "-"); isRange {
			from, to = value(first), value(second)
			if to == 0 && from > 0 && max == 7 {
				to = 7
			}
		} else if span != "*" {
			from, to = value(span), value(span)
		}
		if v >= from && v <= to && (v-from)%step == 0 {
			return true
		}
	}
	return false
}

func naiveDaySigns(field string, at time.Time) bool {
	isWorkday := func(t time.Time) bool { return t.Weekday() != time.Saturday && t.Weekday() != time.Sunday }
	last := time.Date(at.Year(), at.Month()+1, 0, 0, 0, 0, 0, time.UTC)
	nearest := func(day int) int {
		for distance := range 4 {
			for _, d := range []int{day - distance, day + distance} {
				t := time.Date(at.Year(), at.Month(), d, 0, 0, 0, 0, time.UTC)
				if d >= 1 && d <= last.Day() && isWorkday(t) {
					return d
				}
			}
		}
		return 0
	}
	for element := range strings.SplitSeq(field, ",") {
		switch day, isNearest := strings.CutSuffix(element, "W"); {
		case element == "L" && at.Day() == last.Day():
			return true
		case element == "LW" && at.Day() == nearest(last.Day()):
			return true
		case isNearest && day != "L":
			n, err := strconv.Atoi(day)
			if err == nil && n <= last.Day() && at.Day() == nearest(n) {
				return true
			}
		}
	}
	return false
}

func naiveWeekdaySigns(field string, at time.Time) bool {
	is := func(name string) bool {
		return naiveField(name, int(at.Weekday()), 0, 6, dayOfWeek.names) || at.Weekday() == 0 && name == "7"
	}
	for element := range strings.SplitSeq(field, ",") {
		if name, nth, ok := strings.Cut(element, "#"); ok && is(name) && strconv.Itoa((at.Day()+6)/7) == nth {
			return true
		}
		if name, ok := strings.CutSuffix(element, "L"); ok && is(name) && at.AddDate(0, 0, 7).Month() != at.Month() {
			return true
		}
	}
	return false
}

func parsed(t require.TestingT, expr string) Cron {
	c, err := ParseCron(expr)
	require.NoError(t, err, expr)
	return c
}

// fits decides by the implementation.
func (c Cron) fits(at time.Time) bool {
	return c.month(at.Year(), at.Month()).has(at.Day()) && slices.Contains(c.times(), Clock(at.Hour()*60+at.Minute()))
}

func TestCronNamesTheDaysThatItSays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		expr  string
		month string
		want  []int
	}{
		{"0 0 * * *", "2026-02", []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28}},
		{"0 0 L * *", "2024-02", []int{29}},
		{"0 0 L * *", "2100-02", []int{28}},
		{"0 0 1,L * *", "2026-04", []int{1, 30}},
		{"0 0 LW * *", "2026-01", []int{30}},  // the 31st is a Saturday
		{"0 0 lw * *", "2026-05", []int{29}},  // the 31st is a Sunday
		{"0 0 LW * *", "2026-06", []int{30}},  // a Tuesday
		{"0 0 15W * *", "2026-08", []int{14}}, // a Saturday
		{"0 0 15W * *", "2026-11", []int{16}}, // a Sunday
		{"0 0 15w * *", "2026-07", []int{15}},
		{"0 0 1W * *", "2026-08", []int{3}},   // a Saturday, and the month before is another
		{"0 0 31W * *", "2026-05", []int{29}}, // a Sunday, and so is the month behind
		{"0 0 31W * *", "2026-06", nil},
		{"0 0 * * MON#2", "2026-09", []int{14}},
		{"0 0 * * mon#1,FRI#3", "2026-09", []int{7, 18}},
		{"0 0 * * 2#5", "2026-09", []int{29}},
		{"0 0 * * 1#5", "2026-09", nil},
		{"0 0 * * 5L", "2026-09", []int{25}},
		{"0 0 * * friL", "2026-10", []int{30}},
		{"0 0 * * 7L", "2026-08", []int{30}},
		{"0 0 * * 7#1", "2026-08", []int{2}},
		{"0 0 * * 0", "2026-08", []int{2, 9, 16, 23, 30}},
		{"0 0 * * 7", "2026-08", []int{2, 9, 16, 23, 30}},
		{"0 0 * * SAT-SUN", "2026-08", []int{1, 2, 8, 9, 15, 16, 22, 23, 29, 30}},
		{"0 0 * * 5-7", "2026-08", []int{1, 2, 7, 8, 9, 14, 15, 16, 21, 22, 23, 28, 29, 30}},
		{"0 0 * FEB-MAR,Dec *", "2026-04", nil},
		{"0 0 10-20/5 JAN *", "2026-01", []int{10, 15, 20}},
		{"0 0 */10 * *", "2026-01", []int{1, 11, 21, 31}},
		// Either of both fits, unless one contains '*'.
		{"0 9 1-7,15-21 * 1", "2026-09", []int{1, 2, 3, 4, 5, 6, 7, 14, 15, 16, 17, 18, 19, 20, 21, 28}},
		{"0 9 31 * MON", "2026-02", []int{2, 9, 16, 23}},
		{"0 9 1-31 * MON", "2026-02", []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28}},
		{"0 9 */2 * MON", "2026-02", []int{9, 23}},
		{"0 9 13 * */5", "2026-02", []int{13}}, // a Friday; of March the 13th too
		{"0 9 13 * */5", "2026-04", nil},
	} {
		t.Run(c.expr+" "+c.month, func(t *testing.T) {
			t.Parallel()
			month, err := time.Parse("2006-01", c.month)
			require.NoError(t, err)
			days := parsed(t, c.expr).month(month.Year(), month.Month())
			var got []int
			for day := 1; day <= 31; day++ {
				if days.has(day) {
					got = append(got, day)
				}
			}
			require.Equal(t, c.want, got)
			require.Len(t, c.want, days.count())
		})
	}
}

func TestCronNamesTheTimesThatItSays(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]string{
		"0 9 * * *":            "09:00",
		"5,05,5 009 * * *":     "09:05",
		"*/20 7-8 * * *":       "07:00 07:20 07:40 08:00 08:20 08:40",
		"50-59/4 23 * * *":     "23:50 23:54 23:58",
		"0,30 0,12-14/2 * * *": "00:00 00:30 12:00 12:30 14:00 14:30",
	} {
		var got []string
		for _, clock := range parsed(t, expr).times() {
			got = append(got, clock.String())
		}
		require.Equal(t, want, strings.Join(got, " "), expr)
	}
	require.Len(t, parsed(t, "* * * * *").times(), 24*60)
}

func TestEverythingThatIsWrongWithAnExpressionIsToldAtOnce(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string][]string{
		"60 24 0 13 8": {
			`minute "60": it must be between 0 and 59`, `hour "24": it must be between 0 and 23`, `day "0": it must be between 1 and 31`,
			`month "13": it must be between 1 and 12, or one of JAN to DEC`, `weekday "8": it must be between 0 and 7, or one of SUN to SAT`,
		},
		"61,x,5 * * * *":               {`minute "61": it must be between 0 and 59`, `minute "X": it must be between 0 and 59`},
		"0 0 * * MONDAY":               {`weekday "MONDAY": it must be between 0 and 7, or one of SUN to SAT`},
		"0 0 * MON *":                  {`month "MON": it must be between 1 and 12, or one of JAN to DEC`},
		"0 0 32W * *":                  {`day "32W": before W, it must be between 1 and 31`},
		"0 0 L-3 * *":                  {`day "L-3": it must be between 1 and 31`},
		"0 0 * * L":                    {`weekday "L": before L, it must be between 0 and 7, or one of SUN to SAT`},
		"0 0 * * MON#6":                {`weekday "MON#6": behind # it must be a number from 1 to 5`},
		"0 0 * * MONL#1":               {`weekday "MONL#1": behind # it must be a number from 1 to 5`},
		"0 0 * * X#1":                  {`weekday "X#1": before #1, it must be between 0 and 7, or one of SUN to SAT`},
		"*/0 * * * *":                  {`minute "*/0": a step must be a number of at least 1`},
		"*/x * * * *":                  {`minute "*/X": a step must be a number of at least 1`},
		"*/60 * * * *":                 {`minute "*/60": a step of 60 leaves only the first value of *: write 0`},
		"5/15 * * * *":                 {`minute "5/15": a step follows * or a range: write 5-59/15`},
		"0 0 * * 5/1":                  {`weekday "5/1": a step follows * or a range: write 5-6/1`},
		"0 22-2 * * *":                 {`hour "22-2": the range runs backwards: write 22-23,0-2`},
		"0 0 * * FRI-MON":              {`weekday "FRI-MON": the range runs backwards: write FRI-6,0-MON`},
		"0 0 * NOV-FEB *":              {`month "NOV-FEB": the range runs backwards: write NOV-12,1-FEB`},
		"-1 0 * * *":                   {`minute "-1": it must be between 0 and 59`},
		"+1 0 * * *":                   {`minute "+1": it must be between 0 and 59`},
		"1, 0 * * *":                   {`minute: it must be between 0 and 59`},
		"?  0 * * *":                   {`minute "?": it must be between 0 and 59`},
		"0 0 * * ":                     {`cron "0 0 * * ": it must have five fields (minute, hour, day, month, weekday), but has 4; there are no seconds, years, aliases or zones in it`},
		"0 0 0 * * *":                  {`cron "0 0 0 * * *": it must have five fields (minute, hour, day, month, weekday), but has 6; there are no seconds, years, aliases or zones in it`},
		"":                             {`cron: it must have five fields (minute, hour, day, month, weekday), but has 0; there are no seconds, years, aliases or zones in it`},
		"@Daily":                       {`cron "@Daily": aliases are not taken, since they hide at what time of which zone; write 0 0 * * *`},
		"0 0 * * \u017fun":             {"cron \"0 0 * * \u017fun\": it must be plain ASCII"},
		"@every 5m":                    {`cron "@every 5m": it must have five fields (minute, hour, day, month, weekday), but has 2; there are no seconds, years, aliases or zones in it`},
		"99999999999999999999 * * * *": {`minute "99999999999999999999": it must be between 0 and 59`},
	} {
		_, err := ParseCron(expr)
		require.Error(t, err, expr)
		require.Equal(t, want, strings.Split(err.Error(), "\n"), expr)
	}
}

func TestC11ImpossibleDatesAreRefusedAndRareOnesAreNot(t *testing.T) {
	t.Parallel()
	for _, expr := range []string{"0 0 31 2 *", "0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 30 FEB */2", "0 0 31W 2,4 *"} {
		_, err := ParseCron(expr)
		require.ErrorContains(t, err, "it never fires", expr)
	}
	next := func(expr, after string) string {
		s := compile(t, Spec{Cron: expr, Zone: "UTC", Period: PeriodDate})
		o, ok := s.Next(instant(t, after))
		require.True(t, ok)
		return o.At.Format(time.DateOnly)
	}
	require.Equal(t, "2028-02-06", next("0 0 30 2 0", "2028-02-01T00:00:00Z"), "valid, since a Sunday fits")
	require.Equal(t, "2028-02-29", next("0 0 29 2 *", "2024-03-01T00:00:00Z"))
	require.Equal(t, "2104-02-29", next("0 0 29 2 *", "2096-03-01T00:00:00Z"), "2100 is no leap year")
	require.Equal(t, "2116-02-29", next("0 0 29 2 */6", "2096-03-01T00:00:00Z"), "on a Saturday or Sunday, which took 20 years")
}

func TestC09DayOrWeekdayIsEitherAndWarned(t *testing.T) {
	t.Parallel()
	s := compile(t, Spec{Cron: "0 9 1-7,15-21 * 1", Zone: "UTC", Period: PeriodDate})
	var got []string
	for o := range s.All(instant(t, "2026-09-01T12:00:00Z")) {
		if got = append(got, o.At.Format(time.DateOnly)); len(got) == 10 {
			break
		}
	}
	require.Equal(t, []string{
		"2026-09-02", "2026-09-03", "2026-09-04", "2026-09-05", "2026-09-06", "2026-09-07", "2026-09-14", "2026-09-15", "2026-09-16", "2026-09-17",
	}, got)
	require.Equal(t, []string{`day "1-7,15-21" and weekday "1": it fires on days that fit either of them, not only both, since neither contains '*'`}, s.Warnings())
	require.True(t, parsed(t, "0 9 1-31 * 1").EitherDay(), "1-31 counts as restricted")
	require.False(t, parsed(t, "0 9 */2 * 1").EitherDay(), "what contains '*' does not")
	require.Equal(t, []string{`day "*/2" and weekday "1": it fires on days that fit both of them, since one contains '*'`},
		compile(t, Spec{Cron: "0 9 */2 * 1", Zone: "UTC", Period: PeriodDate}).Warnings())
	require.Empty(t, compile(t, Spec{Cron: "0 9 * * 1", Zone: "UTC", Period: PeriodDate}).Warnings())
	require.Equal(t, []string{`minute "*/7" begins anew with each hour, so that the last interval of an hour is shorter; use every for an even one`},
		compile(t, Spec{Cron: "*/7 9 * * 1", Zone: "UTC", Period: PeriodOccurrence}).Warnings())
}

// drawField draws a list of one to three elements of a field.
func drawField(t *rapid.T, f cronField, signs ...string) string {
	value := rapid.IntRange(f.min, f.max)
	element := func(t *rapid.T) string {
		switch kind := rapid.IntRange(0, 5+len(signs)).Draw(t, f.name+" kind"); kind {
		case 0, 1:
			return "*"
		case 2:
			return "*/" + strconv.Itoa(rapid.IntRange(1, f.last()-f.min).Draw(t, "step"))
		case 3:
			if len(f.names) > 0 {
				return rapid.SampledFrom(f.names).Draw(t, "name")
			}
			fallthrough
		case 4:
			return strconv.Itoa(value.Draw(t, "value"))
		case 5:
			from := value.Filter(func(v int) bool { return v < f.max }).Draw(t, "from")
			to := rapid.IntRange(from+1, f.max).Draw(t, "to")
			return strconv.Itoa(from) + "-" + strconv.Itoa(to) + "/" + strconv.Itoa(rapid.IntRange(1, to-from).Draw(t, "step"))
		default:
			return signs[kind-6]
		}
	}
	n := rapid.IntRange(1, 3).Draw(t, f.name+" elements")
	elements := make([]string, n)
	for i := range elements {
		elements[i] = element(t)
	}
	return strings.Join(elements, ",")
}

// drawCron draws an expression that fires, and tries to make it fire rarely.
func drawCron(t *rapid.T) string {
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join([]string{
			drawField(t, minuteField), drawField(t, hourField), drawField(t, dayOfMonth, "L", "LW", "1W", "15W", "31W"),
			drawField(t, monthField), drawField(t, dayOfWeek, "MON#2", "0#1", "fri#5", "SUNL", "3L"),
		}, " ")
	}).Filter(func(expr string) bool { _, err := ParseCron(expr); return err == nil }).Draw(t, "cron")
}

// Property: on each minute of some days the implementation says what the naive reading says.
func TestCronAgreesWithANaiveReading(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		expr := drawCron(t)
		c := parsed(t, expr)
		day := drawInstant(t).Truncate(24 * time.Hour)
		times := c.times()
		for range 40 {
			days := c.month(day.Year(), day.Month())
			for minute := 0; minute < 24*60; minute += 7 {
				at := day.Add(time.Duration(minute) * time.Minute)
				_, timeFits := slices.BinarySearch(times, Clock(minute))
				require.Equal(t, naive(expr, at), timeFits && days.has(at.Day()), "%s at %s", expr, at)
			}
			day = day.AddDate(0, 0, 1)
		}
	})
}

func FuzzParseCron(f *testing.F) {
	for _, expr := range []string{
		"* * * * *", "*/5 0-23/2 1,15,L JAN-MAR MON#2", "0 9 1-7,15-21 * 1", "0 0 31 2 *", "0 0 LW * FRIL", "0 0 15W * 7", "5/15 * * * *",
		"@daily", "0 22-2 * * SAT-SUN", "0 0 L-3 * ?", "99999 * * * *", "\x00 * * * *", "* * * * * *", "0 0 * * #", "0 0 W * L", "0 0 ,, * ,",
	} {
		f.Add(expr)
	}
	f.Fuzz(func(t *testing.T, expr string) {
		c, err := ParseCron(expr)
		if err != nil {
			for _, one := range leaves(err) {
				if one.Rule == "" || one.Field == "" {
					t.Fatalf("%q is refused without a reason: %v", expr, err)
				}
			}
			return
		}
		s, err := Compile(Spec{Cron: expr, Zone: "UTC", Period: PeriodOccurrence}, nil)
		if err != nil {
			t.Fatalf("%q is taken, but its schedule is not: %v", expr, err)
		}
		after := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		next, ok := s.Next(after)
		if !ok {
			t.Fatalf("%q is taken, but never fires", expr)
		}
		if !c.fits(next.At) || !naive(expr, next.At) {
			t.Fatalf("%q fires at %s, which does not fit", expr, next.At)
		}
	})
}
