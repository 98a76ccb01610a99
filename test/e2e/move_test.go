package e2e_test

import (
	"context"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/devstack"
	"duly.dev/duly/pkg/job"
)

// move has the lanes moved by the program, as an operator does, and returns what it says.
func (r *rig) move(from, to string, args ...string) (said string, code int) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, program(r.t, tool), append([]string{"bus", "move", "--from", from, "--to", to, "--actor", "alice"}, args...)...)
	command.Env = r.environment()
	out, _ := command.CombinedOutput() // the exit code says what it was
	require.NotNil(r.t, command.ProcessState, "it did not run")
	return string(out), command.ProcessState.ExitCode()
}

// G2: the lanes move to another bus while jobs flow, and the old one is gone for good with
// all that it still holds. Nobody waits for that to be judged lost.
func TestG2LanesMoveToAnotherBus(t *testing.T) {
	t.Parallel()
	from, err := devstack.StartNATS(devstack.NATSOptions{})
	require.NoError(t, err)
	gone := false
	t.Cleanup(func() {
		if !gone {
			require.NoError(t, from.Stop())
		}
	})
	to, err := devstack.StartNATS(devstack.NATSOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, to.Stop()) })

	r := newRig(t, calm, servers{bus: from.URL()})
	both := "DULY_BUS_NEXT_URL=" + to.URL()
	r.start(scheduler)
	dispatching, working := r.startWith(dispatcher, both), r.startWith(worker, both)
	r.enqueue(append(r.jobs(plain, "p", 60), r.jobs(deduped, "d", 60)...)...)
	r.await("jobs flow on the old bus", func() bool { return r.web.total() > 20 })
	working.ready().stop()
	r.enqueue(append(r.jobs(plain, "waits-p", 60), r.jobs(deduped, "waits-d", 60)...)...)
	r.await("everything is on the old bus", func() bool { return r.relayed(plain) && r.relayed(deduped) })
	require.Positive(t, r.waitingOnBus())

	said, code := r.move("nats://elsewhere:4222", from.URL())
	require.Zero(t, code, "a ledger that was never moved believes where it is: %s", said)
	said, code = r.move("nats://elsewhere:4222", to.URL())
	require.Equal(t, 4, code, said)
	require.Contains(t, said, "they are on ")
	said, code = r.move(from.URL(), to.URL())
	require.Zero(t, code, said)
	require.Contains(t, said, "lanes are relayed there already")

	gone = true
	require.NoError(t, from.Stop())
	r.startWith(worker, "DULY_BUS_URL="+to.URL())
	r.await("what the old bus held comes from the new one", r.settled)

	dispatching.stop()
	r.startWith(dispatcher, "DULY_BUS_URL="+to.URL())
	r.enqueue(r.jobs(deduped, "after", 20)...)
	require.Equal(t, map[job.State]int{job.Delivered: 260}, r.account())
	asked, _ := r.web.seen()
	for key, n := range asked {
		require.Equal(t, 1, n, "%s was sent again", key)
	}
	for _, g := range r.generations() {
		require.Equal(t, int32(1), g.Attempt, "%s: the move burned an attempt", g)
	}
}

// A dispatcher that was not told of the new bus does not relay to the old one.
func TestMoveSaysWhichLanesNobodyHasTaken(t *testing.T) {
	t.Parallel()
	to, err := devstack.StartNATS(devstack.NATSOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, to.Stop()) })
	r := newRig(t, calm, servers{})
	r.start(scheduler)
	r.one(dispatcher)
	said, code := r.move(r.bus, to.URL(), "--watch", "1s")
	require.Equal(t, 1, code, said)
	require.Contains(t, said, "DULY_BUS_NEXT_URL")
	r.enqueue(r.jobs(plain, "p", 5)...)
	r.startWith(worker, "DULY_BUS_NEXT_URL="+to.URL())
	said, code = r.move(to.URL(), r.bus)
	require.Zero(t, code, said)
	require.Equal(t, map[job.State]int{job.Delivered: 5}, r.account())
}
