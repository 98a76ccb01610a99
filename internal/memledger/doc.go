// Package memledger is the ledger in memory: a map, and machine.Next. It keeps the
// same promises as the ledger on PostgreSQL, with nothing between the promise and
// the code that keeps it: no statement, no index, no hot path. Tests and
// simulations run the loops on it, and hold the real ledger against it.
//
// A call is a transaction. It happens at one instant of the ledger's clock, as a
// whole or not at all, and calls happen one after another. What a call announces
// joins the outbox in the order of commits.
//
// Faults are part of the model. A hook may let any call fail before it committed,
// lose its reply after it committed, or let it commit only later, when its caller
// has long been told that nobody knows (machine.ErrUnclear).
package memledger
