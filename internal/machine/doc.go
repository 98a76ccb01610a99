// Package machine decides, once and for everybody, what happens to a generation
// of a job: one transition table and one pure function,
//
//	Next(row, event, now) → row', what is recorded, what is emitted
//
// SQL decides nothing, it guards: every store of a decision is a compare-and-set
// on what the decision was made from (generation, state, fence). The ledger on
// PostgreSQL and the ledger in memory both call Next; docs/states.md is generated
// from the same table.
//
// Three ideas carry the rules.
//
// Certainty before class. An attempt ends delivered, failed (it provably did not
// happen) or unknown (it may have happened). A lease that ended without a result
// is unknown, because a process can be paused between its last check and its
// first byte.
//
// Doubt is sticky. A generation of which some attempt ended unknown, and which no
// receipt, lookup or person has settled, is in doubt. It may be repeated only where
// its receiver promised to dedupe and only inside that window; it can end only as
// delivered or unknown, whatever ended it. So "quarantined" means: as far as anyone
// could know, it did not happen.
//
// Evidence is never refused. A worker whose lease is over changes nothing by
// failing late, but a late success is the best news there is: it makes a current
// generation delivered from any state but cancelled, and where it comes too late
// even for that it is recorded and shown.
//
// Fold turns it round: it replays what was recorded of a job through Next, and tells
// every place where the rows that a ledger holds are not what comes of that.
//
// What ledgers and loops hand each other lies here too, beside Row, so that no loop
// knows which ledger it works on: requests (enqueued.go), leases and reports (lease.go,
// report.go), the outbox (outbox.go), what persons decide (person.go, denied.go), sweeps
// (sweep.go), what is shown (story.go), how unknown outcomes are asked about (asking.go), and the errors that loops act
// on (errors.go).
//
// The package knows no clock, no randomness and no I/O: now is the ledger's clock,
// given by the caller, and jitter is drawn from the row's identity.
package machine
