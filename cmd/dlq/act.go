package main

import (
	"context"
	"fmt"
	"os"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/calendar"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/redrive"
	"duly.dev/duly/pkg/job"
)

type redriveCommand struct {
	Job         app.JobName `arg:"" name:"kind/key" help:"The job; the key may have slashes and spaces."`
	Generation  int32       `required:"true" placeholder:"N" help:"The generation that you saw; it must be the current one."`
	RecoveryKey string      `required:"true" placeholder:"KEY" help:"Names this decision: asked again with the same key, it is answered with the generation that it made."`
	Approver    string      `required:"true" placeholder:"NAME" help:"Who allowed it."`
	Reason      string      `required:"true" placeholder:"TEXT" help:"Why."`
	Destination string      `placeholder:"ADDRESS" help:"Send to this address instead."`
	Payload     string      `placeholder:"FILE" help:"Send the JSON of this file instead."`
	Deadline    instant     `placeholder:"TIME" help:"Have it done by then instead: an instant with an offset, or a local time and its zone (\"2026-09-30T17:00:00 Europe/Paris\")."`
	NotBefore   instant     `placeholder:"TIME" help:"Do not begin before then."`
	Force       bool        `and:"force" help:"Send again although it may have happened; needs --evidence."`
	Evidence    string      `and:"force" placeholder:"TEXT" help:"Why it is sent again although it may have happened."`
	Config      string      `env:"DULY_CONFIG" placeholder:"FILE" help:"Configuration by which the kind's channel checks what is corrected."`
}

// redriven is a redrive as it is printed.
type redriven struct {
	Kind string `json:"kind"`
	Key  string `json:"key"`
	machine.Successor
}

// Run redrives.
func (c *redriveCommand) Run(ctx context.Context, p *app.Process, s *shared) error {
	req := machine.RedriveRequest{
		Kind: c.Job.Kind, Key: c.Job.Key, Generation: c.Generation, RecoveryKey: c.RecoveryKey,
		Approver: c.Approver, Actor: s.Actor, Reason: c.Reason, Destination: c.Destination,
		Correction:   machine.Correction{Deadline: c.Deadline.Time, NotBefore: c.NotBefore.Time},
		DeadlineZone: c.Deadline.zone, DeadlineLocal: c.Deadline.local, Forced: c.Force, Evidence: c.Evidence,
	}
	if c.Payload != "" {
		payload, err := os.ReadFile(c.Payload)
		if err != nil {
			return app.Exit(app.ExitUsage, fmt.Errorf("--payload: %w", err))
		}
		req.Payload = payload
	}
	options, err := c.options()
	if err != nil {
		return err
	}
	l, closing, err := s.open(ctx, p)
	defer closing()
	if err != nil {
		return err
	}
	made, err := redrive.NewDesk(l, l, options).Redrive(ctx, req)
	if err != nil {
		return err
	}
	if s.JSON {
		return printJSON(p.Stdout, redriven{c.Job.Kind, c.Job.Key, made})
	}
	switch {
	case made.Again:
		fmt.Fprintf(p.Stdout, "%s: this recovery key had opened generation %d before, which is %s now\n", c.Job, made.Generation, made.State)
	case made.State == job.Scheduled:
		fmt.Fprintf(p.Stdout, "%s: generation %d begins at %s\n", c.Job, made.Generation, at(made.Starts))
	default:
		fmt.Fprintf(p.Stdout, "%s: generation %d is %s\n", c.Job, made.Generation, made.State)
	}
	return nil
}

// options are what corrections are checked by.
func (c *redriveCommand) options() (redrive.Options, error) {
	options := redrive.Options{KnownZone: calendar.KnownZone}
	if c.Config == "" {
		return options, nil
	}
	config, err := (&app.ConfigSettings{Config: c.Config}).Load()
	if err != nil {
		return options, err
	}
	checkers, err := config.Checkers()
	if err != nil {
		return options, err
	}
	options.MaxPayload, options.Check = config.MaxPayload, checkers.Check
	return options, nil
}

type resolveCommand struct {
	Job      app.JobName     `arg:"" name:"kind/key" help:"The job; the key may have slashes and spaces."`
	Fence    int64           `required:"true" placeholder:"N" help:"The newest fence that you saw: the answer speaks of no later attempt."`
	As       machine.Verdict `required:"true" enum:"delivered,not-delivered,give-up" placeholder:"ANSWER" help:"What became of it: delivered, not-delivered, or give-up where nobody will ever know."`
	Evidence string          `required:"true" placeholder:"TEXT" help:"How you know."`
	LookedAt instant         `placeholder:"TIME" help:"When you looked (now). \"Not delivered\" counts only if the receiver was given time to finish."`
}

// Run resolves.
func (c *resolveCommand) Run(ctx context.Context, p *app.Process, s *shared) error {
	return s.stand(ctx, p, c.Job, func(d *redrive.Desk) (machine.Standing, error) {
		return d.Resolve(ctx, machine.Answer{
			Kind: c.Job.Kind, Key: c.Job.Key, Fence: c.Fence, Verdict: c.As, Evidence: c.Evidence, LookedAt: c.LookedAt.Time, Actor: s.Actor,
		})
	})
}

type cancelCommand struct {
	Job    app.JobName `arg:"" name:"kind/key" help:"The job; the key may have slashes and spaces."`
	Reason string      `placeholder:"TEXT" help:"Why."`
}

// Run cancels.
func (c *cancelCommand) Run(ctx context.Context, p *app.Process, s *shared) error {
	return s.stand(ctx, p, c.Job, func(d *redrive.Desk) (machine.Standing, error) {
		return d.Cancel(ctx, machine.Cancellation{Kind: c.Job.Kind, Key: c.Job.Key, Actor: s.Actor, Reason: c.Reason})
	})
}

// stood is where a job stands as it is printed.
type stood struct {
	Kind string `json:"kind"`
	Key  string `json:"key"`
	machine.Standing
}

// stand acts, and prints where the job stands then.
func (s *shared) stand(ctx context.Context, p *app.Process, name app.JobName, act func(*redrive.Desk) (machine.Standing, error)) error {
	l, closing, err := s.open(ctx, p)
	defer closing()
	if err != nil {
		return err
	}
	standing, err := act(desk(l))
	if err != nil {
		return err
	}
	if s.JSON {
		return printJSON(p.Stdout, stood{name.Kind, name.Key, standing})
	}
	fmt.Fprintf(p.Stdout, "%s: %s\n", name, standingText(standing))
	return nil
}

func desk(l *ledger.Ledger) *redrive.Desk { return redrive.NewDesk(l, l, redrive.Options{}) }

func standingText(s machine.Standing) string {
	text := fmt.Sprintf("generation %d is %s", s.Generation, s.State)
	if s.Generation == 0 {
		text = "it is " + string(s.State) + ", and removed since"
	}
	switch {
	case s.State == job.Scheduled && !s.WakeAt.IsZero():
		text += ", and goes on at " + at(s.WakeAt)
	case s.Closed:
		text += ", and closed: it is asked about no more"
	}
	if s.Requested {
		text += "; it is cancelled once it is known not to have happened"
	}
	if s.Again {
		text += ", as before"
	}
	return text
}
