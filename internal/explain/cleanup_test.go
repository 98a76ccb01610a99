package explain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/explain"
	"duly.dev/duly/internal/machine"
)

// cleanedUp gives a story the cleanup.
func cleanedUp(s machine.Story, c machine.Cleanup) machine.Story {
	c.Generation = 1
	if c.By == "" {
		c.By = machine.MeansSQL
	}
	s.Cleanup = c
	return s
}

func TestACleanupIsExplained(t *testing.T) {
	t.Parallel()
	now := began.Add(30 * time.Second)
	done := tell(ready(kind(none)), lease(), delivered)
	bad := tell(ready(kind(none)), lease(), rejected)
	gone := tell(ready(kind(none)), cancel)
	later, earlier := now.Add(time.Hour), now.Add(-time.Hour)
	for name, c := range map[string]struct {
		story machine.Story
		notes []string
		next  string
		when  time.Time
		do    string
	}{
		"waits": {
			story: cleanedUp(done, machine.Cleanup{Accepted: true, DueAt: later, NextAt: later}), when: later,
			notes: []string{"what was generated for it is removed from " + text(later) + " on, by the statement of the kind's cleanup: it is delivered as the kind's cleanup asks"},
			next:  "what was generated for it is removed, by the statement of the kind's cleanup",
		},
		"waits behind a delivery without a receipt": {
			story: cleanedUp(done, machine.Cleanup{DueAt: later, NextAt: later}), when: later,
			notes: []string{"without a receipt"}, next: "what was generated for it is removed",
		},
		"waits behind another end": {
			story: cleanedUp(bad, machine.Cleanup{DueAt: later, NextAt: later}), notes: []string{"it is quarantined, unless somebody redrives it before"},
			next: "nothing, until a person redrives or cancels it",
		},
		"waits behind a cancellation": {
			story: cleanedUp(gone, machine.Cleanup{DueAt: later, NextAt: later}), when: later, notes: []string{"it is cancelled"},
			next: "what was generated for it is removed",
		},
		"is overdue": {
			story: cleanedUp(done, machine.Cleanup{By: machine.MeansGo, Accepted: true, DueAt: earlier, NextAt: earlier}), when: earlier,
			notes: []string{"its cleanup is due since " + text(earlier) + ", by the cleanup beside the kind's handler"},
			next:  "its cleanup is tried", do: "check that a worker runs that has the cleanup",
		},
		"fails": {
			story: cleanedUp(done, machine.Cleanup{Accepted: true, DueAt: earlier, NextAt: later, Tries: 3, FailedAt: earlier, Error: "the statement failed (SQLSTATE 23503)"}), when: later,
			notes: []string{"it was tried 3 times; it failed last at " + text(earlier) + ": the statement failed (SQLSTATE 23503)"},
			next:  "its cleanup is tried",
		},
		"waits for a person": {
			story: cleanedUp(done, machine.Cleanup{Accepted: true, DueAt: earlier, Tries: 20, FailedAt: earlier, Error: "no", ParkedAt: earlier}),
			notes: []string{"its cleanup waits for a person since " + text(earlier)}, next: "nothing", do: "dlq cleanup retry 'mail/customer 1' --reason WHY",
		},
		"is done": {
			story: cleanedUp(done, machine.Cleanup{Accepted: true, DueAt: earlier, DoneAt: earlier, Rows: 2}),
			notes: []string{"the statement of its cleanup changed 2 rows at " + text(earlier)}, next: "nothing",
		},
		"is done behind another end": {
			story: cleanedUp(bad, machine.Cleanup{By: machine.MeansGo, DueAt: earlier, DoneAt: earlier}),
			notes: []string{"what was generated for it was removed at " + text(earlier)}, next: "nothing, until", do: "a redrive needs --force and --evidence",
		},
	} {
		e := explain.Of(c.story)
		for _, note := range c.notes {
			require.Contains(t, strings.Join(e.Notes, "\n"), note, name)
		}
		require.True(t, strings.HasPrefix(e.Next, c.next), "%s: %s", name, e.Next)
		require.Equal(t, c.when, e.When, name)
		require.Contains(t, strings.Join(e.Do, "\n"), c.do, name)
		cleaned := !c.story.Cleanup.DoneAt.IsZero()
		require.Equal(t, cleaned && strings.HasPrefix(e.State, "delivered"), strings.HasPrefix(e.State, "delivered and cleaned"), name)
		require.Equal(t, cleaned, explain.Show(c.story, explain.Private{}).Cleaned, name)
	}
}

func text(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05 MST") }
