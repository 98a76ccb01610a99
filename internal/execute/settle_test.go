package execute

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/channel"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

func TestC66ResultWhoseReplyWasLostIsSentAgainAndCountsOnce(t *testing.T) {
	t.Parallel()
	for name, done := range map[string]bool{"the commit happened": true, "the commit did not happen": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(r *rig) {
				r.books.onSettle = func(n int, _ []machine.Report) fault {
					if n == 1 {
						return fault{fail: errReply, done: done}
					}
					return fault{}
				}
			}, func(t *testing.T, r *rig) {
				r.put("a")
				r.settle()
				acked, _ := r.counts()
				require.Zero(t, acked)
				r.pass(time.Second)
				require.Equal(t, []string{"a"}, r.performer.began())
				r.requireState(1, job.Delivered, 1)
				acked, released := r.counts()
				require.Equal(t, []int{1, 0}, []int{acked, released})
				require.Len(t, r.books.settles, 2)
			})
		})
	}
}

func TestReportsThatAreThereShareOneRoundTripInOrderOfJobs(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.options.Slots, r.options.Lanes[0].Pack = 100, 50
		r.books.onSettle = func(n int, _ []machine.Report) fault {
			if n == 1 {
				return fault{wait: r.open}
			}
			return fault{}
		}
	}, func(t *testing.T, r *rig) {
		r.put("first")
		r.settle()
		keys := make([]string, 50)
		for i := range keys {
			keys[i] = "x"
		}
		r.put(keys...)
		r.settle()
		close(r.open)
		r.settle()
		require.Len(t, r.books.settles, 2)
		batch := r.books.settles[1]
		require.Len(t, batch, 50)
		require.True(t, slices.IsSortedFunc(batch, func(a, b machine.Report) int { return int(a.Job - b.Job) }))
	})
}

func TestResultWhoseRowIsLockedHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.books.locked = map[int64]bool{1: true}
	}, func(t *testing.T, r *rig) {
		r.put("a")
		r.settle()
		r.put("b")
		r.settle()
		acked, _ := r.counts()
		require.Equal(t, 1, acked, "b is settled, a waits")
		r.requireState(1, job.Leased, 1)
		r.requireState(2, job.Delivered, 1)
		r.books.with(func() { require.Len(t, r.books.settles, 2, "a is not sent again at once") })
		r.pass(time.Minute)
		acked, released := r.counts()
		require.Equal(t, []int{1, 0}, []int{acked, released})
		r.books.with(func() { r.books.locked = nil })
		r.pass(time.Second)
		acked, _ = r.counts()
		require.Equal(t, 2, acked)
		r.requireState(1, job.Delivered, 1)
		require.Equal(t, []string{"a", "b"}, r.performer.began())
	})
}

func TestShutdownWaitsForAResultWhoseRowIsLocked(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.books.locked = map[int64]bool{1: true}
	}, func(t *testing.T, r *rig) {
		r.put("a")
		r.settle()
		time.AfterFunc(time.Second, func() { r.books.with(func() { r.books.locked = nil }) })
		require.NoError(t, r.shutdown())
		r.requireState(1, job.Delivered, 1)
	})
}

// refusing fails every batch that holds what the ledger cannot store.
func refusing(bad func(machine.Report) bool) func(int, []machine.Report) fault {
	return func(_ int, reports []machine.Report) fault {
		if slices.ContainsFunc(reports, bad) {
			return fault{fail: errors.New("invalid byte sequence")}
		}
		return fault{}
	}
}

func TestBadResultIsFoundByHalvingAndCostsOnlyItsDetails(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.options.Slots, r.options.Lanes[0].Pack = 16, 16
		r.performer.do = func(_ context.Context, e channel.Effect) job.Result {
			<-r.open
			if err := e.Begin(); err != nil {
				return job.NotBegun(err.Error())
			}
			return job.Done(&job.Receipt{ID: e.Key})
		}
		r.books.onSettle = refusing(func(p machine.Report) bool { return p.Result.Receipt != nil && p.Result.Receipt.ID == "bad" })
	}, func(t *testing.T, r *rig) {
		r.put("a", "b", "c", "d", "bad", "f", "g", "h")
		r.settle()
		close(r.open)
		r.settle()
		for id := range int64(8) {
			r.requireState(id+1, job.Delivered, 1)
		}
		for id, n := range r.books.settled {
			require.Equal(t, 1, n, "job %d", id.Job)
		}
		require.Zero(t, r.broker.Depth("mail"))
	})
}

func TestResultThatIsNeverTakenIsGivenUpWithoutAnAcknowledgement(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.copies = true
		r.books.onSettle = refusing(func(p machine.Report) bool { return p.Job == 1 })
	}, func(t *testing.T, r *rig) {
		r.put("cursed")
		for range 20 {
			r.put("fine")
			r.pass(time.Second)
		}
		require.Equal(t, job.Leased, r.books.row(1).State, "its lease will end as unknown")
		_, released := r.counts()
		require.Equal(t, 1, released, "its message came again, and its reference is stale")
		for id := range int64(20) {
			r.requireState(id+2, job.Delivered, 1)
		}
		require.Zero(t, r.worker.settling.reports.left())
	})
}

