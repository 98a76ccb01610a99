package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/explain"
	"duly.dev/duly/pkg/job"
)

// explanation is what `dlq explain --json` prints.
type explanation struct {
	Kind, Key   string
	State       job.State
	Explanation struct {
		State, Why, Next string
		When             time.Time
	}
}

// dlq runs the operator's tool and returns what it printed, its errors, and its exit
// code. Its errors are private too.
func (r *rig) dlq(args ...string) (stdout, stderr string, code int) {
	r.t.Helper()
	return r.say(dlq, args...)
}

// say runs a program that says something, and ends.
func (r *rig) say(name string, args ...string) (stdout, stderr string, code int) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), processBound)
	defer cancel()
	command := exec.CommandContext(ctx, program(r.t, name), args...)
	command.Dir = r.folder
	command.Env = append([]string{"DULY_ACTOR=e2e"}, r.environment()...)
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	_ = command.Run()
	require.NoError(r.t, ctx.Err(), "%s %v", name, args)
	return out.String(), errs.String(), command.ProcessState.ExitCode()
}

// explain asks the operator's tool about a job.
func (r *rig) explain(kind, key string) explanation {
	r.t.Helper()
	stdout, stderr, code := r.dlq("explain", "--json", kind+"/"+key)
	require.Zero(r.t, code, stderr)
	var e explanation
	require.NoError(r.t, json.Unmarshal([]byte(stdout), &e), stdout)
	return e
}

// explained is G12: of every job it can be said what state it is in, why, and what
// happens next. Of many, some are asked about; of each state of each kind one is asked
// about as a person does.
func (r *rig) explained(all []generation) {
	r.t.Helper()
	type sort struct {
		kind  string
		state job.State
	}
	asked := map[sort]bool{}
	every := 1 + len(all)/100
	for i, g := range all {
		if !g.Current || i%every > 0 && asked[sort{g.Kind, g.State}] {
			continue
		}
		story, err := r.ledger.Show(context.Background(), g.Kind, g.Key)
		require.NoError(r.t, err)
		e := explain.Of(story)
		require.NotEmpty(r.t, e.State, "G12: %s", g)
		require.NotEmpty(r.t, e.Why, "G12: %s", g)
		require.NotEmpty(r.t, e.Next, "G12: %s", g)
		if s := (sort{g.Kind, g.State}); !asked[s] {
			asked[s] = true
			told := r.explain(g.Kind, g.Key)
			require.Equal(r.t, g.State, told.State, "G12: %s", g)
			require.NotEmpty(r.t, told.Explanation.Why, "G12: %s", g)
			require.NotEmpty(r.t, told.Explanation.Next, "G12: %s", g)
		}
	}
}

// most is how many jobs a report explains.
const most = 5

// report shows, when a test has failed, what is left and what the processes said last.
func (r *rig) report() {
	r.t.Logf("jobs by state: %v; effects: %d by HTTP, %d by mail", r.states(), r.web.total(), r.mail.total())
	if _, err := r.pool.Exec(context.Background(), "SELECT"); err == nil {
		left := 0
		for _, g := range r.generations() {
			if left < most && g.Current && (g.State.Pending() || g.State == job.Unknown) {
				left++
				told, errs, _ := r.dlq("explain", g.Kind+"/"+g.Key)
				r.t.Logf("%s\n%s%s", g, told, errs)
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.processes {
		state := "it runs"
		if !p.running() {
			state = p.command.ProcessState.String()
		}
		r.t.Logf("%s (%s): %s", p.name, state, p.log.last(15))
	}
}
