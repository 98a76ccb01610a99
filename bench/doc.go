// Command bench measures Duly side by side with other job queues, and with what the
// same machine can do at most, on the same PostgreSQL in the same run:
//
//	go run . --rounds 5 --jobs 100000 --out ../docs
//
// # What is fair
//
// Everybody works on one PostgreSQL server, fully durable, with one set of settings,
// each in a database of its own that is made anew before every measurement and dropped
// after it; every measurement begins with a CHECKPOINT and a collected heap. Rounds are
// interleaved: each measurement is made for one contestant after the other before the
// next begins, and what is shown is the median over the rounds, with the least and the
// greatest. While one contestant is measured, the others do not run.
//
// The work is the same: 100 bytes of payload, handlers that do nothing, retries as they
// are by default. Done means durably done: the commit that says so has returned to the
// contestant's own process.
//
// # How to add a contestant
//
// Implement [Contestant] in a file of its own, embedding [cannot] for what it cannot do,
// and add a line to the table in contestants.go. What it needs that is not there
// (a program, a package) is an error of Prepare: it is then listed as absent, with that
// reason. Measured is what lies between [Meter.Begin] and [Meter.Done]; processes that
// work for the contestant beside this one are named to the meter, so that their CPU time
// is counted.
package main
