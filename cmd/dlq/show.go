package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/explain"
)

type showCommand struct {
	Job     app.JobName `arg:"" name:"kind/key" help:"The job; the key may have slashes and spaces."`
	Payload bool        `help:"Show payloads, which are private."`
	Private bool        `help:"Show destinations in full, which are private."`
}

// Run prints the job.
func (c *showCommand) Run(ctx context.Context, p *app.Process, s *shared) error {
	l, closing, err := s.open(ctx, p)
	defer closing()
	if err != nil {
		return err
	}
	story, err := l.Show(ctx, c.Job.Kind, c.Job.Key)
	if err != nil {
		return err
	}
	d := explain.Show(story, explain.Private{Destination: c.Private, Payload: c.Payload})
	if s.JSON {
		return printJSON(p.Stdout, d)
	}
	return printDocument(p.Stdout, d)
}

func printDocument(w io.Writer, d explain.Document) error {
	fmt.Fprintf(w, "%s/%s (job %d)\n", d.Kind, d.Key, d.Job)
	fmt.Fprintln(w, d.Explanation.State)
	for _, part := range []struct{ name, value string }{{"Lane", d.Lane}, {"Subject", d.Subject}, {"Period", d.Period}} {
		if part.value != "" {
			fmt.Fprintf(w, "%-8s %s\n", part.name, part.value)
		}
	}
	if d.Removed {
		return nil
	}
	fmt.Fprintln(w, "\nGenerations")
	if err := printGenerations(w, d.Generations); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nEvents")
	if d.EventsCut {
		fmt.Fprintln(w, "(the newest; older ones are left out)")
	}
	if err := printEvents(w, d.Events); err != nil {
		return err
	}
	printCleanup(w, d.Cleanup)
	if len(d.Redrives) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nRedrives")
	rows := make([][]string, len(d.Redrives))
	for i, r := range d.Redrives {
		rows[i] = []string{at(r.At), fmt.Sprintf("%d → %d", r.Predecessor, r.Successor), r.RecoveryKey, r.Actor, r.Approver, r.Reason, r.Evidence}
	}
	return table(w, []string{"AT", "GENERATION", "RECOVERY KEY", "ACTOR", "APPROVER", "REASON", "EVIDENCE"}, rows)
}

func printCleanup(w io.Writer, c *explain.Cleanup) {
	if c == nil {
		return
	}
	fmt.Fprintf(w, "\nCleanup by %s behind generation %d, due %s", c.By, c.Generation, at(c.DueAt))
	switch {
	case !c.DoneAt.IsZero():
		fmt.Fprintf(w, "; done %s", at(c.DoneAt))
	case !c.GivenUpAt.IsZero():
		fmt.Fprintf(w, "; given up %s", at(c.GivenUpAt))
	case !c.ParkedAt.IsZero():
		fmt.Fprintf(w, "; it waits for a person since %s", at(c.ParkedAt))
	}
	if c.Tries > 0 {
		fmt.Fprintf(w, "; tried %d times", c.Tries)
	}
	fmt.Fprintf(w, "%s\n", behind("; failed last: ", words(at(c.FailedAt), c.Error)))
}

func printGenerations(w io.Writer, all []explain.Generation) error {
	rows := make([][]string, len(all))
	for i, g := range all {
		rows[i] = []string{
			strconv.Itoa(int(g.Generation)), string(g.State), words(string(g.Reason), string(g.Waiting), string(g.Hold)),
			fmt.Sprintf("%d/%d", g.Attempts, g.MaxAttempts), strconv.FormatInt(g.Fence, 10), string(g.Code),
			g.Destination, fmt.Sprintf("%d B", g.PayloadBytes), at(g.Due), at(g.Deadline), at(g.Ended),
		}
	}
	heading := []string{"GEN", "STATE", "WHY", "ATTEMPTS", "FENCE", "CODE", "DESTINATION", "PAYLOAD", "DUE", "DEADLINE", "ENDED"}
	if err := table(w, heading, rows); err != nil {
		return err
	}
	for _, g := range all {
		fmt.Fprintf(w, "\n%d: effect key %s\n", g.Generation, g.EffectKey)
		if r := g.Resolved; r != nil {
			fmt.Fprintf(w, "   destination asked for by %s: %s, stored %s under fence %d\n", r.By, r.Address, at(r.At), r.Fence)
		}
		if g.Receipt != nil {
			fmt.Fprintf(w, "   receipt %s%s\n", words(g.Receipt.Status, g.Receipt.ID), behind(", went to ", g.Receipt.To))
		}
		if g.Lookup != "" {
			fmt.Fprintf(w, "   asked by %s, %d times%s%s\n", g.Lookup, g.Asked, behind(", last answer: ", words(string(g.Said), g.SaidDetail, at(g.AskedAt))), behind(", next: ", at(g.AskAt)))
		}
		if g.Payload != nil {
			fmt.Fprintf(w, "   payload %s\n", g.Payload)
		}
	}
	return nil
}

// behind is a text behind its lead; empty where there is none.
func behind(lead, text string) string {
	if text == "" {
		return ""
	}
	return lead + text
}

func printEvents(w io.Writer, all []explain.Event) error {
	if len(all) == 0 {
		fmt.Fprintln(w, "none yet")
		return nil
	}
	rows := make([][]string, len(all))
	for i, e := range all {
		name := string(e.Name)
		if e.Late {
			name += " (late)"
		}
		change := string(e.To)
		if e.From != "" && e.From != e.To {
			change = string(e.From) + " → " + change
		}
		who := words(e.Actor, cut(e.Worker, 9), e.Version)
		rows[i] = []string{
			at(e.At), strconv.Itoa(int(e.Generation)), name, change, strconv.Itoa(int(e.Attempt)), strconv.FormatInt(e.Fence, 10),
			words(string(e.Class), string(e.Code)), e.Why, at(e.WakeAt), who, cut(e.Detail, 60),
		}
	}
	return table(w, []string{"AT", "GEN", "EVENT", "STATE", "ATTEMPT", "FENCE", "FAILURE", "WHY", "WAKES", "WHO", "DETAIL"}, rows)
}
