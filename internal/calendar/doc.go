// Package calendar turns what people write about time into instants: when a schedule
// fires and what that occurrence is called, what is due after nobody looked for a while,
// and by when a job must be done.
//
// # Wall times
//
// People write wall times: what a clock on the wall shows, in an IANA zone. Twice a year
// a zone has wall times that do not exist (the clocks are put forward: a gap) and ones
// that exist twice (they are put back: an overlap). The rules are, unless a schedule
// says otherwise:
//
//   - in a gap, the first valid instant: when the clocks jump from 02:00 to 03:00, 02:30
//     means 03:00;
//   - in an overlap, the first of the two.
//
// So what is to happen once a day happens once on every day. An interval, and a cron
// expression with '*' in the minute or the hour, means "again and again" and goes by
// elapsed time: it fires in both hours of an overlap, and in a gap there is nothing to
// fire at.
//
// # Schedules
//
// Compile makes a Schedule of a Spec: a cron expression, an interval or numbered business
// days, in a zone. A rule names days and times of day; a day that is no business day may
// be skipped, or moved to the nearest one before or behind it; then gap and overlap
// decide about the instants. What the rule named stays known beside what came of it: the
// 1st of August that is moved to the 31st of July is still August's.
//
// An occurrence is called by its period (an ISO week, a date, a month, an hour, or its
// own instant), and one run is made of each period. Compile proves that no two
// occurrences share one: the Gregorian calendar is the same again after 400 years, so
// that for what depends on nothing but the calendar all of it is looked at.
//
// Decide answers what a scheduler asks: given the last decision and now, what is due, what
// is missed, and when to ask again. It is a function, and its work is bounded however long
// nobody asked, so that a scheduler that was down for a year, a clock that jumps, and
// several schedulers at once are ordinary cases of it.
//
// # Zones
//
// The package is pure. Zones come from data that is embedded in the program (zones.zip,
// made by mkzones), never from the machine, so that every process of one build means the
// same instant by the same words. Old names such as Asia/Calcutta are accepted and lead to
// the zone's name of today. Holidays are given by the caller; package holiday knows
// those of countries.
package calendar
