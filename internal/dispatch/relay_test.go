package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/bus/membus"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/memledger"
	"duly.dev/duly/pkg/job"
)

// world is a ledger and a broker in memory, inside a bubble with a clock of its own.
type world struct {
	*testing.T
	ledger *memledger.Ledger
	broker *membus.Broker
	jobs   int
}

func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, ledger: memledger.New(), broker: membus.NewBroker(membus.Options{})}
		w.configure("main")
		test(w)
	})
}

// configure gives the ledger a kind with a lane of the same name.
func (w *world) configure(names ...string) {
	w.Helper()
	var kinds []machine.Kind
	for _, n := range names {
		kinds = append(kinds, machine.Kind{Name: n, Lane: n, Channel: "go", Policy: machine.DefaultPolicy(), Promises: machine.DefaultPromises(10 * time.Second)})
	}
	require.NoError(w.T, w.ledger.SyncKinds(w.Context(), kinds))
}

// enqueue makes n jobs of the kind, each in a transaction of its own, and returns them.
func (w *world) enqueue(kind string, n int) []int64 {
	w.Helper()
	var jobs []int64
	for range n {
		w.jobs++
		made, err := w.ledger.Enqueue(w.Context(), []job.Spec{{Kind: kind, Key: fmt.Sprint(w.jobs), Payload: []byte(`{}`)}})
		require.NoError(w.T, err)
		jobs = append(jobs, made[0].Job)
	}
	return jobs
}

// dispatcher runs a dispatcher and returns how to stop it.
func (w *world) dispatcher(change ...func(*Options)) (stop func()) {
	w.Helper()
	o := Options{Ledger: w.ledger, Bus: w.broker.Connect()}
	for _, c := range change {
		c(&o)
	}
	d, err := New(o)
	require.NoError(w.T, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = d.Run(ctx) // ctx's error
	}()
	return func() { cancel(); <-ended }
}

func (w *world) wait(d time.Duration) { time.Sleep(d); synctest.Wait() }

func (w *world) received(lane string) []int64 { return received(w.T, w.broker.Connect(), lane) }

func TestWhatIsEnqueuedIsAnnouncedSoon(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		defer w.dispatcher()()
		w.wait(10 * time.Second)
		for range 5 {
			want := w.enqueue("main", 10)
			w.wait(100 * time.Millisecond)
			require.Equal(w, want, w.received("main"), "within the longest rest of an idle dispatcher")
		}
		w.enqueue("main", 1)
		w.wait(110 * time.Millisecond)
		want := w.enqueue("main", 1)
		w.wait(20 * time.Millisecond)
		require.Contains(w, w.received("main"), want[0], "soon after work the rests are short")
	})
}

func TestWhatWaitedBeforeTheStartIsAnnounced(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		want := w.enqueue("main", 2500)
		defer w.dispatcher()()
		w.wait(time.Second)
		require.Equal(w, want, w.received("main"))
	})
}

func TestLaneThatAppearsLaterIsRelayed(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		defer w.dispatcher()()
		w.wait(5 * time.Second)
		w.configure("other")
		want := w.enqueue("other", 3)
		w.wait(2 * time.Second)
		require.Equal(w, want, w.received("other"))
	})
}

// A broker that is down is back-pressure: nothing is lost or set aside, and all goes
// on by itself.
func TestOutageOfTheBrokerIsSurvived(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		defer w.dispatcher()()
		w.wait(time.Second)
		w.broker.Stop()
		want := w.enqueue("main", 100)
		w.wait(10 * time.Minute)
		depth, err := w.ledger.OutboxDepth(w.Context(), "main", 1000)
		require.NoError(w, err)
		require.Equal(w, 100, depth, "nothing is advanced over")
		w.broker.Start()
		w.wait(15 * time.Second)
		require.Equal(w, want, slices.Compact(w.received("main")))
		aside, err := w.ledger.Unsendable(w.Context(), 10)
		require.NoError(w, err)
		require.Empty(w, aside)
	})
}

