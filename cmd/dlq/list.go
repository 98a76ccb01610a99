package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

type listCommand struct {
	State  string     `enum:",scheduled,ready,leased,delivered,quarantined,cancelled,unknown" default:"" placeholder:"STATE" help:"Jobs in this state: scheduled, ready, leased, delivered, quarantined, cancelled or unknown (quarantined and unknown ones)."`
	Kind   string     `placeholder:"KIND" help:"Jobs of this kind."`
	Reason job.Reason `placeholder:"REASON" help:"Jobs quarantined for this reason: permanent, unclassified, attempts_exhausted, too_old or deadline_passed."`
	Code   job.Code   `placeholder:"CODE" help:"Jobs whose last failure has this code, such as DESTINATION_INVALID."`
	Since  since      `placeholder:"WHEN" help:"Jobs that came into the list since then: an instant, or how long ago (24h)."`
	Limit  int        `default:"50" help:"The most jobs of a page (${default})."`
	After  place      `placeholder:"PLACE" help:"Go on behind the page that printed this as its next."`
}

// listed is a page as it is printed.
type listed struct {
	Entries []machine.Entry `json:"entries"`
	// Next is what --after takes for the next page.
	Next *place `json:"next,omitempty"`
	// Looked is how many rows were looked at where no list of the state is kept.
	Looked int `json:"looked,omitempty"`
}

// Run prints a page.
func (c *listCommand) Run(ctx context.Context, p *app.Process, s *shared) error {
	l, closing, err := s.open(ctx, p)
	defer closing()
	if err != nil {
		return err
	}
	page, err := l.List(ctx, machine.ListRequest{
		State: job.State(c.State), Kind: c.Kind, Reason: c.Reason, Code: c.Code, Since: c.Since.Time, Limit: c.Limit, After: c.After.ListPlace,
	})
	if err != nil {
		return err
	}
	shown := listed{Entries: page.Entries, Looked: page.Looked}
	if shown.Entries == nil {
		shown.Entries = []machine.Entry{}
	}
	if page.Next != (machine.ListPlace{}) {
		shown.Next = &place{page.Next}
	}
	if s.JSON {
		return printJSON(p.Stdout, shown)
	}
	return c.print(p, shown)
}

func (c *listCommand) print(p *app.Process, page listed) error {
	if len(page.Entries) > 0 {
		rows := make([][]string, len(page.Entries))
		for i, e := range page.Entries {
			rows[i] = []string{
				e.Kind + "/" + e.Key, strconv.Itoa(int(e.Generation)), string(e.State), why(e), string(e.Code),
				strconv.Itoa(int(e.Attempts)), at(e.At), at(latest(e.WakeAt, e.AskAt)), cut(e.Detail, 60),
			}
		}
		if err := table(p.Stdout, []string{"JOB", "GEN", "STATE", "WHY", "CODE", "ATTEMPTS", "SINCE", "WAKES", "DETAIL"}, rows); err != nil {
			return err
		}
	} else {
		fmt.Fprintln(p.Stdout, "no jobs")
	}
	if page.Looked > 0 {
		fmt.Fprintf(p.Stdout, "\nThe newest %d rows were looked at.\n", page.Looked)
	}
	if page.Next != nil {
		fmt.Fprintf(p.Stdout, "\nThere is more: --after %s\n", page.Next)
	}
	return nil
}

// why is why an entry is in its state.
func why(e machine.Entry) string {
	var closed, cleaned string
	if e.Closed {
		closed = "closed"
	}
	if e.Cleaned {
		cleaned = "cleaned"
	}
	return words(string(e.Reason), string(e.Waiting), string(e.Hold), closed, asked(e), cleaned)
}

// asked is how far the asking about an entry has come.
func asked(e machine.Entry) string {
	switch {
	case e.Lookup == "":
		return ""
	case e.Said == "":
		return fmt.Sprintf("asked %d×", e.Asked)
	}
	return fmt.Sprintf("asked %d× (%s)", e.Asked, e.Said)
}

// latest is the later of what goes on by itself then; of an entry only one is set.
func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
