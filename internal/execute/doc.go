// Package execute is the worker: it takes references from the bus, leases them in
// the ledger, performs their effects and commits what came of them.
//
// # The path of a reference
//
//		receive → lease → begin → perform → settle → acknowledge
//
//	  - receive (lane.go): a message is taken only while there are free slots for all
//	    that it may hold. What a busy worker cannot start stays with the bus, where
//	    another worker finds it.
//	  - lease (lease.go): every reference in hand is leased at once, because its
//	    handler starts at once. All messages of a kind that are there at the same time
//	    share one round trip; nobody waits for more to come.
//	  - resolve (resolve.go), of some kinds: the destination is asked for, of all that were
//	    leased together at once, and stored; meanwhile the lane goes on.
//	  - begin (gate.go): the last check before the first byte.
//	  - perform (perform.go): one goroutine, one context, one limit an attempt. A
//	    goroutine whose attempt has ended may take another's that waits for its own
//	    (crew.go); the timer of a context is made when somebody waits for it
//	    (limited.go).
//	  - settle (settle.go): all reports that are there share one round trip.
//	  - acknowledge (message.go): a message is acknowledged when the ledger has
//	    committed what became of each of its references, never before.
//
// # Why an effect may begin
//
// A lease cannot stop a process: it can be paused between its last check and its
// first byte, for any time. What can be done is to make everything that follows
// safe, and that needs one bound that both sides keep: no byte of an attempt is
// written after its lease has ended, give or take the pause bound.
//
// The worker's side of the bound is the gate. All leases of a process hang on its
// one row in the ledger, which a heartbeat renews on a connection of its own
// (heart.go). The lease counts from the moment at which the last renewal that
// succeeded was sent, on the monotonic clock: the ledger counts from its arrival,
// which is later, so the worker always gives up first (session.go). An effect
// begins only if its whole limit still fits; afterwards only the limit ends it. A Go
// handler may take longer than a lease, on renewals, and in exchange its context
// ends before its lease does (watch.go). A machine that was suspended wakes with a
// monotonic clock that knows nothing of it; where it and the wall clock disagree,
// the lease counts as lost until the next renewal.
//
// # Where an effect goes
//
// A destination may be bound late: asked for right before an attempt, so that who moved
// since is reached at the new place. One effect key must never go to two places, though,
// and who repeats an attempt that may have happened need not be who made it. So where an
// attempt goes is in the ledger, durably, before it begins, under its fence: the ledger
// takes it only while the lease is the worker's. A later attempt in doubt is leased with
// what is stored, and goes there, without asking. Where nothing is stored, nothing was sent:
// whoever died, died before that. What an attempt did that surely failed binds nobody: the
// next one asks anew.
//
// Nothing is sent before the answer, so that no answer, whatever it is, leaves a doubt: an
// address that is not there, or of no use, fails for good; a resolver that fails, or is too
// slow, is asked again with the next attempt.
//
// # What costs an attempt, and what does not
//
// Only a begun effect costs one. What the gate refuses is handed back, uncounted.
// While the ledger cannot be reached, messages are kept in progress and nothing is
// counted; a shutdown hands back what did not begin and waits for what did.
//
// # When nobody knows
//
// A lease whose reply was lost may have been committed, or may still be. It is read
// back before anything else happens, and every heartbeat compares what the ledger
// says this worker holds with what it runs: what nobody here runs is first marked
// "never begin", then handed back (session.go, heart.go). A result whose reply was
// lost is sent again: the ledger takes the same report of the same fence as done.
//
// When the ledger has ended this worker's row, nothing of it may begin any more. It
// registers anew, under a new id; what had begun before ends as it may, and is
// reported under the old id, for a late success is the best news there is.
package execute