func TestG8ResultThatIsGivenUpIsNotHandedBackAsNeverBegun(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.copies = true
		r.books.onSettle = refusing(func(p machine.Report) bool { return p.Job == 1 && p.Result.Outcome == job.OutcomeDelivered })
	}, func(t *testing.T, r *rig) {
		r.put("cursed")
		for range 40 { // the heartbeats go on to name its fence
			r.put("fine")
			r.pass(time.Second)
		}
		require.Equal(t, 1, countOf(r.performer.began(), "cursed"))
		require.Equal(t, job.Leased, r.books.row(1).State, "its lease will end as unknown")
	})
}

func countOf(all []string, one string) (n int) {
	for _, s := range all {
		if s == one {
			n++
		}
	}
	return n
}

func TestOutageOfTheLedgerGivesNoResultUp(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.books.onSettle = func(int, []machine.Report) fault { return fault{fail: errDown} }
	}, func(t *testing.T, r *rig) {
		r.put("a", "b", "c")
		r.pass(5 * time.Minute)
		acked, released := r.counts()
		require.Zero(t, acked+released)
		r.books.with(func() { r.books.onSettle = nil })
		r.pass(10 * time.Second)
		for id := range int64(3) {
			r.requireState(id+1, job.Delivered, 1)
		}
		require.Zero(t, r.broker.Depth("mail"))
	})
}

func TestLedgerThatIsAwayCostsNoResultItsDetails(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.books.onSettle = func(n int, _ []machine.Report) fault {
			if n == 1 { // and at the next call it is back
				return fault{fail: fmt.Errorf("%w: it is being shut down", machine.ErrAway)}
			}
			return fault{}
		}
		r.performer.do = func(_ context.Context, e channel.Effect) job.Result {
			require.NoError(r.t, e.Begin())
			return job.Done(&job.Receipt{ID: "queued as 4711"})
		}
	}, func(t *testing.T, r *rig) {
		r.put("a")
		r.pass(time.Minute)
		r.requireState(1, job.Delivered, 1)
		last := r.books.settles[len(r.books.settles)-1]
		require.Equal(t, "queued as 4711", last[0].Result.Receipt.ID)
	})
}

func TestReportsWaitWhileTheirQueueIsFull(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.books.onSettle = func(n int, _ []machine.Report) fault {
			if n == 1 {
				return fault{wait: r.open}
			}
			return fault{}
		}
	}, func(t *testing.T, r *rig) { // 8 slots: 1 report is being settled, 8 are queued, 8 wait with their slots
		for range 60 {
			r.put("x")
		}
		r.settle()
		begun := len(r.performer.began())
		require.GreaterOrEqual(t, begun, 8)
		require.Less(t, begun, 40, "no attempt begins while as many ends wait as there are slots")
		close(r.open)
		r.settle()
		require.Len(t, r.performer.began(), 60)
	})
}

func TestFailureIsScheduledBeforeItsMessageIsAcknowledged(t *testing.T) {
	t.Parallel()
	failures := 2
	inBubble(t, func(r *rig) {
		r.performer.do = func(_ context.Context, e channel.Effect) job.Result {
			if err := e.Begin(); err != nil {
				return job.NotBegun(err.Error())
			}
			if failures--; failures >= 0 {
				return job.NotDone(job.ClassTransient, job.CodeReceiverBusy, "later")
			}
			return job.Done(nil)
		}
	}, func(t *testing.T, r *rig) {
		r.put("a")
		r.settle()
		row := r.requireState(1, job.Scheduled, 1)
		require.Equal(t, job.WaitingRetry, row.Waiting)
		acked, _ := r.counts()
		require.Equal(t, 1, acked)
		r.pass(2 * time.Minute) // the delayed emissions come by themselves
		r.requireState(1, job.Delivered, 3)
	})
}

func TestASuccessBesidesASuccessorIsCountedAsADuplicate(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	inBubble(t, func(r *rig) {
		r.options.Metrics = registry
		r.performer.do = r.hold
	}, func(t *testing.T, r *rig) {
		r.put("a")
		r.settle()
		r.books.endWorker(r.books.alive()[0], true)
		r.requireState(1, job.Unknown, 1)
		_, err := r.books.Redrive(t.Context(), machine.RedriveRequest{
			Kind: "greeting", Key: "a", Generation: 1, RecoveryKey: "r", Approver: "ann", Actor: "bob", Reason: "nothing came",
			Forced: true, Evidence: "their log", Correction: machine.Correction{NotBefore: time.Now().Add(time.Hour)},
		})
		require.NoError(t, err)
		close(r.open)
		r.settle()
		require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP duly_worker_duplicate_effects_total Successes of generations that were delivered by another attempt, cancelled or redriven before. Where the receiver did not dedupe them, each is an effect too many.
# TYPE duly_worker_duplicate_effects_total counter
duly_worker_duplicate_effects_total{kind="greeting"} 1
`), "duly_worker_duplicate_effects_total"))
	})
}
