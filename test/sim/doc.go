// Package sim plays Duly in bubbles of time: the loops of workers, dispatchers and schedulers
// as the programs run them, on the ledger in memory and the bus in memory, while processes
// crash and pause, clocks step, replies and messages are lost, doubled and reordered, receivers
// do the worst that their kinds allow, and persons decide in the middle of it. A schedule is
// ten minutes long and takes a twentieth of a second; a thousand of them are a test.
//
// # What is real and what is not
//
// Real are internal/execute, dispatch, schedule, sweep and redrive, whole, and with them
// internal/machine, contact and pause. The ledger is internal/memledger, which a test of
// internal/ledger holds to the one on PostgreSQL; the bus is internal/bus/membus, which passes
// the suite of all buses. Receivers are simulated (receiver_test.go): they keep what their kinds
// declare, to the millisecond and no longer. Not here are SQL, brokers, HTTP, SMTP, and runs of
// schedules; the tests of their packages and of test/e2e have those.
//
// # How a schedule is made
//
// A seed is a plan (faults_test.go): how many processes, which jobs, and which half of all faults
// is asked for, so that none hides behind another. A storm of a minute follows it; then nothing
// goes wrong any more, and everything must come to its end.
//
// Every call of a process (call_test.go) takes a while, and may fail before it commits, lose
// its reply, or commit when its caller has long given up. A process that crashes (process_test.go)
// makes no more calls: what it had sent may arrive or not. One that is paused goes on later, as
// if nothing had been.
//
// # What is checked
//
// history_test.go holds each decision of the ledger, as it is made, against what the receiver
// has really done; bus_test.go each acknowledgement against what was committed; check_test.go
// what is there at the end. Each attempt that ends in doubt must have had a cause. What happened
// to each generation is held against the formal model in docs/model, step by step.
//
// # Playing a seed again
//
// The same seed plays the same schedule: a test compares journals byte by byte. Nothing is
// drawn from a stream, but from the seed and what it is about (dice_test.go), and no two
// goroutines wake at one instant unless it makes no difference (call_test.go). So
//
//	go test ./test/sim -run TestSchedules -sim.seed 4711
//
// plays seed 4711 again and prints its journal. `make soak` plays a hundred thousand; with
// -sim.from they begin at another seed.
package sim
