// Package schedule makes ready what is due.
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
package schedule
