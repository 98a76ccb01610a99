package demo

import (
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/channel/smtpchan"
	"duly.dev/duly/internal/importer"
	"duly.dev/duly/pkg/job"
)

// world is a ledger and its receivers that agree.
type world struct {
	rows   int
	counts importer.Counts
	claims []claim
	seen   map[string]int
}

func agreeing() world {
	w := world{rows: 8, counts: importer.Counts{Rows: 8, Refused: 1, SameKey: 1, Jobs: 6}, seen: map[string]int{}}
	w.claims = []claim{
		{Kind: "m", Key: "plain", Channel: "smtp", Generation: 1, State: job.Delivered, Destination: "a@example.com"},
		{Kind: "m", Key: "redriven", Channel: "smtp", Generation: 2, State: job.Delivered, Destination: "b@example.com"},
		{Kind: "m", Key: "unknown", Channel: "smtp", Generation: 1, State: job.Unknown, Destination: "c@hangs-up.example"},
		{Kind: "m", Key: "wrong", Channel: "smtp", Generation: 1, State: job.Quarantined, Destination: "d@moved-away.example"},
		{Kind: "h", Key: "hook", Channel: "http", Generation: 1, State: job.Delivered, Destination: "http://127.0.0.1:1/crm/1"},
		{Kind: "h", Key: "rejected", Channel: "http", Generation: 1, State: job.Quarantined, Destination: "http://127.0.0.1:1/rejects/1"},
	}
	for _, i := range []int{0, 1, 2, 4} {
		keys := w.claims[i].effectKeys()
		w.seen[keys[len(keys)-1]] = 1
	}
	return w
}

func (w world) compare() comparison { return compare(w.rows, w.counts, w.claims, w.seen) }

func TestALedgerAndReceiversThatAgreeHaveNoProblem(t *testing.T) {
	t.Parallel()
	c := agreeing().compare()
	require.Empty(t, c.problems)
	require.Equal(t, 4, c.effects)
	require.Zero(t, c.lost+c.duplicates)
	require.Equal(t, map[job.State]int{job.Delivered: 3, job.Unknown: 1, job.Quarantined: 2}, c.states)
	require.Len(t, c.groups, 5)
	require.Equal(t, 2, c.groups[0].jobs, "what accepts comes first")
}

func TestEveryDisagreementIsReported(t *testing.T) {
	t.Parallel()
	key := func(w world, i, generation int) string { return w.claims[i].effectKeys()[generation-1] }
	for name, c := range map[string]struct {
		spoil            func(*world)
		lost, duplicates int
		problem          string
	}{
		"a delivered job without an effect":       {func(w *world) { delete(w.seen, key(*w, 0, 1)) }, 1, 0, "m/plain is delivered, but no receiver saw it"},
		"a delivered webhook without an effect":   {func(w *world) { delete(w.seen, key(*w, 4, 1)) }, 1, 0, "h/hook is delivered, but no receiver saw it"},
		"an effect of another generation only":    {func(w *world) { delete(w.seen, key(*w, 1, 2)); w.seen[key(*w, 1, 1)] = 1 }, 1, 0, "m/redriven is delivered, but no receiver saw it"},
		"the same mail twice":                     {func(w *world) { w.seen[key(*w, 0, 1)] = 2 }, 0, 1, "m/plain had 2 effects"},
		"the same webhook three times":            {func(w *world) { w.seen[key(*w, 4, 1)] = 3 }, 0, 2, "h/hook had 3 effects"},
		"an effect in two generations":            {func(w *world) { w.seen[key(*w, 1, 1)] = 1 }, 0, 1, "m/redriven had 2 effects"},
		"a quarantined job that happened":         {func(w *world) { w.seen[key(*w, 3, 1)] = 1 }, 0, 0, "m/wrong is quarantined, but a receiver saw it"},
		"an unknown job that did not happen":      {func(w *world) { delete(w.seen, key(*w, 2, 1)) }, 0, 0, "m/unknown is unknown"},
		"an unknown outcome that was not planned": {func(w *world) { w.claims[0].State = job.Unknown }, 0, 0, "m/plain is unknown , but was planned to end delivered"},
		"a doubt that was taken for delivered":    {func(w *world) { w.claims[2].State = job.Delivered }, 0, 0, "planned to end unknown"},
		"a job that is still pending":             {func(w *world) { w.claims[0].State = job.Scheduled }, 1, 0, "m/plain is still scheduled"},
		"a job that the ledger does not have":     {func(w *world) { w.claims = w.claims[:5] }, 1, 0, "the import made 6 jobs, the ledger has 5"},
		"a job that nobody imported":              {func(w *world) { w.counts.Jobs, w.counts.SameKey = 5, 2 }, 0, 0, "the import made 5 jobs, the ledger has 6"},
		"an effect that the ledger does not know": {func(w *world) { w.seen["stray"] = 1 }, 0, 0, "the effect stray"},
		"a row that nobody read":                  {func(w *world) { w.rows++ }, 0, 0, "the file has 9 rows, the import read 8"},
		"a row that ended in no way":              {func(w *world) { w.counts.Refused-- }, 0, 0, "8 rows are not 0 refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := agreeing()
			c.spoil(&w)
			got := w.compare()
			require.NotEmpty(t, got.problems)
			require.Contains(t, got.problems[0], c.problem)
			require.Equal(t, c.lost, got.lost)
			require.Equal(t, c.duplicates, got.duplicates)
		})
	}
}

func TestEffectKeysAreThoseThatTheReceiversSee(t *testing.T) {
	t.Parallel()
	hook := claim{Kind: "h", Key: "k", Channel: "http", Generation: 2}
	require.Equal(t, []string{"h/k:1:http", "h/k:2:http"}, hook.effectKeys())
	letter := claim{Kind: "m", Key: "k", Channel: "smtp", Generation: 1}
	require.Equal(t, []string{smtpchan.Identity("m/k:1:smtp")}, letter.effectKeys())
}
