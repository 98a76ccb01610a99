package execute

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/bus/membus"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

func TestOptionsThatCannotWorkAreRefusedTogether(t *testing.T) {
	t.Parallel()
	policy := machine.DefaultPolicy()
	policy.Limit = 25 * time.Second
	_, err := New(Options{
		Slots: -1, Heartbeat: 20 * time.Second, Drain: -1, Lanes: []Lane{{Name: "mail", Pack: -1}},
		Kinds: []Kind{{Kind: machine.Kind{Name: "slow", Channel: "http", Policy: policy}, Performer: &performer{}}},
	})
	for _, want := range []string{
		"ledger, heart and bus", "slots -1", "heartbeat 20s", "drain -1ns", "pack -1", `kind slow: limit 25s`, `kind slow: it needs a performer for its channel "http"`,
	} {
		require.ErrorContains(t, err, want)
	}
	_, err = New(Options{})
	require.ErrorContains(t, err, "lanes")
}

func TestLimitOfAGoHandlerMayExceedTheLease(t *testing.T) {
	t.Parallel()
	o := Options{}
	o.setDefaults()
	k := Kind{Kind: machine.Kind{Name: "k", Policy: machine.Policy{Limit: 25 * time.Second}}}
	require.Error(t, o.checkLimit(k))
	k.Handler = true
	require.NoError(t, o.checkLimit(k))
}

func TestLaneThatCannotBeConsumedStopsTheWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		require.NoError(t, r.bus.Close())
		require.ErrorContains(t, r.worker.Run(t.Context()), "consuming lane mail")
	})
}

func TestMetricsAreNamedWellAndCountLogicalEnds(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	inBubble(t, func(r *rig) {
		r.options.Metrics = registry
		r.kind.Codes = []job.Code{"QUOTA"}
		r.performer.do = script(map[string]job.Result{
			"ok": job.Done(nil), "quota": job.NotDone(job.ClassTransient, "QUOTA", ""), "odd": job.NotDone(job.ClassPermanent, "ODD", ""),
			"lost": job.MayBeDone(job.CodeTimeout, ""),
		})
	}, func(t *testing.T, r *rig) {
		r.put("ok", "ok", "quota")
		r.put("odd", "lost")
		r.settle()
		r.books.announce("greeting", "mail", job.Ref{Job: 1, Generation: 1, Emission: 1})
		r.settle()
		problems, err := testutil.GatherAndLint(registry)
		require.NoError(t, err)
		require.Empty(t, problems)
		require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP duly_worker_attempts_total Attempts that ended, hand-backs (not_begun) among them, once the ledger has committed their end.
# TYPE duly_worker_attempts_total counter
duly_worker_attempts_total{class="",code="",kind="greeting",outcome="delivered"} 2
duly_worker_attempts_total{class="",code="TIMEOUT",kind="greeting",outcome="unknown"} 1
duly_worker_attempts_total{class="permanent",code="OTHER",kind="greeting",outcome="failed"} 1
duly_worker_attempts_total{class="transient",code="QUOTA",kind="greeting",outcome="failed"} 1
# HELP duly_worker_stale_references_total References that could not be leased any more and were dropped.
# TYPE duly_worker_stale_references_total counter
duly_worker_stale_references_total{kind="greeting"} 1
# HELP duly_worker_free_slots Slots that are free now.
# TYPE duly_worker_free_slots gauge
duly_worker_free_slots{lane="mail"} 8
# HELP duly_worker_registrations_total Registrations of the process in the ledger; more than one means that the ledger ended it.
# TYPE duly_worker_registrations_total counter
duly_worker_registrations_total 1
`), "duly_worker_attempts_total", "duly_worker_stale_references_total", "duly_worker_free_slots", "duly_worker_registrations_total"))
	})
}

func TestSlotsAreWaitedForAndGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(4)
		require.Equal(t, 4, s.take(7))
		got := make(chan int, 2)
		for _, need := range []int{1, 3} {
			go func() {
				if free, err := s.wait(t.Context(), need); err == nil {
					got <- free
				}
			}()
		}
		synctest.Wait()
		require.Empty(t, got)
		s.give(1)
		require.Equal(t, 1, <-got)
		s.give(2)
		require.Equal(t, 3, <-got)
		s.give(1)
		require.NoError(t, s.idle(t.Context()))
		require.Empty(t, s.waiting)
	})
}

func TestPackAboveTheShareOfALaneIsCutToIt(t *testing.T) {
	t.Parallel()
	r := &rig{}
	w, err := New(Options{
		Ledger: &books{}, Heart: &books{}, Bus: &witness{membus.New(), r}, Slots: 10, Lanes: []Lane{{Name: "a", Pack: 4}, {Name: "b"}},
	})
	require.NoError(t, err)
	require.Equal(t, []int{4, 5}, []int{w.lanes[0].need, w.lanes[1].need})
}

// C17: who a worker is, is random: two of one name on one host are two.
func TestC17WorkersOfOneNameAreTwo(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, r *rig) {
		o := r.options
		o.Ledger, o.Heart, o.Bus, o.Kinds = r.books, r.books, r.broker.Connect(), []Kind{r.kind}
		other, err := New(o)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- other.Run(ctx) }()
		r.settle()
		require.Len(t, r.books.alive(), 2, "both have the label %q", o.Label)
		stop()
		require.NoError(t, <-ended)
		require.Len(t, r.books.alive(), 1, "and the end of one is not that of the other")
	})
}
