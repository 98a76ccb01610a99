// Package failpoint names the places in Duly where a fault can be asked for: the moments between two things that
// happen together in a picture and apart in a machine.
//
// # Free when off
//
// A program that is built without the tag `failpoints` has none: At and Pass are empty functions that the compiler
// removes together with the names (off.go). Nothing can turn them on in a program that is shipped, and a test of
// test/e2e reads the shipped programs for the names. With the tag (on.go) the same lines ask an Engine.
//
// # How faults are asked for
//
// DULY_FAILPOINTS holds rules, separated by commas, each PLACE=ACT with a moment behind it:
//
//	worker-leased=crash@3        the third time that this process comes there
//	settle-reply=lose%5          five times in a hundred, by the dice
//	http-sent=pause:2s           each time
//	*=crash%0.1                  at every place that can, once in a thousand times
//	*=any%1                      whatever the place offers
//
// The first rule that fires decides. The dice are those of DULY_FAILPOINTS_SEED (default 1): whether the n-th pass of
// a place fires depends on the seed, the rule, the place and n, and on nothing else, however goroutines interleave.
// A process that is started again begins to count anew, so whoever starts it again gives it another seed, or it dies
// again at the same pass.
//
// # Acts
//
//   - crash ends the process as a SIGKILL does: no deferred call runs, no connection is closed in peace
//   - pause:DURATION holds the goroutine there, and nothing else of the process (default 1 s)
//   - error makes what comes next fail before it did anything, as a network that is down would
//   - lose makes what was just done fail, although it was done: its reply was lost
//
// Every place can crash and pause; whether it has an error or a reply to lose is in the list of places.
//
// # What fired
//
// A process appends a line of JSON to the file DULY_FAILPOINTS_LOG for each fault, before it acts, and a crash waits
// until the line is on the disk. ReadLog reads it and Uncovered says which rules never fired: a fault that was asked
// for and did not happen proves nothing, so whoever runs with faults must fail then.
//
// # How to add a place
//
// Name it in places.go, call At where an error can be returned and Pass where none can, on one line, and add it to
// docs/proof.md. A test holds the three to each other.
package failpoint
