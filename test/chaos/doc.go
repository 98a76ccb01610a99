// Chaos runs Duly as an operator would, with real processes, and breaks everything around
// it; then it proves from independent evidence that nothing was lost and nothing happened
// twice.
//
//	go run ./test/chaos                      # ten runs of a minute, on NATS and Kafka
//	go run ./test/chaos --seed 7 --runs 1    # one run again
//	go run ./test/chaos --faults kill-worker,wipe-broker
//
// # One run
//
// A PostgreSQL server, a broker, two schedulers, two dispatchers and three workers, each
// with ways of its own to the two servers (package test/wire), and a receiver that is a
// process of its own: it knows nothing of Duly, writes every effect into a journal, syncs
// it, and only then answers, or does not. Producers enqueue, cancel, ask again for what was
// never answered; an operator redrives and resolves with dlq. Every request is written down
// as ok, failed or unknown, with the instants of its call and its answer.
//
// Two nemeses break things by the run's seed: one the processes, one the servers and the
// ways to them (faults.go). Each takes the faults in a shuffled order, so that all come, and
// each of them proves that it has struck: a reply that was to be lost was, a connection was
// refused, a write was. A fault that was asked for and never struck fails the whole.
//
// When they rest, everything runs again; what is pending ends, and a checker (check.go)
// reads the receiver's journal, the ledger and the log of requests:
//
//   - lost: a job that was acknowledged is not in exactly one state, or never ends,
//   - duplicate: a second effect under an effect key, or of a job that nobody forced,
//   - stale: an effect of a generation behind its successor, or behind a cancellation,
//   - dishonest: delivered and not happened; quarantined or cancelled and happened,
//   - late: an effect that began after its deadline,
//   - unexplained: an outcome that is unknown though nothing ambiguous was injected there,
//   - what `duly check` finds between the ledger's rows and its events,
//   - the history of each job, as all parties saw it, is linearizable (model.go).
//
// What is measured besides: how soon a killed worker's jobs move again, and how soon the
// fleet is back at the rate that it had before.
//
// # Clocks
//
// The steps of the database's clock are steps of its functions now() and
// clock_timestamp(), which a schema of the run's own stands in front of: the machine's
// clock is everybody's, and stays.
package main
