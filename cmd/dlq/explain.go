package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/explain"
	"duly.dev/duly/pkg/job"
)

type explainCommand struct {
	Job app.JobName `arg:"" name:"kind/key" help:"The job; the key may have slashes and spaces."`
}

// explained is an explanation as it is printed.
type explained struct {
	Kind       string    `json:"kind"`
	Key        string    `json:"key"`
	Generation int32     `json:"generation,omitempty"`
	State      job.State `json:"state"`
	AsOf       time.Time `json:"as_of"`
	// Explanation says the rest in words.
	Explanation explain.Explanation `json:"explanation"`
}

// Run prints the explanation.
func (c *explainCommand) Run(ctx context.Context, p *app.Process, s *shared) error {
	l, closing, err := s.open(ctx, p)
	defer closing()
	if err != nil {
		return err
	}
	story, err := l.Show(ctx, c.Job.Kind, c.Job.Key)
	if err != nil {
		return err
	}
	e := explained{Kind: story.Kind.Name, Key: story.Key, State: story.LastState, AsOf: story.Now.UTC(), Explanation: explain.Of(story)}
	if g, ok := story.Current(); ok {
		e.Generation, e.State = g.Generation, g.State
	}
	if s.JSON {
		return printJSON(p.Stdout, e)
	}
	printExplanation(p.Stdout, e)
	return nil
}

func printExplanation(w io.Writer, e explained) {
	fmt.Fprintf(w, "%s/%s", e.Kind, e.Key)
	if e.Generation > 1 {
		fmt.Fprintf(w, ", generation %d", e.Generation)
	}
	x := e.Explanation
	fmt.Fprintf(w, "\n\nState  %s\nWhy    %s\nNext   %s\n", x.State, x.Why, x.Next)
	if !x.When.IsZero() {
		fmt.Fprintf(w, "When   %s (%s)\n", at(x.When), distance(x.When.Sub(e.AsOf)))
	}
	lines := func(title string, all []string) {
		if len(all) > 0 {
			fmt.Fprintf(w, "\n%s\n", title)
		}
		for _, line := range all {
			fmt.Fprintf(w, "  - %s\n", line)
		}
	}
	bounds := make([]string, len(x.Bounds))
	for i, b := range x.Bounds {
		bounds[i] = b.Name + ": " + b.What
	}
	lines("It ends at the first of", bounds)
	lines("Note", x.Notes)
	lines("You can", x.Do)
}

// distance is how far an instant is away, in words.
func distance(d time.Duration) string {
	rounded := d.Abs().Round(time.Second)
	if rounded >= time.Hour {
		rounded = rounded.Round(time.Minute)
	}
	if d < 0 {
		return rounded.String() + " ago"
	}
	return "in " + rounded.String()
}
