// Package contact knows whether a process may trust what it sees of the ledger.
//
// Two things make a look at the ledger worthless. A process that was paused, or cut
// off, sees that nothing has changed and does not see that nobody could have changed
// anything: so whoever concludes from silence must have been in unbroken contact
// itself, by its own monotonic clock (Contact). And a ledger whose clock has stepped
// calls due what is not, and over what has just begun: so whoever acts on its
// instants stops for a while when they jump against the process's own monotonic
// clock (Clock). Watch joins both for the loops of one process.
package contact
