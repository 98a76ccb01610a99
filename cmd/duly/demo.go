package main

import (
	"context"
	"fmt"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/demo"
)

type demoCommand struct {
	Renewals demoRenewalsCommand `cmd:"" default:"withargs" help:"Deliver a file of reminders, and compare what both sides saw."`
	Digest   demoDigestCommand   `cmd:"" help:"Send a weekly digest to customers in six zones, some of whom moved, and compare what three sides saw."`
}

// demoSettings are how every demonstration runs.
type demoSettings struct {
	Data string `placeholder:"DIR" help:"Keep logs and data in this empty folder. Default: a temporary one, removed when all is well."`
	Bus  string `enum:"nats,kafka,memory" default:"nats" placeholder:"nats|kafka|memory" help:"The bus: an embedded NATS JetStream on disk; Kafka, which is the broker of DULY_BUS_URL if that is a kafka:// URL, else one in memory that speaks its protocol; or memory (${default})."`
	JSON bool   `name:"json" help:"Print the result as JSON on standard output, and everything else on standard error."`
}

func (c *demoSettings) options() demo.Options {
	return demo.Options{Dir: c.Data, Bus: c.Bus, JSON: c.JSON}
}

type demoRenewalsCommand struct{ demoSettings }

// Run demonstrates, and fails unless the ledger and the receivers agree.
func (c *demoRenewalsCommand) Run(ctx context.Context, p *app.Process) error {
	_, err := demo.Run(ctx, p, c.options())
	return err
}

type demoDigestCommand struct {
	demoSettings

	Customers int  `default:"5000" placeholder:"N" help:"How many customers there are (${default})."`
	Stay      bool `help:"Keep everything running after the result, until Ctrl-C, to look at it with dlq."`
}

// Run demonstrates, and fails unless the ledger, the mail server and the tables agree.
func (c *demoDigestCommand) Run(ctx context.Context, p *app.Process) error {
	if c.Customers < 1 || c.Customers > maxCustomers {
		return app.Exit(app.ExitUsage, fmt.Errorf("--customers %d: it must be between 1 and %d", c.Customers, maxCustomers))
	}
	_, err := demo.Digest(ctx, p, demo.DigestOptions{Options: c.options(), Customers: c.Customers, Stay: c.Stay})
	return err
}

// maxCustomers is what a demonstration on a laptop is for.
const maxCustomers = 100_000

type devCommand struct {
	app.LogSettings

	Data   string `default:"duly-data" placeholder:"DIR" help:"Folder that keeps the state (${default})."`
	Config string `env:"DULY_CONFIG" placeholder:"FILE" help:"Configuration. Default: that of the demonstration, with its receivers."`
	Bus    string `enum:"nats,kafka,memory" default:"nats" placeholder:"nats|kafka|memory" help:"The bus: an embedded NATS JetStream on disk; Kafka, which is the broker of DULY_BUS_URL if that is a kafka:// URL, else one in memory that speaks its protocol; or memory (${default})."`
	Admin  string `env:"DULY_ADMIN_ADDR" name:"admin-addr" default:"127.0.0.1:9090" placeholder:"HOST:PORT" help:"Where /metrics, /livez and /readyz are served (${default})."`
}

// Run runs everything until ctx ends.
func (c *devCommand) Run(ctx context.Context, p *app.Process) error {
	return demo.Dev(ctx, p, demo.DevOptions{Dir: c.Data, Config: c.Config, Bus: c.Bus, Admin: c.Admin})
}
