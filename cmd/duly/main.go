// Duly is the tool around the ledger: it checks configurations, migrates, imports
// files, and runs everything in one process for a demonstration, a laptop or a
// measurement.
package main

import (
	"os"

	"duly.dev/duly/internal/app"
)

// grammar are the commands.
type grammar struct {
	Demo      demoCommand      `cmd:"" help:"Deliver reminders, or a weekly digest, to receivers that misbehave, and compare what all sides saw."`
	Dev       devCommand       `cmd:"" help:"Run everything in one process until Ctrl-C, keeping its state."`
	Import    importCommand    `cmd:"" help:"Import jobs from a CSV or NDJSON file."`
	Config    configCommand    `cmd:"" help:"Check configurations."`
	Schedules schedulesCommand `cmd:"" help:"Show when schedules fire."`
	Runs      runsCommand      `cmd:"" help:"Start runs of schedules."`
	Bus       busCommand       `cmd:"" help:"Move the lanes to another bus."`
	Migrate   migrateCommand   `cmd:"" help:"Bring the ledger's schema to this version, or say where it is."`
	Check     checkCommand     `cmd:"" help:"Prove that what the ledger holds agrees with what it says happened."`
	Eval      evalCommand      `cmd:"" help:"Bring a fault about at every boundary, on your own handler and broker too, and see what holds."`
	Bench     benchCommand     `cmd:"" help:"Measure from enqueue to delivered on an embedded stack."`
	Ready     app.ReadyCommand `cmd:"" help:"Ask a process whether it is ready."`
}

func main() { os.Exit(app.Main(program())) }

func program() app.Program {
	return app.Program{
		Name: "duly", Description: "Delivers scheduled work at most once, by its deadline, and can prove it.",
		Grammar: &grammar{}, LogText: true,
	}
}
