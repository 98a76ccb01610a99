package calendar

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// The small texts of a schedule: what is read is written as it reads again.
func FuzzTexts(f *testing.F) {
	for _, text := range []string{
		"2026-09-30", "17:00", "last", "-2", "saturday", "SAT", "2026-09-30T17:00:00", "2026-09-30 17:00", "Europe/Paris", "Asia/Calcutta", "24:00", "0", "2026-02-30",
		"0000-01-01", "9999-12-31", "Local", "", "../etc", "+31",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := ParseDate(text); err == nil && d.String() != text {
			t.Fatalf("date %q is %s", text, d)
		}
		var c Clock
		if err := c.UnmarshalText([]byte(text)); err == nil && c.String() != text {
			t.Fatalf("clock %q is %s", text, c)
		}
		var b, again BusinessDay
		if err := b.UnmarshalText([]byte(text)); err == nil && (again.UnmarshalText([]byte(b.String())) != nil || again != b) {
			t.Fatalf("business day %q is %s", text, b)
		}
		var w Weekday
		if err := w.UnmarshalText([]byte(text)); err == nil && !strings.EqualFold(time.Weekday(w).String()[:3], text[:3]) {
			t.Fatalf("day of the week %q is %s", text, time.Weekday(w))
		}
		if l, err := ParseLocal(text); err == nil {
			if same, err := ParseLocal(l.String()); err != nil || same != l {
				t.Fatalf("wall time %q is %s", text, l)
			}
		}
		if z, err := LoadZone(text); err == nil && (z.Location() == nil || z.Given() != text || !KnownZone(z.Name())) {
			t.Fatalf("zone %q is %s", text, z)
		}
	})
}

func FuzzHolidays(f *testing.F) {
	for _, text := range []string{"2026-12-24 Christmas Eve\n", "# none\n\n", "2026-12-24\n", "2026-12-24 a\n2026-12-24 b", "2026-02-30 x", "\xff", "2026-01-01\tNew Year\r\n", " 2026-01-01 x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		days, err := ParseHolidays([]byte(text))
		if err != nil {
			if _, ok := errors.AsType[*LineError](err); !ok {
				t.Fatalf("%q is refused without a line: %v", text, err)
			}
			return
		}
		for day, name := range days {
			if name == "" || !strings.Contains(text, day.String()) {
				t.Fatalf("%q has the holiday %s %q", text, day, name)
			}
		}
	})
}

// A template that is taken makes keys of which nobody can tell two rows' values apart only
// where they are the same.
func FuzzKeyTemplate(f *testing.F) {
	f.Add("digest:{period}:{customer}", "a", "b")
	f.Add("{period}{customer}", "a", "b")
	f.Add("{a}-{period}", "{period}", "")
	f.Add("{", "", "")
	f.Add("}{period}", "x", "y")
	f.Fuzz(func(t *testing.T, text, one, other string) {
		k, err := ParseKeyTemplate(text)
		if err != nil {
			if len(leaves(err)) == 0 {
				t.Fatalf("%q is refused without a reason", text)
			}
			return
		}
		if k.String() != text {
			t.Fatalf("%q is %q", text, k)
		}
		expand := func(value string) string {
			key, err := k.Expand("2026-W42", func(string) (string, bool) { return value, true })
			if err != nil {
				t.Fatal(err)
			}
			return key
		}
		if len(k.Columns()) > 0 && one != other && expand(one) == expand(other) {
			t.Fatalf("%q makes one key of %q and %q", text, one, other)
		}
		if !strings.Contains(expand(one), "2026-W42") {
			t.Fatalf("%q lacks the period", text)
		}
	})
}

// Whatever a person asks for, an occurrence that is found is called so.
func FuzzPeriod(f *testing.F) {
	for _, text := range []string{"2026-W42", "2026-09-30", "2026-09", "2026-11-01T01-04", "2026-11-01T05:30:00Z", "2026-W99", "0000-W00", "9999-W53", "-1-W01", ""} {
		f.Add(text)
	}
	schedules := map[Period]*Schedule{}
	for period, cron := range map[Period]string{PeriodISOWeek: "0 9 * * 1", PeriodDate: "0 9 * * *", PeriodMonth: "0 9 1 * *", PeriodHour: "0 * * * *", PeriodOccurrence: "*/5 * * * *"} {
		s, err := Compile(Spec{Cron: cron, Zone: "America/New_York", Period: period}, nil)
		if err != nil {
			f.Fatal(err)
		}
		schedules[period] = s
	}
	f.Fuzz(func(t *testing.T, text string) {
		for period, s := range schedules {
			if o, ok := s.Occurrence(text); ok && s.PeriodOf(o) != text {
				t.Fatalf("%s %q is that of %s, which is called %s", period, text, o.At, s.PeriodOf(o))
			}
		}
	})
}

// A rule of business days is taken or refused with a field, and where it is taken it fires
// on business days alone, at its times.
func FuzzBusinessRule(f *testing.F) {
	f.Add(3, -1, 9*60, 60, "next", uint8(0b1000001))
	f.Add(31, -31, 0, 0, "previous", uint8(0))
	f.Add(0, 40, -1, 1440, "keep", uint8(0b1111110))
	f.Add(1, 1, 23*60+59, 23*60+59, "skip", uint8(0b1111111))
	f.Fuzz(func(t *testing.T, one, other, at, also int, moved string, weekend uint8) {
		var closed []Weekday
		for day := range 7 {
			if weekend&(1<<day) != 0 {
				closed = append(closed, Weekday(day))
			}
		}
		business, err := NewBusiness(closed)
		if err != nil {
			if len(closed) < 7 {
				t.Fatal(err)
			}
			return
		}
		s, err := Compile(Spec{
			BusinessDays: []BusinessDay{BusinessDay(one), BusinessDay(other)}, At: []Clock{Clock(at), Clock(also)}, Zone: "UTC",
			Holidays: "here", NonBusinessDay: NonBusinessDay(moved), Period: PeriodOccurrence,
		}, business)
		if err != nil {
			for _, one := range leaves(err) {
				if one.Rule == "" || one.Field == "" {
					t.Fatalf("refused without a reason: %v", err)
				}
			}
			return
		}
		next := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for range 4 {
			o, ok := s.Next(next)
			if !ok {
				return
			}
			clock := o.At.Hour()*60 + o.At.Minute()
			if !o.At.After(next) || business.Closed(o.Named) != "" || clock != at && clock != also {
				t.Fatalf("behind %s it fires at %s", next, o.At)
			}
			next = o.At
		}
	})
}
