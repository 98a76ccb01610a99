package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/eval"
)

type evalCommand struct {
	Cases evalCasesCommand `cmd:"" default:"withargs" help:"Bring a fault about at every boundary, and see what holds. The default."`
	Load  evalLoadCommand  `cmd:"" help:"Measure a fleet whose receivers fail at a fixed rate, with visibility and concurrency varied one by one."`
}

// evalServers are where an evaluation takes place. They are not read from the environment:
// nobody evaluates a fleet that is in use by accident.
type evalServers struct {
	DatabaseURL string `name:"database-url" placeholder:"postgres://…" help:"Try this PostgreSQL server. The role must be allowed to create databases, which are dropped at the end. Default: an embedded one."`
	BusURL      string `name:"bus-url" placeholder:"nats://…|kafka://…" help:"Try this broker, under prefixes of its own. Default: an embedded NATS; for kafka one in memory that speaks its protocol."`
	Out         string `placeholder:"FILE" help:"Write the report to this file, as Markdown."`
	JSON        bool   `name:"json" help:"Print the report as JSON on standard output, and everything else on standard error."`
}

type evalCasesCommand struct {
	evalServers

	Bus    []string `default:"memory,nats" placeholder:"memory|nats|kafka" help:"What to try, several with commas: memory is the ledger and the bus in memory, the others are PostgreSQL with that bus (${default})."`
	Case   []string `placeholder:"NAME" help:"Try these cases only, several with commas."`
	AtOnce int      `name:"at-once" default:"6" help:"How many cases run at the same time (${default})."`
	List   bool     `help:"List the cases and what must come of each, and try nothing."`

	Handler  string        `placeholder:"URL" help:"Try an HTTP receiver of your own in place of all that: does it act once per Idempotency-Key, whatever happens?"`
	CountURL string        `name:"count-url" placeholder:"URL" help:"Where to ask how many effects the handler has had under a key, {key} in it: it answers a number, or JSON with effects. Default: the handler says so in the header Duly-Effects of its answers."`
	Payload  string        `type:"existingfile" placeholder:"FILE" help:"The JSON value to send to the handler. Default: a small one."`
	Header   []string      `placeholder:"NAME=VALUE" help:"Send this header to the handler, and to --count-url; a credential as NAME=env:VARIABLE."`
	Wait     time.Duration `default:"3s" help:"How long after its answer the handler is sent the same once more (${default})."`
}

// Run evaluates, and fails unless everything passed.
func (c *evalCasesCommand) Run(ctx context.Context, p *app.Process) error {
	switch {
	case c.List:
		return c.list(p)
	case c.Handler != "":
		return c.tryHandler(ctx, p)
	case c.CountURL != "" || c.Payload != "" || len(c.Header) > 0:
		return app.Exit(app.ExitUsage, errors.New("--count-url, --payload and --header are about a receiver: name it with --handler"))
	}
	_, err := eval.Run(ctx, p, eval.Options{
		Buses: c.Bus, BusURL: c.BusURL, DatabaseURL: c.DatabaseURL, Cases: c.Case, AtOnce: c.AtOnce, Out: c.Out, JSON: c.JSON,
	})
	return err
}

func (c *evalCasesCommand) list(p *app.Process) error {
	t := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "CASE\tHOLDS\tWHAT GOES WRONG\tWHAT MUST COME OF IT\n")
	for _, one := range eval.Cases() {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", one.Name, one.Guarantees, one.Title, one.Expect)
	}
	return t.Flush()
}

func (c *evalCasesCommand) tryHandler(ctx context.Context, p *app.Process) error {
	var payload []byte
	if c.Payload != "" {
		var err error
		if payload, err = os.ReadFile(c.Payload); err != nil {
			return app.Exit(app.ExitUsage, fmt.Errorf("--payload: %w", err))
		}
	}
	_, err := eval.TryHandler(ctx, p, eval.HandlerOptions{
		URL: c.Handler, CountURL: c.CountURL, Payload: payload, Headers: c.Header, Wait: c.Wait, Out: c.Out, JSON: c.JSON,
	})
	return err
}

type evalLoadCommand struct {
	evalServers

	Bus       string `enum:"nats,kafka" default:"nats" placeholder:"nats|kafka" help:"The bus (${default})."`
	Customers int    `default:"2000" help:"How many jobs there are, the same for every point (${default})."`
	Plot      string `placeholder:"FILE" help:"Draw the measures into this file, as SVG."`
	Data      string `placeholder:"DIR" help:"Keep PostgreSQL's data in this folder, so that the disk can be chosen. Default: a temporary one, removed at the end."`
}

// Run measures, and fails where a guarantee did not hold meanwhile.
func (c *evalLoadCommand) Run(ctx context.Context, p *app.Process) error {
	_, err := eval.Load(ctx, p, eval.LoadOptions{
		Bus: c.Bus, BusURL: c.BusURL, DatabaseURL: c.DatabaseURL, Customers: c.Customers, DataDir: c.Data, Plot: c.Plot, Out: c.Out, JSON: c.JSON,
	})
	return err
}
