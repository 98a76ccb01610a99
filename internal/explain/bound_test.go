package explain_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/explain"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

func lateBound(p *machine.Promises) { window(p); p.Resolve = machine.MeansSQL }

// G12: where a late-bound job goes, or went, is told, and without the address.
func TestG12WhereAJobGoesIsExplainedWithoutItsAddress(t *testing.T) {
	t.Parallel()
	went := func(s machine.Story) machine.Story {
		s.Generations[0].Bound = machine.Bound{Address: "new@example.org", By: machine.MeansSQL, Fence: 1, At: began}
		return s
	}
	pinned := ready(kind(lateBound))
	pinned.Pinned = true
	for name, c := range map[string]struct {
		story machine.Story
		notes string
	}{
		"not asked yet":    {tell(ready(kind(lateBound))), "its destination is asked for by sql right before an attempt"},
		"asked":            {went(tell(ready(kind(lateBound)), lease(), delivered)), "the newest was to go to n…@example.org, which was stored at 2026-09-30 12:00:00 UTC under fence 1"},
		"in doubt":         {went(tell(ready(kind(lateBound)), lease(), timeout)), "whatever repeats it goes there too"},
		"nothing was sent": {tell(ready(kind(lateBound)), lease(), timeout), "no address was stored yet, so that nothing of it was sent"},
		"by a person":      {story(pinned), "a person gave its destination with a redrive"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, strings.Join(explain.Of(c.story).Notes, "\n"), c.notes)
			require.NotContains(t, strings.Join(explain.Of(c.story).Notes, "\n"), "new@")
		})
	}
	require.NotContains(t, strings.Join(explain.Of(tell(ready(kind(window)))).Notes, "\n"), "destination", "of other kinds nothing is said")

	shown := explain.Show(went(tell(ready(kind(lateBound)), lease(), delivered)), explain.Private{}).Generations[0]
	require.Equal(t, &explain.Resolved{Address: "n…@example.org", By: machine.MeansSQL, Fence: 1, At: began}, shown.Resolved)
	shown = explain.Show(went(tell(ready(kind(lateBound)), lease(), delivered)), explain.Private{Destination: true}).Generations[0]
	require.Equal(t, "new@example.org", shown.Resolved.Address)
	require.Equal(t, "ann@example.com", shown.Destination, "what the job was given stays")

	for to, masked := range map[string]string{"new@example.org": "n…@example.org", job.ToHash("key", "new@example.org"): job.ToHash("key", "new@example.org")} {
		sent := went(tell(ready(kind(lateBound)), lease(), ends(machine.Done, job.Done(&job.Receipt{ID: "r-1", To: to}))))
		sent.Generations[0].Receipt = &job.Receipt{ID: "r-1", To: to}
		d := explain.Show(sent, explain.Private{})
		require.Equal(t, masked, d.Generations[0].Receipt.To)
		require.Equal(t, masked, d.Events[len(d.Events)-1].Receipt.To)
		require.Equal(t, to, explain.Show(sent, explain.Private{Destination: true}).Generations[0].Receipt.To)
	}
}
