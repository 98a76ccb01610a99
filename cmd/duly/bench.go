package main

import (
	"context"
	"errors"
	"log/slog"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/demo"
)

type benchCommand struct {
	Jobs      int    `default:"200000" help:"Jobs a phase (${default})."`
	Batch     int    `default:"1000" help:"Jobs a producer's transaction (${default})."`
	Producers int    `default:"2" help:"Producers that enqueue at once (${default})."`
	Slots     int    `default:"2000" help:"Handlers that run at once (${default})."`
	Pack      int    `default:"500" help:"Most references a message of the bus (${default})."`
	Payload   int    `default:"100" help:"Bytes a payload (${default})."`
	Samples   int    `default:"300" help:"Jobs that latency is measured on, one after the other (${default})."`
	Bus       string `enum:"nats,kafka,memory,both" default:"nats" placeholder:"nats|kafka|memory|both" help:"The bus, as for demo (${default}); both measures NATS and Kafka in turn. Kafka is the broker of DULY_BUS_URL here, never the one in memory."`
	Rounds    int    `default:"3" help:"With --bus both, how many rounds (${default})."`
	Data      string `placeholder:"DIR" help:"Keep the data in this folder, so that the disk can be chosen. Default: a temporary one, removed at the end."`
	Profile   string `name:"cpu-profile" placeholder:"FILE" help:"Write a CPU profile of this process to the file, for go tool pprof."`
	JSON      bool   `name:"json" help:"Print the result as JSON on standard output, and everything else on standard error."`
}

// Run measures. Only warnings are logged: a log line a batch would be measured too.
func (c *benchCommand) Run(ctx context.Context, p *app.Process) error {
	p.Log = app.NewLogger(p.Stderr, slog.LevelWarn, true)
	options := demo.BenchOptions{
		Jobs: c.Jobs, Batch: c.Batch, Producers: c.Producers, Slots: c.Slots, Pack: c.Pack, Payload: c.Payload,
		Samples: c.Samples, Bus: c.Bus, Dir: c.Data, JSON: c.JSON, CPUProfile: c.Profile,
	}
	if c.Bus != demo.BusBoth {
		_, err := demo.Bench(ctx, p, options)
		return err
	}
	if c.Rounds < 1 || c.Data != "" || c.Profile != "" {
		return app.Exit(app.ExitUsage, errors.New("--bus both: it takes at least one round, and neither --data nor --cpu-profile"))
	}
	_, err := demo.BenchBuses(ctx, p, options, c.Rounds)
	return err
}
