package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
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
	t      *testing.T
	ledger *memledger.Ledger
	broker *membus.Broker
	jobs   int
}

func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, ledger: memledger.New(), broker: membus.NewBroker(membus.Options{})}
		w.configure("main")
		test(t, w)
	})
}

// configure gives the ledger a kind with a lane of the same name.
func (w *world) configure(names ...string) {
	w.t.Helper()
	var kinds []machine.Kind
	for _, n := range names {
		kinds = append(kinds, machine.Kind{Name: n, Lane: n, Channel: "go", Policy: machine.DefaultPolicy(), Promises: machine.DefaultPromises(10 * time.Second)})
	}
	require.NoError(w.t, w.ledger.SyncKinds(w.t.Context(), kinds))
}

// enqueue makes n jobs of the kind, each in a transaction of its own, and returns them.
func (w *world) enqueue(kind string, n int) []int64 {
	w.t.Helper()
	var jobs []int64
	for range n {
		w.jobs++
		made, err := w.ledger.Enqueue(w.t.Context(), []job.Spec{{Kind: kind, Key: fmt.Sprint(w.jobs), Payload: []byte(`{}`)}})
		require.NoError(w.t, err)
		jobs = append(jobs, made[0].Job)
	}
	return jobs
}

// dispatcher runs a dispatcher and returns how to stop it.
func (w *world) dispatcher(change ...func(*Options)) (stop func()) {
	w.t.Helper()
	o := Options{Ledger: w.ledger, Bus: w.broker.Connect()}
	for _, c := range change {
		c(&o)
	}
	d, err := New(o)
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = d.Run(ctx) // ctx's error
	}()
	return func() { cancel(); <-ended }
}

func (w *world) wait(d time.Duration) { time.Sleep(d); synctest.Wait() } //nolint:forbidigo // the bubble's clock

func (w *world) received(lane string) []int64 { return received(w.t, w.broker.Connect(), lane) }

func TestWhatIsEnqueuedIsAnnouncedSoon(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		defer w.dispatcher()()
		w.wait(10 * time.Second)
		for range 5 {
			want := w.enqueue("main", 10)
			w.wait(100 * time.Millisecond)
			require.Equal(t, want, w.received("main"), "within the longest rest of an idle dispatcher")
		}
		w.enqueue("main", 1)
		w.wait(110 * time.Millisecond)
		want := w.enqueue("main", 1)
		w.wait(20 * time.Millisecond)
		require.Contains(t, w.received("main"), want[0], "soon after work the rests are short")
	})
}

func TestWhatWaitedBeforeTheStartIsAnnounced(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		want := w.enqueue("main", 2500)
		defer w.dispatcher()()
		w.wait(time.Second)
		require.Equal(t, want, w.received("main"))
	})
}

func TestLaneThatAppearsLaterIsRelayed(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		defer w.dispatcher()()
		w.wait(5 * time.Second)
		w.configure("other")
		want := w.enqueue("other", 3)
		w.wait(2 * time.Second)
		require.Equal(t, want, w.received("other"))
	})
}

// A broker that is down is back-pressure: nothing is lost or set aside, and all goes
// on by itself.
func TestOutageOfTheBrokerIsSurvived(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		defer w.dispatcher()()
		w.wait(time.Second)
		w.broker.Stop()
		want := w.enqueue("main", 100)
		w.wait(10 * time.Minute)
		depth, err := w.ledger.OutboxDepth(t.Context(), "main", 1000)
		require.NoError(t, err)
		require.Equal(t, 100, depth, "nothing is advanced over")
		w.broker.Start()
		w.wait(15 * time.Second)
		require.Equal(t, want, slices.Compact(w.received("main")))
		aside, err := w.ledger.Unsendable(t.Context(), 10)
		require.NoError(t, err)
		require.Empty(t, aside)
	})
}

// A page of which only a part was stored is published again as a whole: its cursor
// moves only behind the last acknowledgement.
func TestCursorMovesOnlyBehindTheLastAcknowledgement(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
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
		depth, err := w.ledger.OutboxDepth(t.Context(), "main", 1000)
		require.NoError(t, err)
		require.Equal(t, 50, depth)
		refuse.Store(false)
		defer w.dispatcher()()
		w.wait(10 * time.Second)
		require.Equal(t, want, slices.Compact(w.received("main")))
	})
}

func TestSecondDispatcherTakesOverAfterACrash(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		dead := uuid.NewString()
		for _, topic := range []string{"main", machine.DeadTopic} {
			ok, err := w.ledger.ClaimTopic(t.Context(), topic, dead, 5*time.Second)
			require.NoError(t, err)
			require.True(t, ok)
		}
		want := w.enqueue("main", 3)
		defer w.dispatcher()()
		w.wait(4 * time.Second)
		require.Empty(t, w.received("main"), "the dead one's claim lives")
		w.wait(3 * time.Second)
		require.Equal(t, want, w.received("main"))
	})
}

func TestDispatcherThatStopsGivesItsTopicsUp(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		stop := w.dispatcher()
		w.wait(time.Second)
		stop()
		ok, err := w.ledger.ClaimTopic(t.Context(), "main", uuid.NewString(), time.Second)
		require.NoError(t, err)
		require.True(t, ok)
	})
}

func TestTwoDispatchersAnnounceEverythingOnce(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		defer w.dispatcher()()
		defer w.dispatcher()()
		want := w.enqueue("main", 1500)
		w.wait(5 * time.Second)
		require.Equal(t, want, w.received("main"))
	})
}

