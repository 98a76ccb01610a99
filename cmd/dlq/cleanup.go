package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/machine"
)

// cleanupCommands are about what was generated for jobs and is to be removed.
type cleanupCommands struct {
	List   cleanupListCommand   `cmd:"" help:"List cleanups that failed."`
	Retry  cleanupRetryCommand  `cmd:"" help:"Let a cleanup that failed, or was given up, be tried again now."`
	GiveUp cleanupGiveUpCommand `cmd:"" help:"Let a cleanup that is not done be tried no more."`
}

type cleanupListCommand struct {
	Kind    string `placeholder:"KIND" help:"Those of this kind."`
	Waiting bool   `help:"Only those that wait for a person."`
	Limit   int    `default:"50" help:"The most (${default})."`
}

// Run prints the list.
func (c *cleanupListCommand) Run(ctx context.Context, p *app.Process, s *shared) error {
	l, closing, err := s.open(ctx, p)
	defer closing()
	if err != nil {
		return err
	}
	all, err := l.Cleanups(ctx, machine.CleanupList{Kind: c.Kind, Parked: c.Waiting, Limit: c.Limit})
	if err != nil {
		return err
	}
	if s.JSON {
		if all == nil {
			all = []machine.CleanupEntry{}
		}
		return printJSON(p.Stdout, struct {
			Cleanups []machine.CleanupEntry `json:"cleanups"`
		}{all})
	}
	if len(all) == 0 {
		fmt.Fprintln(p.Stdout, "no cleanup has failed")
		return nil
	}
	rows := make([][]string, len(all))
	for i, e := range all {
		next := at(e.NextAt)
		if !e.ParkedAt.IsZero() {
			next = "a person"
		}
		rows[i] = []string{e.Kind + "/" + e.Key, strconv.Itoa(int(e.Generation)), string(e.State), at(e.DueAt), strconv.Itoa(int(e.Tries)), at(e.FailedAt), next, cut(e.Error, 80)}
	}
	return table(p.Stdout, []string{"JOB", "GEN", "STATE", "DUE", "TRIES", "FAILED", "NEXT", "WHY"}, rows)
}

type cleanupRetryCommand struct {
	Job    app.JobName `arg:"" name:"kind/key" help:"The job; the key may have slashes and spaces."`
	Reason string      `placeholder:"TEXT" help:"Why it will succeed now."`
}

// retried is a cleanup as it is printed once it is tried again.
type retried struct {
	Kind   string    `json:"kind"`
	Key    string    `json:"key"`
	NextAt time.Time `json:"next_at"`
}

// Run retries.
func (c *cleanupRetryCommand) Run(ctx context.Context, p *app.Process, s *shared) error {
	l, closing, err := s.open(ctx, p)
	defer closing()
	if err != nil {
		return err
	}
	again, err := l.RetryCleanup(ctx, machine.CleanupRetry{Kind: c.Job.Kind, Key: c.Job.Key, Actor: s.Actor, Reason: c.Reason})
	if err != nil {
		return err
	}
	if s.JSON {
		return printJSON(p.Stdout, retried{c.Job.Kind, c.Job.Key, again.NextAt.UTC()})
	}
	fmt.Fprintf(p.Stdout, "%s: its cleanup is tried at %s\n", c.Job, at(again.NextAt))
	return nil
}

type cleanupGiveUpCommand struct {
	Job    app.JobName `arg:"" name:"kind/key" help:"The job; the key may have slashes and spaces."`
	Reason string      `required:"true" placeholder:"TEXT" help:"Why, and what becomes of what was generated; recorded."`
}

// givenUp is a cleanup as it is printed once it was given up.
type givenUp struct {
	Kind      string    `json:"kind"`
	Key       string    `json:"key"`
	GivenUpAt time.Time `json:"given_up_at"`
}

// Run gives up.
func (c *cleanupGiveUpCommand) Run(ctx context.Context, p *app.Process, s *shared) error {
	l, closing, err := s.open(ctx, p)
	defer closing()
	if err != nil {
		return err
	}
	after, err := l.GiveUpCleanup(ctx, machine.CleanupGiveUp{Kind: c.Job.Kind, Key: c.Job.Key, Actor: s.Actor, Reason: c.Reason})
	if err != nil {
		return err
	}
	if s.JSON {
		return printJSON(p.Stdout, givenUp{c.Job.Kind, c.Job.Key, after.GivenUpAt.UTC()})
	}
	fmt.Fprintf(p.Stdout, "%s: its cleanup was given up at %s; nothing is removed any more\n", c.Job, at(after.GivenUpAt))
	return nil
}
