// Package membus is the bus inside one process: for tests, simulation and the
// evaluation harness. It behaves as natsbus does, and misbehaves on request.
//
// A Broker holds the lanes; each Connect is a connection to it, as a process would
// have one. A lane is one queue (partition 0) that all its consumers share, in order of
// publication; what was released or not acknowledged comes before what is new, what is
// delayed enters when its time has come. Nothing is durable beyond the Broker.
//
// Faults: Broker.SetFaults decides over each published message, Broker.Stop and Start
// are an outage that loses nothing, Broker.Wipe loses everything, and Bus.Crash is a
// process that dies: what it held comes again after Options.Visibility. Bus.Lapse is one
// that was paused for so long that the broker gave it up.
//
// There is no goroutine in here and no mutex is held while anything waits, and time is
// package time's: it works inside a testing/synctest bubble.
package membus
