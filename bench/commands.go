package main

// atSize are the commands that measure Duly alone: at size, in memory, in time, and on
// several machines' worth of processes.
type atSize struct {
	Flat   flatCommand   `cmd:"" help:"Measure whether Duly is as fast on a ledger that is large, deep or held back as on an empty one."`
	Memory memoryCommand `cmd:"" help:"Measure how much memory the programs need at full rate."`
	Work   workCommand   `cmd:"" hidden:"" help:"Be the worker of a measurement."`
}