func TestLedgerThatFailsNowAndThenLosesNothing(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		var calls int
		w.ledger.Faults(func(string) memledger.Fault {
			calls++
			return []memledger.Fault{memledger.None, memledger.None, memledger.Fail, memledger.LoseReply}[calls%4]
		})
		stop := w.dispatcher()
		w.wait(time.Second)
		w.ledger.Faults(nil)
		want := w.enqueue("main", 30)
		w.ledger.Faults(func(string) memledger.Fault {
			calls++
			return []memledger.Fault{memledger.None, memledger.None, memledger.None, memledger.Fail, memledger.LoseReply}[calls%5]
		})
		w.wait(10 * time.Minute)
		stop()
		require.Equal(t, want, slices.Compact(w.received("main")))
	})
}

// What cannot be sent is tried again, and sent when it can.
func TestUnsendableReferenceIsTriedAgain(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
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
		require.Equal(t, []int64{all[0], all[1], all[3], all[4]}, w.received("main"))
		aside, err := w.ledger.Unsendable(t.Context(), 10)
		require.NoError(t, err)
		require.Len(t, aside, 1)
		w.broker.SetFaults(membus.Faults{})
		w.wait(time.Minute)
		require.Equal(t, []int64{all[2]}, w.received("main"))
		aside, err = w.ledger.Unsendable(t.Context(), 10)
		require.NoError(t, err)
		require.Empty(t, aside)
		n, err := testutil.GatherAndCount(registry, "duly_dispatcher_unsendable_total", "duly_outbox_depth", "duly_mark_standing_seconds")
		require.NoError(t, err)
		require.Equal(t, 1+2+1, n)
	})
}

func TestNoticeSaysWhoNeedsAPersonAndNothingPrivate(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		defer w.dispatcher()()
		made, err := w.ledger.Enqueue(t.Context(), []job.Spec{{
			Kind: "main", Key: "order-1", Subject: "customer-1", Destination: "https://secret.example", Payload: []byte(`{"card":"4111"}`),
		}})
		require.NoError(t, err)
		worker := machine.Worker{ID: uuid.NewString(), Label: "w", Version: "v", LeaseTime: 30 * time.Second}
		require.NoError(t, w.ledger.RegisterWorker(t.Context(), worker))
		kind := machine.Kind{Name: "main", Lane: "main", Channel: "go", Policy: machine.DefaultPolicy(), Promises: machine.DefaultPromises(10 * time.Second)}
		leases, err := w.ledger.Lease(t.Context(), machine.LeaseRequest{Worker: worker, Kind: kind, Refs: []job.Ref{{Job: made[0].Job, Generation: 1, Emission: 1}}})
		require.NoError(t, err)
		row := leases.Grants[0].Row
		_, err = w.ledger.Settle(t.Context(), worker, []machine.Report{{
			Attempt: machine.Attempt{Job: row.Job, Generation: 1, Fence: row.Fence}, Kind: "main", Row: row,
			Result: job.NotDone(job.ClassPermanent, job.CodeRejected, "no such account"),
		}})
		require.NoError(t, err)
		w.wait(time.Second)

		all := messages(t, w.broker.Connect(), machine.DeadTopic)
		require.Len(t, all, 1)
		require.Equal(t, bus.TypeDead, all[0].Type)
		require.NotContains(t, string(all[0].Body), "4111")
		require.NotContains(t, string(all[0].Body), "secret.example")
		var notice machine.Notice
		require.NoError(t, json.Unmarshal(all[0].Body, &notice))
		require.Equal(t, "order-1", notice.Key)
		require.Equal(t, "customer-1", notice.Subject)
		require.Equal(t, job.Quarantined, notice.State)
		require.Equal(t, job.ReasonPermanent, notice.Reason)
		require.Equal(t, int32(1), notice.Attempts)
		require.Equal(t, notice.FirstAttempt, notice.LastAttempt)
	})
}

// C70: the bus loses everything that it acknowledged. The mark behind it comes
// through, the judge announces anew, and all arrives.
func TestC70WipedBusLosesNoJob(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		defer w.dispatcher()()
		want := w.enqueue("main", 20)
		w.wait(time.Second)
		w.broker.Wipe()
		var arrived []int64
		for range 120 {
			w.wait(time.Second)
			for _, m := range messages(t, w.broker.Connect(), "main") {
				if m.Type == bus.TypeMark {
					mark, err := bus.DecodeMark(m.Body)
					require.NoError(t, err)
					require.NoError(t, w.ledger.PassMark(t.Context(), "main", 0, mark.Number))
					continue
				}
				got, err := bus.DecodeEnvelope(m.Body)
				require.NoError(t, err)
				for _, r := range got.Refs {
					arrived = append(arrived, r.Job)
				}
			}
			_, _, err := w.ledger.Judge(t.Context(), "main", time.Hour, 1000)
			require.NoError(t, err)
		}
		slices.Sort(arrived)
		require.Equal(t, want, arrived[:20])
	})
}

func TestIdleDispatcherLooksAtATopicTenTimesASecond(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
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
		require.LessOrEqual(t, looks.Load(), int64(110+22), "at a lane; at the dead topic twice a second")
		require.GreaterOrEqual(t, looks.Load(), int64(90+18))
	})
}

func TestReadinessIsAPassAndNotAPing(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
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
		require.Zero(t, succeeded.Load())
		w.ledger.Faults(nil)
		w.broker.Start()
		w.wait(10 * time.Second)
		require.NotZero(t, succeeded.Load())
		stop()
	})
}
