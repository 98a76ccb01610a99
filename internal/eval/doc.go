// Package eval is what `duly eval` and `duly eval load` run: Duly's loops, in one process,
// on each pair of ledger and bus, with a fault at every boundary at which something can be
// lost, and receivers that write down what they did.
//
// # How a fault comes about
//
// Loops see the outside through small interfaces that they declare themselves: a ledger, a
// bus, a channel. Here each process of the fleet gets them wrapped (view.go, link.go,
// performer.go), and every call and every message passes a named moment (moment.go) where
// a case may hold it, fail it, lose its reply, or end the process. A process that was ended
// (proc.go) is cut off at once: its connections to the ledger are closed without a word,
// what it has in hand comes again, and nothing of it reaches a receiver any more. Loops,
// ledgers, buses and the HTTP channel are the real ones, and nothing in them knows that it
// is being tried.
//
// # What is found out
//
// A case (cases.go) is one function on a world of its own (world.go): it brings its fault
// about and says how jobs must end that were touched by it, which follows from what their
// kind promises. When every job has ended, account.go compares three witnesses that know
// nothing of each other: what producers were told, what the ledger says, and what the
// receivers did. A case whose fault did not happen is "not covered", and fails: it has
// proved nothing.
//
// Receivers that break what was promised of them are among the cases. That an effect
// happens twice there is a finding about the receiver, and the report names the promise;
// it would be a violation only if nothing showed it.
//
//   - eval.go, report.go: a run and what it prints; site.go: the servers
//   - handler.go: the same for a handler of the user's own
//   - load.go: the same fleet under load, with visibility and concurrency varied
package eval
