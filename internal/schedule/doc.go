// Package schedule makes ready what is due, and runs of what comes again and again.
//
// A job that is due later waits in the ledger and nowhere else. The promotion loop
// walks along the index of those instants, a batch a transaction, and makes each batch
// ready together with its emission. Any number of schedulers walk at once: each takes
// what no other has locked.
//
// Each batch begins behind the last, since what was promoted leaves dead entries
// at the front of the index, and looking past them again and again would cost more than
// the promotion itself. Once a second a batch begins at the front: what a crashed
// scheduler had taken, what another had locked, and what was committed late lies
// there.
//
// A schedule fires into runs. Each scheduler decides for itself, by the ledger's clock,
// which occurrences are due; the decision is carried out under the schedule's lock, and a
// period has one run, so that it does not matter how many decide, or who was away. What
// was opened is frozen by whoever comes first: its selection becomes jobs in one
// transaction, all or none. From there on a run is nothing but its members.
package schedule
