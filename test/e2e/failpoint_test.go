package e2e_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/failpoint"
	"duly.dev/duly/pkg/job"
)

// armed is the folder, below that of the programs, of those that were built with
// failpoints.
const armed = "armed"

var buildArmed = builds(armed, "-tags=failpoints")

// armedProgram returns the path of a program that was built with failpoints.
func armedProgram(t *testing.T, name string) string {
	t.Helper()
	require.NoError(t, buildArmed())
	return filepath.Join(shared.programs, armed, name)
}

// startArmed starts a program with failpoints, of which the rules ask for faults. How it
// ends is theirs to say.
func (r *rig) startArmed(name, rules string) *process {
	r.t.Helper()
	r.mu.Lock()
	number := len(r.processes) + 1
	r.mu.Unlock()
	environment := append(r.environment(), r.asking(rules)...)
	p := r.add(launch(r.t, fmt.Sprintf("%s %d, armed", name, number), environment, armedProgram(r.t, name)))
	p.expendable = true
	return p
}

// asking is the environment by which faults are asked for.
func (r *rig) asking(rules string) []string {
	return []string{"DULY_FAILPOINTS=" + rules, "DULY_FAILPOINTS_LOG=" + r.firedFile()}
}

func (r *rig) firedFile() string { return filepath.Join(r.folder, "fired") }

// fired waits until every rule has fired: a fault that did not happen proves nothing.
func (r *rig) fired(text string) {
	r.t.Helper()
	rules, err := failpoint.Parse(text)
	require.NoError(r.t, err)
	r.await("what was asked for has happened: "+text, func() bool {
		fired, err := failpoint.ReadLog(r.firedFile())
		require.NoError(r.t, err)
		return len(failpoint.Uncovered(rules, fired)) == 0
	})
}

// crashed waits until the process has killed itself.
func (p *process) crashed() {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		require.FailNow(p.t, "it did not crash", "%s: %s", p.name, p.log.last(20))
	}
	status, ok := p.command.ProcessState.Sys().(syscall.WaitStatus)
	require.True(p.t, ok && status.Signaled() && status.Signal() == syscall.SIGKILL, "%s: %s: %s", p.name, p.command.ProcessState, p.log.last(20))
}

// What is shipped holds no name of a place, so that nothing can turn a fault on in it.
func TestShippedProgramsHoldNoFailpoints(t *testing.T) {
	t.Parallel()
	for _, name := range []string{scheduler, dispatcher, worker, dlq, tool} {
		shipped, err := os.ReadFile(program(t, name))
		require.NoError(t, err)
		built, err := os.ReadFile(armedProgram(t, name))
		require.NoError(t, err)
		texts := []string{"DULY_FAILPOINTS"}
		for _, i := range failpoint.Places() {
			texts = append(texts, string(i.Place))
		}
		for _, text := range texts {
			require.True(t, bytes.Contains(built, []byte(text)), "%s with failpoints has no %q: this test looks for the wrong thing", name, text)
			require.False(t, bytes.Contains(shipped, []byte(text)), "%s holds %q", name, text)
		}
	}
}

// Whoever asks for a fault that there is not is told so, and nothing runs.
func TestFaultsThatCannotHappenAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, calm, servers{})
	p := r.startArmed(worker, "worker-nowhere=crash")
	require.NotZero(t, p.exit())
	require.Contains(t, p.log.String(), `there is no place "worker-nowhere"`)
}

// fault is one that a program is asked for.
type fault struct {
	program, rules string
	// crashes: the program kills itself, and another takes its place.
	crashes bool
	// burns: attempts were in the program's hands when it died.
	burns bool
}

// G1, G2, G3, G4, G8: whichever moment a process loses, each job ends as its kind's promises
// have it: a worker that dies between lease and commit leaves what may have happened;
// otherwise it is as if nothing had been.
func TestG8WhateverMomentIsLostJobsEndAsTheirKindsPromise(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fault{
		"crash after the lease":                   {worker, "worker-leased=crash@1", true, true},
		"crash before the first byte":             {worker, "worker-begun=crash@1", true, true},
		"crash after the first byte":              {worker, "http-sent=crash@1", true, true},
		"crash after the effect":                  {worker, "worker-done=crash@1", true, true},
		"crash behind the commit":                 {worker, "worker-settled=crash@1", true, false},
		"the reply to a lease is lost":            {worker, "lease-reply=lose@1", false, false},
		"the reply to a result is lost":           {worker, "settle-reply=lose@1", false, false},
		"acknowledgements are lost":               {worker, "worker-ack=lose@1", false, false},
		"the ledger is away now and then":         {worker, "lease-call=error@1,settle-call=error@1,heartbeat-call=error@1", false, false},
		"crash behind a publication":              {dispatcher, "relay-published=crash@1", true, false},
		"the reply to a moved cursor is lost":     {dispatcher, "relay-advanced=lose@1", false, false},
		"crash of a scheduler in a promotion":     {scheduler, "promote-reply=crash@3", true, false},
		"the ledger is away now and then, for it": {scheduler, "promote-call=error%30,promote-reply=lose%30,commit-call=error%20", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f.holds(t)
		})
	}
}

