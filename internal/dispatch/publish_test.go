package dispatch

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/bus/membus"
	"duly.dev/duly/internal/machine"
)

// shelf is what was set aside, by reason.
type shelf map[string][]machine.OutboxRow

func (s shelf) SetAside(_ context.Context, _ string, rows []machine.OutboxRow, cause error) error {
	s[cause.Error()] = append(s[cause.Error()], rows...)
	return nil
}

func (s shelf) RetryUnsendable(context.Context, string) (int, error) { return 0, nil }

// jobs are the jobs that were set aside.
func (s shelf) jobs() []int64 {
	var jobs []int64
	for _, rows := range s {
		for _, r := range rows {
			for _, ref := range r.Refs {
				jobs = append(jobs, ref.Job)
			}
		}
	}
	slices.Sort(jobs)
	return jobs
}

func newPublisher(t *testing.T, b bus.Publisher, pack int) (publisher, shelf) {
	t.Helper()
	m, err := newMetrics(nil)
	require.NoError(t, err)
	s := shelf{}
	return publisher{
		topic: "main", bus: b, shelf: s, packing: newPacking("main", pack, 1<<20), metrics: m, patience: 2500 * time.Millisecond,
		renew: func(context.Context) error { return nil },
	}, s
}

// carries reports whether a work message announces one of the jobs.
func carries(m bus.Message, jobs ...int64) bool {
	got, err := bus.DecodeEnvelope(m.Body)
	if err != nil {
		return false
	}
	for _, r := range got.Refs {
		if slices.Contains(jobs, r.Job) {
			return true
		}
	}
	return false
}

// C27: of a thousand rows the broker will not take one. That one is set aside, the
// others are sent.
func TestC27OneRowThatCannotBeSentStopsNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broker := membus.NewBroker(membus.Options{})
		broker.SetFaults(membus.Faults{Refuse: func(m bus.Message) error {
			if carries(m, 500) {
				return bus.ErrUnsendable
			}
			return nil
		}})
		b := broker.Connect()
		p, aside := newPublisher(t, b, 32)
		require.NoError(t, p.publish(t.Context(), p.packing.pack(single(1000))))
		require.Equal(t, []int64{500}, aside.jobs())
		require.Len(t, received(t, b, "main"), 999)
	})
}

// An error that nobody foresaw is told from an outage by what the broker does take.
func TestMessageThatFailsWhileOthersAreTakenIsSetAsideToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broker := membus.NewBroker(membus.Options{})
		broker.SetFaults(membus.Faults{Refuse: func(m bus.Message) error {
			if carries(m, 7, 8) {
				return errors.New("some error that nobody foresaw")
			}
			return nil
		}})
		b := broker.Connect()
		p, aside := newPublisher(t, b, 2)
		require.NoError(t, p.publish(t.Context(), p.packing.pack(single(200))))
		require.Equal(t, []int64{7, 8}, aside.jobs())
		require.Len(t, received(t, b, "main"), 198, "the probe is swallowed as the copy that it is")
	})
}

// A broker that takes some now and some later is slow, and nothing else.
func TestSlowBrokerIsWaitedForAsLongAsItTakesSomething(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broker := membus.NewBroker(membus.Options{})
		taken := 0
		broker.SetFaults(membus.Faults{Refuse: func(bus.Message) error {
			if taken++; taken%2 != 0 {
				return context.DeadlineExceeded
			}
			return nil
		}})
		b := broker.Connect()
		p, aside := newPublisher(t, b, 1)
		require.NoError(t, p.publish(t.Context(), p.packing.pack(single(300))))
		require.Empty(t, aside)
		require.Len(t, received(t, b, "main"), 300)
	})
}

func TestBrokerThatIsDownSetsNothingAside(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broker := membus.NewBroker(membus.Options{})
		broker.Stop()
		p, aside := newPublisher(t, broker.Connect(), 32)
		began := time.Now()
		require.Error(t, p.publish(t.Context(), p.packing.pack(single(100))))
		require.LessOrEqual(t, time.Since(began), p.patience+5*time.Second)
		require.Empty(t, aside)
	})
}

func TestShortOutageIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broker := membus.NewBroker(membus.Options{})
		b := broker.Connect()
		broker.Stop()
		time.AfterFunc(800*time.Millisecond, broker.Start)
		p, aside := newPublisher(t, b, 32)
		require.NoError(t, p.publish(t.Context(), p.packing.pack(single(100))))
		require.Empty(t, aside)
		require.Len(t, received(t, b, "main"), 100)
	})
}

// received takes everything that waits on the lane and returns its jobs in order.
func received(t *testing.T, b *membus.Bus, lane string) []int64 {
	t.Helper()
	var jobs []int64
	for _, m := range messages(t, b, lane) {
		if m.Type != bus.TypeWork {
			continue
		}
		got, err := bus.DecodeEnvelope(m.Body)
		require.NoError(t, err)
		for _, r := range got.Refs {
			jobs = append(jobs, r.Job)
		}
	}
	slices.Sort(jobs)
	return jobs
}

// messages takes and acknowledges everything that waits on the lane, or on the dead
// topic.
func messages(t *testing.T, b *membus.Bus, topic string) []bus.Message {
	t.Helper()
	var consumer bus.Consumer
	var err error
	if topic == machine.DeadTopic {
		consumer, err = b.ConsumeDead(t.Context())
	} else {
		consumer, err = b.Consume(t.Context(), topic)
	}
	require.NoError(t, err)
	defer func() { require.NoError(t, consumer.Close()) }()
	var all []bus.Message
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		got, err := consumer.Receive(ctx, 1000)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return all
		}
		require.NoError(t, err)
		for _, d := range got {
			all = append(all, d.Message())
			require.NoError(t, d.Ack())
		}
	}
}
