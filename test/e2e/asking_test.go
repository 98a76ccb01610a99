package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/pkg/job"
)

// doubts are what receivers do the first time that leaves everybody in doubt, by the name
// of the job, and whether they have acted.
var doubts = map[string]struct {
	acts bool
	does func(*visit)
}{
	"acts-then-closes":    {true, func(v *visit) { v.act(); v.hangUp() }},
	"closes":              {false, func(v *visit) { v.hangUp() }},
	"acts-then-503":       {true, func(v *visit) { v.act(); v.answer(http.StatusServiceUnavailable) }},
	"503":                 {false, func(v *visit) { v.answer(http.StatusServiceUnavailable) }},
	"acts-when-given-up":  {true, func(v *visit) { v.waitUntilGone(); v.act() }},
	"does-nothing-at-all": {false, func(v *visit) { v.waitUntilGone() }},
}

// G1, G8: a receiver that does not dedupe, but can be asked, leaves doubts of every sort.
// Two schedulers ask, of which one is killed in the middle. Every doubt is settled as it
// was: what happened is delivered by the answer, on its receipt, and never sent again; what
// did not is sent again, once.
func TestG8UnknownOutcomesAreSettledToTheTruthByAsking(t *testing.T) {
	t.Parallel()
	s := calm
	s.Limit = "3s"
	r := newRig(t, s, servers{})
	r.web.plans(func(v *visit) {
		for name, doubt := range doubts {
			if strings.Contains(v.key, "/"+name+"-0") && v.nth == 1 {
				doubt.does(v)
				return
			}
		}
		v.act()
		v.answer(http.StatusOK)
	})
	victim := r.startWith(scheduler)
	r.start(scheduler, dispatcher, worker)
	const each = 4
	specs := r.jobs(askable, "well-behaved", each)
	for name := range doubts {
		specs = append(specs, r.jobs(askable, name, each)...)
	}
	r.enqueue(specs...)
	r.await("questions are asked", func() bool { return r.web.questions() > each*len(doubts) })
	victim.kill()
	r.await("every doubt is settled", r.in(job.Delivered, len(specs)))
	require.Equal(t, map[job.State]int{job.Delivered: len(specs)}, r.account())
	for name, doubt := range doubts {
		for i := range each {
			g := generation{Kind: askable, Key: fmt.Sprintf("%s-%04d", name, i), Generation: 1}
			sent, effects := r.web.count(g.effectKey())
			require.Equal(t, 1, effects, "%s", g.Key)
			if doubt.acts {
				require.Equal(t, 1, sent, "%s: what happened is not sent again", g.Key)
				require.Equal(t, "lookup", r.settledBy(g.Key, "answer_yes"))
			} else {
				require.Equal(t, 2, sent, "%s: what did not happen is", g.Key)
				require.Equal(t, "lookup", r.settledBy(g.Key, "answer_no"))
			}
		}
	}
}

// settledBy is who gave the one answer about a job.
func (r *rig) settledBy(key, name string) string {
	r.t.Helper()
	var by string
	err := r.pool.QueryRow(r.t.Context(), `SELECT string_agg(e.actor, ' ') FROM duly.event e JOIN duly.job j ON j.id = e.job
		WHERE j.key = $1 AND e.name = $2 AND NOT e.late`, key, name).Scan(&by)
	require.NoError(r.t, err)
	return by
}
