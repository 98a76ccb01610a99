// Package calendar turns what people write about time into instants: a local wall
// time in an IANA zone becomes one instant, by a written rule where the clocks of
// the zone jump.
//
// Twice a year a zone has local times that do not exist (the clocks are put
// forward: a gap) and local times that exist twice (they are put back: an
// overlap). The rules are:
//
//   - in a gap, the first valid instant: when the clocks jump from 02:00 to 03:00,
//     02:30 means 03:00;
//   - in an overlap, the first of the two.
//
// The package is pure. Zones come from data that is embedded in the program
// (zones.zip, made by mkzones), never from the machine, so that every process of
// one build means the same instant by the same words. Old names such as
// Asia/Calcutta are accepted and lead to the zone's name of today.
package calendar
