package e2e_test

import (
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// G1: cancel and lease exclude each other by the job's row: what is cancelled was never
// sent, however close the race.
func TestG1NothingIsCancelledAndSent(t *testing.T) {
	t.Parallel()
	r := newRig(t, calm, servers{})
	r.web.plans(func(v *visit) {
		v.act()
		elapse(5 * time.Millisecond)
		v.answer(http.StatusOK)
	})
	r.start(scheduler, dispatcher)
	specs := append(r.jobs(plain, "p", 150), r.jobs(deduped, "d", 150)...)
	r.enqueue(specs...)
	cancel := func(s job.Spec) {
		_, err := r.ledger.Cancel(t.Context(), machine.Cancellation{Kind: s.Kind, Key: s.Key, Actor: "test", Reason: "not wanted any more"})
		var denied *machine.Denied
		if err != nil && !errors.As(err, &denied) {
			t.Errorf("cancelling %s/%s: %v", s.Kind, s.Key, err)
		}
	}
	for _, s := range specs[:10] { // before anybody can lease them
		cancel(s)
	}
	r.start(worker)
	r.await("the race is on", func() bool { return r.web.total() > 0 })
	var racing sync.WaitGroup
	for lane := range 4 {
		racing.Go(func() {
			for i := lane; i < len(specs); i += 8 {
				cancel(specs[i])
			}
		})
	}
	racing.Wait()
	states := r.account()
	require.Equal(t, 300, states[job.Cancelled]+states[job.Delivered], "%v", states)
	require.GreaterOrEqual(t, states[job.Cancelled], 10)
	require.Positive(t, states[job.Delivered])
	require.Equal(t, states[job.Delivered], r.web.total())
}
