package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/compose"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/pause"
)

type busCommand struct {
	Move busMoveCommand `cmd:"" help:"Move all lanes to another bus, while everything runs. Nothing of the old one is drained, nothing is lost."`
}

// busMoveCommand has the lanes relayed to another bus, and watches the dispatchers turn.
type busMoveCommand struct {
	From  string        `required:"true" placeholder:"URL" help:"The bus that the lanes are on; it need not be up."`
	To    string        `required:"true" placeholder:"URL" help:"The bus that they move to. Its topics are made, or verified, first."`
	Watch time.Duration `default:"30s" help:"How long to wait for the dispatchers to turn (${default})."`
	JSON  bool          `name:"json" help:"Print one JSON object."`
	actor
	app.LedgerSettings
	app.ConfigSettings
	app.LogSettings
}

// busMoved is what a move prints.
type busMoved struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Actor string `json:"actor"`
	// Turned are the lanes that are relayed to the new bus already, Waiting the others.
	Turned  []string `json:"turned"`
	Waiting []string `json:"waiting"`
}

// Run moves the lanes. It fails where not every lane is relayed within the time: the
// move stands all the same.
func (c *busMoveCommand) Run(ctx context.Context, p *app.Process) error {
	config, err := c.Load()
	if err != nil {
		return err
	}
	move := machine.BusMove{Actor: c.Actor}
	var errFrom, errTo error
	move.From, errFrom = bus.Address(c.From)
	move.To, errTo = bus.Address(c.To)
	if err := errors.Join(errFrom, errTo); err != nil {
		return app.Exit(app.ExitUsage, err)
	}
	stack := app.NewStack(p.Log)
	defer func() { _ = stack.Stop(context.WithoutCancel(ctx)) }()
	service := &app.Service{Process: p, Log: p.Log, Stack: stack}
	l, err := compose.Ledger(ctx, service, c.DatabaseURL, 1)
	if err != nil {
		return err
	}
	if _, err := compose.OpenBuses(ctx, service, app.BusSettings{BusURL: c.To}, config); err != nil {
		return err
	}
	if err := l.MoveBus(ctx, move); errors.Is(err, machine.ErrBus) {
		return app.Exit(app.ExitRefused, err)
	} else if err != nil {
		return err
	}
	return c.watch(ctx, p, l, config, move)
}

// watch waits until dispatchers relay every lane of the configuration again.
func (c *busMoveCommand) watch(ctx context.Context, p *app.Process, l *ledger.Ledger, config *app.Config, move machine.BusMove) error {
	ctx, cancel := context.WithTimeout(ctx, c.Watch)
	defer cancel()
	report := busMoved{From: move.From, To: move.To, Actor: move.Actor}
	lanes := config.LaneNames()
	for {
		unheld, err := l.UnheldLanes(ctx)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err == nil {
			report.Turned = slices.DeleteFunc(slices.Clone(lanes), func(lane string) bool { return slices.Contains(unheld, lane) })
			report.Waiting = slices.DeleteFunc(slices.Clone(lanes), func(lane string) bool { return !slices.Contains(unheld, lane) })
		}
		if err == nil && len(report.Waiting) == 0 || !pause.For(ctx, time.Second/4) {
			return c.print(p, report)
		}
	}
}

func (c *busMoveCommand) print(p *app.Process, r busMoved) error {
	if c.JSON {
		encoder := json.NewEncoder(p.Stdout)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(r); err != nil {
			return err
		}
	} else if _, err := fmt.Fprintf(p.Stdout, "The lanes were moved from %s to %s by %s.\n%d of %d lanes are relayed there already.\n",
		r.From, r.To, r.Actor, len(r.Turned), len(r.Turned)+len(r.Waiting)); err != nil {
		return err
	}
	if len(r.Waiting) == 0 {
		return nil
	}
	return app.Exit(app.ExitFailed, fmt.Errorf("the lanes were moved, but no dispatcher has taken %s within %s: dispatchers turn only to a bus that they were given as DULY_BUS_URL or DULY_BUS_NEXT_URL; give it to them, or move the lanes back",
		strings.Join(r.Waiting, ", "), c.Watch))
}
