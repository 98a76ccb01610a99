// Package demo is what `duly demo` and `duly dev` run: Duly's loops in one process, on
// an embedded PostgreSQL and an embedded bus, beside two receivers that misbehave by
// plan.
//
// The demonstration is an experiment with an outcome. It imports examples/renewals.csv,
// waits until the ledger says that nothing is pending, redrives one reminder whose
// address was wrong, and then asks two sides that know nothing of each other: the
// ledger, what became of every job; the receivers, which effects they saw, each in a
// log of its own. Compare says where the two disagree, and the demonstration fails
// unless they agree on every single job.
//
// Digest is another: the weekly digest of customers in six zones, fired by the scheduler, to
// a mail server that acts and hangs up, with addresses that changed since it was written,
// and with rows that are removed behind what was surely sent. There the customer's own
// tables are the third side that is asked.
//
//   - stage.go: what both are played on
//   - plan.go: what each receiver does with a destination, and how its jobs must end
//   - mail.go, hooks.go: the receivers; logbook.go: what they saw
//   - render.go: the file, with times against the start
//   - compare.go: the ledger against the receivers; table.go shows it
//   - digest.go, digestplan.go, digestjudge.go: the weekly digest
//   - stack.go: the servers and the loops; demo.go, dev.go: the two commands
package demo
