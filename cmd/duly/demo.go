package main

import (
	"context"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/demo"
)

type demoCommand struct {
	Data string `placeholder:"DIR" help:"Keep logs and data in this empty folder. Default: a temporary one, removed when all is well."`
	Bus  string `enum:"nats,kafka,memory" default:"nats" placeholder:"nats|kafka|memory" help:"The bus: an embedded NATS JetStream on disk; Kafka, which is the broker of DULY_BUS_URL if that is a kafka:// URL, else one in memory that speaks its protocol; or memory (${default})."`
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
	Bus    string `enum:"nats,kafka,memory" default:"nats" placeholder:"nats|kafka|memory" help:"The bus: an embedded NATS JetStream on disk; Kafka, which is the broker of DULY_BUS_URL if that is a kafka:// URL, else one in memory that speaks its protocol; or memory (${default})."`
	Admin  string `env:"DULY_ADMIN_ADDR" name:"admin-addr" default:"127.0.0.1:9090" placeholder:"HOST:PORT" help:"Where /metrics, /livez and /readyz are served (${default})."`
}

// Run runs everything until ctx ends.
func (c *devCommand) Run(ctx context.Context, p *app.Process) error {
	return demo.Dev(ctx, p, demo.DevOptions{Dir: c.Data, Config: c.Config, Bus: c.Bus, Admin: c.Admin})
}