// A page of which only a part was stored is published again as a whole: its cursor
// moves only behind the last acknowledgement.
func TestCursorMovesOnlyBehindTheLastAcknowledgement(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		want := w.enqueue("main", 50)
		var refuse atomic.Bool
		refuse.Store(true)
		w.broker.SetFaults(membus.Faults{Refuse: func(m bus.Message) error {
			if refuse.Load() && !carries(m, want[:25]...) {
				return context.DeadlineExceeded
			}
			return nil
		}})
		stop := w.dispatcher()
		w.wait(100 * time.Millisecond)
		stop() // it dies with half of its page published
		depth, err := w.ledger.OutboxDepth(w.Context(), "main", 1000)
		require.NoError(w, err)
		require.Equal(w, 50, depth)
		refuse.Store(false)
		defer w.dispatcher()()
		w.wait(10 * time.Second)
		require.Equal(w, want, slices.Compact(w.received("main")))
	})
}

func TestSecondDispatcherTakesOverAfterACrash(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		dead := uuid.NewString()
		for _, topic := range []string{"main", machine.DeadTopic} {
			ok, err := w.ledger.ClaimTopic(w.Context(), topic, dead, 5*time.Second)
			require.NoError(w, err)
			require.True(w, ok)
		}
		want := w.enqueue("main", 3)
		defer w.dispatcher()()
		w.wait(4 * time.Second)
		require.Empty(w, w.received("main"), "the dead one's claim lives")
		w.wait(3 * time.Second)
		require.Equal(w, want, w.received("main"))
	})
}

func TestDispatcherThatStopsGivesItsTopicsUp(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		stop := w.dispatcher()
		w.wait(time.Second)
		stop()
		ok, err := w.ledger.ClaimTopic(w.Context(), "main", uuid.NewString(), time.Second)
		require.NoError(w, err)
		require.True(w, ok)
	})
}

func TestTwoDispatchersAnnounceEverythingOnce(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		defer w.dispatcher()()
		defer w.dispatcher()()
		want := w.enqueue("main", 1500)
		w.wait(5 * time.Second)
		require.Equal(w, want, w.received("main"))
	})
}

func TestLedgerThatFailsNowAndThenLosesNothing(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		chance := rand.New(rand.NewPCG(1, 2)) // no rhythm, into which the calls could fall
		w.ledger.Faults(func(string) memledger.Fault {
			return []memledger.Fault{memledger.None, memledger.None, memledger.Fail, memledger.LoseReply}[chance.IntN(4)]
		})
		stop := w.dispatcher()
		w.wait(time.Second)
		w.ledger.Faults(nil)
		want := w.enqueue("main", 30)
		w.ledger.Faults(func(string) memledger.Fault {
			return []memledger.Fault{memledger.None, memledger.None, memledger.None, memledger.Fail, memledger.LoseReply}[chance.IntN(5)]
		})
		w.wait(10 * time.Minute)
		stop()
		require.Equal(w, want, slices.Compact(w.received("main")))
	})
}

// What cannot be sent is tried again, and sent when it can.
func TestUnsendableReferenceIsTriedAgain(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		all := w.enqueue("main", 5)
		w.broker.SetFaults(membus.Faults{Refuse: func(m bus.Message) error {
			if carries(m, all[2]) {
				return bus.ErrUnsendable
			}
			return nil
		}})
		registry := prometheus.NewRegistry()
		defer w.dispatcher(func(o *Options) { o.Metrics = registry })()
		w.wait(11 * time.Second)
		require.Equal(w, []int64{all[0], all[1], all[3], all[4]}, w.received("main"))
		aside, err := w.ledger.Unsendable(w.Context(), 10)
		require.NoError(w, err)
		require.Len(w, aside, 1)
		w.broker.SetFaults(membus.Faults{})
		w.wait(time.Minute)
		require.Equal(w, []int64{all[2]}, w.received("main"))
		aside, err = w.ledger.Unsendable(w.Context(), 10)
		require.NoError(w, err)
		require.Empty(w, aside)
		n, err := testutil.GatherAndCount(registry, "duly_dispatcher_unsendable_total", "duly_outbox_depth", "duly_mark_standing_seconds")
		require.NoError(w, err)
		require.Equal(w, 1+2+1, n)
	})
}

