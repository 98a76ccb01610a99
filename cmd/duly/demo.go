package main

import (
	"context"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/demo"
)

type demoCommand struct {
	Data string `placeholder:"DIR" help:"Keep logs and data in this empty folder. Default: a temporary one, removed when all is well."`
	Bus  string `enum:"nats,memory" default:"nats" placeholder:"nats|memory" help:"The embedded bus: NATS JetStream on disk, or in memory (${default})."`
	JSON bool   `name:"json" help:"Print the result as JSON on standard output, and everything else on standard error."`
}

// Run demonstrates, and fails unless the ledger and the receivers agree.
func (c *demoCommand) Run(ctx context.Context, p *app.Process) error {
	_, err := demo.Run(ctx, p, demo.Options{Dir: c.Data, Bus: c.Bus, JSON: c.JSON})
	return err
}

type devCommand struct {
	app.LogSettings

	Data   string `default:"duly-data" placeholder:"DIR" help:"Folder that keeps the state (${default})."`
	Config string `env:"DULY_CONFIG" placeholder:"FILE" help:"Configuration. Default: that of the demonstration, with its receivers."`
	Bus    string `enum:"nats,memory" default:"nats" placeholder:"nats|memory" help:"The embedded bus: NATS JetStream on disk, or in memory (${default})."`
	Admin  string `env:"DULY_ADMIN_ADDR" name:"admin-addr" default:"127.0.0.1:9090" placeholder:"HOST:PORT" help:"Where /metrics, /livez and /readyz are served (${default})."`
}

// Run runs everything until ctx ends.
func (c *devCommand) Run(ctx context.Context, p *app.Process) error {
	return demo.Dev(ctx, p, demo.DevOptions{Dir: c.Data, Config: c.Config, Bus: c.Bus, Admin: c.Admin})
}