func (f fault) holds(t *testing.T) {
	t.Helper()
	s := calm
	dies := f.program == worker && f.crashes
	if dies {
		s = quick
	}
	r := newRig(t, s, servers{})
	r.remindSoon(2 * time.Second)
	for _, name := range []string{scheduler, dispatcher, worker} {
		if name != f.program {
			r.start(name)
		}
	}
	later := r.job(deduped, "later")
	later.Due = time.Now().Add(2 * time.Second)
	p := r.startArmed(f.program, f.rules)
	r.enqueue(append(append(r.jobs(plain, "p", 4), r.jobs(deduped, "d", 4)...), later)...)
	if f.crashes {
		p.crashed()
		r.start(f.program)
	}
	r.account()
	r.fired(f.rules)
	burned := 0
	for _, g := range r.generations() {
		asked, _ := r.web.count(g.effectKey())
		switch {
		case !dies:
			require.Equal(t, job.Delivered, g.State, "%s", g)
			require.Equal(t, []int{1, 1}, []int{asked, int(g.Attempt)}, "%s", g)
		case g.Kind == deduped:
			require.Equal(t, job.Delivered, g.State, "%s: its receiver dedupes", g)
		default:
			require.Contains(t, []job.State{job.Delivered, job.Unknown}, g.State, "%s", g)
			require.Equal(t, int32(1), g.Attempt, "%s: what may have happened was repeated", g)
		}
		if g.State == job.Unknown || g.Attempt > 1 {
			burned++
		}
	}
	require.True(t, !f.burns || burned > 0, "what was in its hands may have happened")
}

// G8: a mail whose content breaks off before the final dot was not sent, and is sent again.
func TestG8MailThatBreaksOffBeforeItsFinalDotIsSentAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, calm, servers{})
	r.start(scheduler, dispatcher)
	r.startArmed(worker, "mail-content=error@1")
	r.enqueue(r.job(mailed, "m"))
	require.Equal(t, map[job.State]int{job.Delivered: 1}, r.account())
	r.fired("mail-content=error@1")
	require.Equal(t, int32(2), r.attempts(mailed, "m"))
	require.Equal(t, 1, r.mail.total())
}

// G9: whoever dies in the middle of a redrive has decided nothing, and may decide again.
func TestG9ARedriveThatDiesHalfWayHasNotHappened(t *testing.T) {
	t.Parallel()
	r := newRig(t, calm, servers{})
	r.web.plans(func(v *visit) { v.answer(http.StatusNotAcceptable) })
	r.start(scheduler, dispatcher, worker)
	r.enqueue(r.jobs(deduped, "d", 1)...)
	r.await("it is quarantined", r.in(job.Quarantined, 1))
	r.web.plans(nil)
	args := []string{
		"redrive", deduped + "/d-0000", "--generation", "1",
		"--recovery-key", "decision", "--approver", "an approver", "--reason", "the receiver is repaired",
	}
	for _, rule := range []string{"redrive-between=crash@1", "redrive-appended=crash@1", "commit-call=crash@1"} {
		p := launch(t, "dlq, armed: "+rule, append(r.environment(), r.asking(rule)...), armedProgram(t, dlq), args...)
		p.crashed()
		require.Len(t, r.generations(), 1, "%s", rule)
	}
	p := launch(t, "dlq, armed: commit-reply", append(r.environment(), r.asking("commit-reply=crash@1")...), armedProgram(t, dlq), args...)
	p.crashed() // it is decided, and nobody was told
	_, said, code := r.dlq(args...)
	require.Zero(t, code, said)
	require.Equal(t, map[job.State]int{job.Delivered: 1}, r.account())
	require.Len(t, r.generations(), 2, "one recovery key made one generation")
	r.fired("redrive-between=crash@1,redrive-appended=crash@1,commit-call=crash@1,commit-reply=crash@1")
}

// G2: a scheduler that dies between the end of a dead worker's row and the end of its leases
// leaves them to another.
func TestG2ASchedulerThatDiesHalfWayThroughADeadWorkerLeavesItToAnother(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick, servers{})
	held := newGate()
	r.web.plans(actAndWait(held))
	r.start(dispatcher)
	first := r.startArmed(scheduler, "sweep-ended=crash@1")
	victim := r.one(worker)
	r.enqueue(r.jobs(plain, "p", 3)...)
	r.await("the receivers have acted", func() bool { return r.web.total() == 3 })
	victim.kill()
	first.crashed()
	require.Equal(t, map[job.State]int{job.Leased: 3}, r.states())
	r.startArmed(scheduler, "sweep-decided=error@1")
	require.Equal(t, map[job.State]int{job.Unknown: 3}, r.account())
	r.fired("sweep-ended=crash@1,sweep-decided=error@1")
}