func TestNoticeSaysWhoNeedsAPersonAndNothingPrivate(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		defer w.dispatcher()()
		made, err := w.ledger.Enqueue(w.Context(), []job.Spec{{
			Kind: "main", Key: "order-1", Subject: "customer-1", Destination: "https://secret.example", Payload: []byte(`{"card":"4111"}`),
		}})
		require.NoError(w, err)
		worker := machine.Worker{ID: uuid.NewString(), Label: "w", Version: "v", LeaseTime: 30 * time.Second}
		require.NoError(w, w.ledger.RegisterWorker(w.Context(), worker))
		kind := machine.Kind{Name: "main", Lane: "main", Channel: "go", Policy: machine.DefaultPolicy(), Promises: machine.DefaultPromises(10 * time.Second)}
		leases, err := w.ledger.Lease(w.Context(), machine.LeaseRequest{Worker: worker, Kind: kind, Refs: []job.Ref{{Job: made[0].Job, Generation: 1, Emission: 1}}})
		require.NoError(w, err)
		row := leases.Grants[0].Row
		_, err = w.ledger.Settle(w.Context(), worker, []machine.Report{{
			Attempt: machine.Attempt{Job: row.Job, Generation: 1, Fence: row.Fence}, Kind: &row.Kind,
			Result: job.NotDone(job.ClassPermanent, job.CodeRejected, "no such account"),
		}})
		require.NoError(w, err)
		w.wait(time.Second)

		all := messages(w.T, w.broker.Connect(), machine.DeadTopic)
		require.Len(w, all, 1)
		require.Equal(w, bus.TypeDead, all[0].Type)
		require.NotContains(w, string(all[0].Body), "4111")
		require.NotContains(w, string(all[0].Body), "secret.example")
		var notice machine.Notice
		require.NoError(w, json.Unmarshal(all[0].Body, &notice))
		require.Equal(w, "order-1", notice.Key)
		require.Equal(w, "customer-1", notice.Subject)
		require.Equal(w, job.Quarantined, notice.State)
		require.Equal(w, job.ReasonPermanent, notice.Reason)
		require.Equal(w, int32(1), notice.Attempts)
		require.Equal(w, notice.FirstAttempt, notice.LastAttempt)
	})
}

// C70: the bus loses everything that it acknowledged. The mark behind it comes
// through, the judge announces anew, and all arrives.
func TestC70WipedBusLosesNoJob(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		defer w.dispatcher()()
		want := w.enqueue("main", 20)
		w.wait(time.Second)
		w.broker.Wipe()
		var arrived []int64
		for range 120 {
			w.wait(time.Second)
			for _, m := range messages(w.T, w.broker.Connect(), "main") {
				if m.Type == bus.TypeMark {
					mark, err := bus.DecodeMark(m.Body)
					require.NoError(w, err)
					require.NoError(w, w.ledger.PassMark(w.Context(), "main", 0, mark.Number))
					continue
				}
				got, err := bus.DecodeEnvelope(m.Body)
				require.NoError(w, err)
				for _, r := range got.Refs {
					arrived = append(arrived, r.Job)
				}
			}
			_, _, err := w.ledger.Judge(w.Context(), "main", time.Hour, 1000)
			require.NoError(w, err)
		}
		slices.Sort(arrived)
		require.Equal(w, want, arrived[:20])
	})
}

func TestIdleDispatcherLooksAtATopicTenTimesASecond(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		var looks atomic.Int64
		defer w.dispatcher()()
		w.wait(10 * time.Second)
		w.ledger.Faults(func(method string) memledger.Fault {
			if method == "ReadOutbox" {
				looks.Add(1)
			}
			return memledger.None
		})
		w.wait(10 * time.Second)
		require.LessOrEqual(w, looks.Load(), int64(110+22), "at a lane; at the dead topic twice a second")
		require.GreaterOrEqual(w, looks.Load(), int64(90+18))
	})
}

func TestReadinessIsAPassAndNotAPing(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		var succeeded atomic.Int64
		w.broker.Stop()
		w.enqueue("main", 1)
		w.configure("main")
		stop := w.dispatcher(func(o *Options) { o.Succeeded = func() { succeeded.Add(1) } })
		w.ledger.Faults(func(method string) memledger.Fault {
			if method == "ReadOutbox" {
				return memledger.Fail
			}
			return memledger.None
		})
		w.wait(time.Minute)
		require.Zero(w, succeeded.Load())
		w.ledger.Faults(nil)
		w.broker.Start()
		w.wait(10 * time.Second)
		require.NotZero(w, succeeded.Load())
		stop()
	})
}
