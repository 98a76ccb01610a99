// Dlq is the operator's tool: it shows what the ledger keeps of jobs, explains it, and
// lets a person redrive, resolve and cancel.
//
// It works on the ledger directly, so that it works when everything else is down. The
// database role decides what the caller may do; --actor says who it was, and is
// recorded with every change. With --json every command prints one JSON object, whose
// form docs/dlq.md describes; errors go to standard error, and the exit code says what
// kind they are.
package main

import (
	"context"
	"os"
	"time"

	"github.com/alecthomas/kong"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/compose"
	"duly.dev/duly/internal/ledger"
)

// grammar are the commands.
type grammar struct {
	shared

	List    listCommand     `cmd:"" help:"List jobs; without --state those that need a person."`
	Show    showCommand     `cmd:"" help:"Show everything that is kept of a job."`
	Explain explainCommand  `cmd:"" help:"Say what state a job is in, why, what happens next and when."`
	Redrive redriveCommand  `cmd:"" help:"Open the next generation of a job that ended badly."`
	Resolve resolveCommand  `cmd:"" help:"Say what became of a job that may have happened."`
	Cancel  cancelCommand   `cmd:"" help:"Withdraw a job."`
	Cleanup cleanupCommands `cmd:"" help:"Show, retry and give up cleanups."`

	Runs      runsCommand      `cmd:"" help:"Show runs of schedules, how far they are, and what was refused."`
	Schedules schedulesCommand `cmd:"" help:"Show what became of the occurrences of a schedule."`
}

// shared is what every command is told.
type shared struct {
	app.LedgerSettings

	Actor string        `env:"DULY_ACTOR" placeholder:"NAME" help:"Who acts; recorded with every change (the login name)."`
	JSON  bool          `name:"json" help:"Print one JSON object."`
	Wait  time.Duration `default:"10s" help:"How long to wait for a ledger that does not answer (${default})."`
}

// AfterApply makes the login name the actor where none is given.
func (s *shared) AfterApply() error { //nolint:unparam // kong asks for an error
	if s.Actor == "" {
		s.Actor = app.Login()
	}
	return nil
}

// ledgerConns: one statement after the other, and a kind to look up beside it.
const ledgerConns = 2

// open connects to the ledger; close is to be called in any case.
func (s *shared) open(ctx context.Context, p *app.Process) (l *ledger.Ledger, closing func(), err error) {
	stack := app.NewStack(p.Log)
	closing = func() { _ = stack.Stop(context.WithoutCancel(ctx)) }
	reach, cancel := context.WithTimeout(ctx, s.Wait)
	defer cancel()
	l, err = compose.Ledger(reach, &app.Service{Process: p, Log: p.Log, Stack: stack}, s.DatabaseURL, ledgerConns)
	return l, closing, err
}

func main() { os.Exit(app.Main(program())) }

func program() app.Program {
	g := &grammar{}
	return app.Program{
		Name: "dlq", Description: "Shows and explains jobs, and advances those that need a person.",
		Grammar: g, LogText: true, Options: []kong.Option{kong.Bind(&g.shared)},
	}
}
