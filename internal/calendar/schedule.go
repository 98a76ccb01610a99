package calendar

import (
	"fmt"
	"strings"
	"time"
)

// Schedule says when something is to be done, and what is done when it was not. It is
// made by Compile and not changed afterwards.
type Schedule struct {
	spec Spec

	// Wall times: days that rules name, at times of day.
	cron  *Cron
	rules dayRule
	times []Clock
	// elapsed: the expression has '*' in minute or hour.
	elapsed bool

	// An interval; 0 for wall times.
	every  time.Duration
	anchor time.Time

	zone, opens *Zone // opens is the zone in which occurrences take place
	clock       Reference
	gap         Gap
	overlap     Overlap
	business    *Business
	closed      NonBusinessDay
	period      Period
	window      time.Duration
	catchUp     CatchUp
	catchUpMax  int
	running     WhileRunning
}

// dayRule names days.
type dayRule interface {
	month(year int, month time.Month) monthDays
}

// Zone is the schedule's zone; with ClockRecipient that of recipients without one.
func (s *Schedule) Zone() *Zone { return s.zone }

// Opens is the zone in which occurrences take place: Zone, or with ClockRecipient the
// zone whose clocks are before those of all recipients.
func (s *Schedule) Opens() *Zone { return s.opens }

// Clock says on whose clock the times are read.
func (s *Schedule) Clock() Reference { return s.clock }

// Period is what an occurrence is called by.
func (s *Schedule) Period() Period { return s.period }

// Window is how late an occurrence may fire without being late. A run belongs into the
// window that begins with its occurrence.
func (s *Schedule) Window() time.Duration { return s.window }

// CatchUp is the catch-up policy, and for CatchUpAll how many are caught up.
func (s *Schedule) CatchUp() (policy CatchUp, most int) { return s.catchUp, s.catchUpMax }

// WhileRunning is the policy while the run before is not over.
func (s *Schedule) WhileRunning() WhileRunning { return s.running }

// ClockRules are the rules of gaps and overlaps. Of an interval, both are empty.
func (s *Schedule) ClockRules() (Gap, Overlap) {
	if s.every > 0 {
		return "", ""
	}
	return s.gap, s.overlap
}

// String says when, in words for a table: the cron expression, "every 1h30m", or
// "business days 3, last at 09:00".
func (s *Schedule) String() string {
	switch {
	case s.cron != nil:
		return s.cron.String()
	case s.every > 0:
		return "every " + shortDuration(s.every)
	}
	days, times := make([]string, len(s.spec.BusinessDays)), make([]string, len(s.times))
	for i, day := range s.spec.BusinessDays {
		days[i] = day.String()
	}
	for i, at := range s.times {
		times[i] = at.String()
	}
	return fmt.Sprintf("business days %s at %s", strings.Join(days, ", "), strings.Join(times, ", "))
}

// Warnings are what is allowed and yet often not what was meant, in words.
func (s *Schedule) Warnings() []string {
	var all []string
	if s.cron == nil {
		if s.every > 0 && s.every%dayDuration == 0 {
			all = append(all, "an interval of whole days goes by elapsed time, so that its hour moves when the clocks change; use cron for a time of day")
		}
		return all
	}
	fields := strings.Fields(s.cron.text)
	switch {
	case s.cron.EitherDay():
		all = append(all, fmt.Sprintf("day %q and weekday %q: it fires on days that fit either of them, not only both, since neither contains '*'", fields[2], fields[4]))
	case s.cron.bothDays():
		all = append(all, fmt.Sprintf("day %q and weekday %q: it fires on days that fit both of them, since one contains '*'", fields[2], fields[4]))
	}
	if s.uneven() {
		all = append(all, fmt.Sprintf("minute %q begins anew with each hour, so that the last interval of an hour is shorter; use every for an even one", fields[0]))
	}
	return all
}

// uneven reports whether the minutes are a step of '*' that does not divide the hour.
func (s *Schedule) uneven() bool {
	_, step, ok := strings.Cut(strings.Fields(s.cron.text)[0], "*/")
	n, err := number(step)
	return ok && err == nil && 60%n != 0
}

// dependsOnHolidays reports whether the days on which it fires change with holidays,
// whose years are not all alike.
func (s *Schedule) dependsOnHolidays() bool {
	return s.business != nil && (s.closed == DaySkip || s.cron == nil)
}

// fires are the days of a month that rules name and that do not fall out.
func (s *Schedule) fires(year int, month time.Month) monthDays {
	days := s.rules.month(year, month)
	if s.closed != DaySkip {
		return days
	}
	for day := 1; day <= 31; day++ {
		if days.has(day) && s.business.Closed(NewDate(year, month, day)) != "" {
			days &^= 1 << day
		}
	}
	return days
}

// firstDay is a day on which the schedule fires; false where there is none in the years
// that are looked at.
func (s *Schedule) firstDay() (Date, bool) {
	for year, month := range s.months() {
		if days := s.fires(year, month); days != 0 {
			return NewDate(year, month, days.lowest()), true
		}
	}
	return 0, false
}

// months are the months that a proof looks at. The calendar is the same again after 400
// years; holidays are computed, or listed, for fewer.
func (s *Schedule) months() func(yield func(int, time.Month) bool) {
	first, years := 2026, 400
	if s.dependsOnHolidays() {
		years = 40
	}
	return func(yield func(int, time.Month) bool) {
		for n := range 12 * years {
			if !yield(first+n/12, time.Month(n%12+1)) {
				return
			}
		}
	}
}

// clocksOfOneHour are two times of day within one hour, if there are any.
func (s *Schedule) clocksOfOneHour() (a, b Clock, found bool) {
	for i := 1; i < len(s.times); i++ {
		if s.times[i]/60 == s.times[i-1]/60 {
			return s.times[i-1], s.times[i], true
		}
	}
	return 0, 0, false
}
