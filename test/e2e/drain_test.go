package e2e_test

import (
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/pkg/job"
)

// G14, C65: a deploy lets what runs end, hands back the rest, burns no attempt and makes
// nothing unknown.
func TestG14ShutdownIsFree(t *testing.T) {
	t.Parallel()
	s := calm
	s.Slots, s.Sessions = 32, 1 // two messages of each of the four lanes
	r := newRig(t, s, servers{})
	held := newGate()
	r.web.plans(actAndWait(held))
	r.mail.plans(func(l *letter) error { l.act(); l.wait(held); return nil })
	r.start(scheduler, dispatcher)
	old := r.one(worker)
	r.enqueue(r.jobs(plain, "p", 20)...)
	r.enqueue(r.jobs(deduped, "d", 20)...)
	r.enqueue(r.jobs(mailed, "m", 12)...)
	r.await("its slots are taken", func() bool { return r.states()[job.Leased] >= 15 && r.web.total() >= 10 && r.mail.total() == 1 })
	require.Positive(t, r.states()[job.Ready], "some wait on the bus")
	old.signal(syscall.SIGTERM)
	old.says("draining")
	code, _ := old.admin("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, code, "a worker that drains is not ready")
	held.open()
	require.Zero(t, old.exit(), old.log.last(20))
	old.expendable = true
	require.Zero(t, r.states()[job.Leased], "nothing is left in its hands")

	r.one(worker)
	require.Equal(t, map[job.State]int{job.Delivered: 52}, r.account())
	for _, g := range r.generations() {
		require.Equal(t, int32(1), g.Attempt, "%s: the shutdown burned an attempt", g)
	}
}

// G14, C38: what is leased and has not begun when it does not fit into the drain any more
// is handed back, uncounted, and another worker has it at once.
func TestG14ShutdownHandsBackWhatDidNotBegin(t *testing.T) {
	t.Parallel()
	s := calm
	s.Limit, s.Drain = "20s", "22s"
	r := newRig(t, s, servers{})
	greeting := newGate()
	r.mail.greets(greeting) // until then no mail begins
	r.start(scheduler, dispatcher)
	old := r.one(worker)
	r.enqueue(r.jobs(mailed, "m", 4)...)
	r.await("the jobs are leased", r.in(job.Leased, 4))
	old.signal(syscall.SIGTERM)
	old.says("draining")
	elapse(3 * time.Second) // now the limit does not fit into what is left
	greeting.open()
	require.Zero(t, old.exit(), old.log.last(20))
	old.expendable = true
	require.Equal(t, map[job.State]int{job.Ready: 4}, r.states())
	for _, g := range r.generations() {
		require.Zero(t, g.Attempt, "%s: what did not begin was counted", g)
	}

	r.one(worker)
	require.Equal(t, map[job.State]int{job.Delivered: 4}, r.account())
	for _, g := range r.generations() {
		require.Equal(t, int32(1), g.Attempt, "%s", g)
	}
}

// C65: started in exec form, as images start it, every program hears SIGTERM and stops.
func TestC65ProgramsStartedInExecFormHearSIGTERM(t *testing.T) {
	t.Parallel()
	r := newRig(t, calm, servers{})
	for _, name := range []string{scheduler, dispatcher, worker} {
		p := r.add(launch(t, name+" in exec form", r.environment(), "/bin/sh", "-c", `exec "$0"`, program(t, name)))
		p.ready()
		p.stop()
		require.Contains(t, p.log.String(), `"msg":"stopping"`)
	}
}
