package e2e_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/pkg/job"
)

// G9: however often and concurrently a redrive is asked for, one recovery key makes one
// generation, a second key none, and one effect happens.
func TestG9RedriveIsDoneOnceHoweverOftenItIsAsked(t *testing.T) {
	t.Parallel()
	r := newRig(t, calm, servers{})
	r.web.plans(func(v *visit) { v.answer(http.StatusNotAcceptable) })
	r.start(scheduler, dispatcher, worker)
	r.enqueue(r.jobs(deduped, "d", 1)...)
	r.await("it is quarantined", r.in(job.Quarantined, 1))
	r.web.plans(nil)

	type answer struct {
		code           int
		stdout, stderr string
	}
	answers := make([]answer, 8)
	var asking sync.WaitGroup
	for i := range answers {
		asking.Go(func() {
			stdout, stderr, code := r.dlq("redrive", "--json", deduped+"/d-0000", "--generation", "1",
				"--recovery-key", "decision-"+strconv.Itoa(i%2), "--approver", "an approver", "--reason", "the receiver is repaired")
			answers[i] = answer{code, stdout, stderr}
		})
	}
	asking.Wait()
	require.NotEqual(t, answers[0].code, answers[1].code, "one key wins: %v", answers)
	for i, a := range answers {
		require.Equal(t, answers[i%2].code, a.code, "the same key has the same answer: %v", answers)
		if a.code == 0 {
			var made struct{ Generation int }
			require.NoError(t, json.Unmarshal([]byte(a.stdout), &made), a.stdout)
			require.Equal(t, 2, made.Generation, a.stdout)
		}
	}
	require.Equal(t, map[job.State]int{job.Delivered: 1}, r.account())
	all := r.generations()
	require.Len(t, all, 2)
	require.Equal(t, job.Quarantined, all[0].State, "the evidence is unchanged")
	require.Equal(t, 1, r.web.total())
}
