package main

// atSize are the commands that measure Duly alone: at size, in memory, in time, and on
// several machines' worth of processes.
type atSize struct {
	Flat    flatCommand    `cmd:"" help:"Measure whether Duly is as fast on a ledger that is large, deep or held back as on an empty one."`
	Memory  memoryCommand  `cmd:"" help:"Measure how much memory the programs need at full rate."`
	Profile profileCommand `cmd:"" help:"Show where the time of a job goes, in Go, in PostgreSQL and in the broker."`
	Scale   scaleCommand   `cmd:"" help:"Measure what several ledgers and large fleets cost, and compute what a rate asks for."`
	Backlog backlogCommand `cmd:"" help:"Measure whether a backlog behind a stopped fleet is taken for lost."`
	Freeze  freezeCommand  `cmd:"" help:"Measure how long the selection of a run takes to freeze, and what unrelated jobs feel of it."`
	Work    workCommand    `cmd:"" hidden:"" help:"Be the worker of a measurement."`
}
