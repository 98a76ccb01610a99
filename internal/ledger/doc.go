// Package ledger is Duly's authority on state, on PostgreSQL. It is the only
// package with SQL; the statements stand in its *.sql files, each with its
// contract above it.
//
// The ledger decides nothing. machine.Next decides, and the ledger guards: every
// store is a compare-and-set on what the decision was made from. There are two
// ways to a state change:
//
//   - The hot paths (a first lease, a delivered result, an enqueue) are one
//     statement a batch. The statement's predicate admits exactly the rows for
//     which the decision is known beforehand; it returns what it changed, from
//     which alone events and outbox rows come. One row is the event of a whole
//     batch: in duly.lease of its leases, in duly.done of its deliveries.
//   - Everything else, and whatever a hot statement left unchanged, is decided one
//     by one: lock a batch of rows in id order, read the clock, Next, store
//     (decide.go).
//
// What happened to a job is read from the view duly.history: the rows of duly.event,
// and those of duly.done that the job's row leads to.
//
// Time is the database's: clock_timestamp() wherever a statement may have waited
// for a lock. Every transaction that promises something sets synchronous_commit
// itself, so that a careless server default cannot weaken a promise.
//
// No session state is kept between transactions: it works behind a pooler in
// transaction mode.
package ledger
