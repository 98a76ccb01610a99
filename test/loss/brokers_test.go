package loss_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/bus/kafkabus"
	"duly.dev/duly/internal/bus/natsbus"
	"duly.dev/duly/internal/channel"
	"duly.dev/duly/internal/devstack"
	"duly.dev/duly/internal/dispatch"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/memledger"
	"duly.dev/duly/pkg/job"
)

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

// site is a ledger in memory, whose clock the test moves, with a dispatcher on a real
// broker that sends marks many times a second.
type site struct {
	*testing.T
	ledger  *memledger.Ledger
	effects *effects
	metrics *prometheus.Registry
	bus     bus.Bus
	ahead   atomic.Int64
}

func newSite(t *testing.T, b bus.Bus) *site {
	t.Helper()
	s := &site{T: t, effects: newEffects(), metrics: prometheus.NewRegistry(), bus: b}
	s.ledger = memledger.New(memledger.Clock(func() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }))
	require.NoError(t, s.ledger.SyncKinds(t.Context(), []machine.Kind{reminders()}))
	d, err := dispatch.New(dispatch.Options{
		Ledger: s.ledger, Bus: b, Metrics: s.metrics, Pack: func(string) int { return 1 }, MarkEvery: 20 * time.Millisecond, MarkMost: 100 * time.Millisecond,
	})
	require.NoError(t, err)
	s.start(d.Run)
	return s
}

func (s *site) start(run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = run(ctx) }() // ctx's error
	s.Cleanup(func() { cancel(); <-ended })
}

func (s *site) eventually(what string, holds func() bool) {
	s.Helper()
	require.Eventually(s, holds, patience, 5*time.Millisecond, what)
}

// marks is how many marks were published.
func (s *site) marks() float64 {
	s.Helper()
	families, err := s.metrics.Gather()
	require.NoError(s, err)
	sum := 0.0
	for _, f := range families {
		if f.GetName() == "duly_marks_sent_total" {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// stands reports whether the newest mark has not passed.
func (s *site) stands() bool {
	s.Helper()
	stands, err := s.ledger.MarkStands(s.Context(), lane)
	require.NoError(s, err)
	return stands
}

// judge moves the ledger's clock and judges what it can; it returns how much was lost.
func (s *site) judge(after time.Duration) (lost int) {
	s.Helper()
	s.ahead.Add(int64(after))
	for more := true; more; {
		var n int
		var err error
		n, more, err = s.ledger.Judge(s.Context(), lane, time.Hour, 100)
		require.NoError(s, err)
		lost += n
	}
	return lost
}

// On Kafka, what was polled and waits for a free slot of a busy worker is before the mark:
// it does not pass, however long that takes, and nothing is announced anew.
func TestRecordsThatWaitInABusyWorkerAreNotLost(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	b, err := kafkabus.Connect(t.Context(), "kafka://"+cluster.ListenAddrs()[0], kafkabus.Options{Partitions: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	s := newSite(t, b)
	goOn := make(chan struct{})
	s.effects.do = func(channel.Effect) job.Result { <-goOn; return job.Done(nil) }
	kind := reminders()
	kind.Policy.Limit = time.Hour
	s.start(newWorker(t, kind, s.ledger, b, s.effects, 1, 1).Run)
	t.Cleanup(func() { close(goOn) })

	const jobs = 7
	for i := range jobs {
		enqueue(t, s.ledger, fmt.Sprint(i))
	}
	for busy := 1; busy < jobs; busy++ {
		s.eventually("the next one is begun", func() bool { return s.effects.total() == busy })
		sent := s.marks()
		s.eventually("marks stand behind it", func() bool { return s.marks() >= sent+2 && s.stands() })
		for range 20 {
			require.Zero(t, s.judge(30*time.Second), "%d wait behind the one that is performed", jobs-busy)
		}
		goOn <- struct{}{}
	}
	s.eventually("the last one is begun", func() bool { return s.effects.total() == jobs })
	goOn <- struct{}{}
	s.eventually("and what is behind it passes", func() bool { return !s.stands() })
	for i := range jobs {
		key := fmt.Sprint(i)
		s.eventually("it is delivered", func() bool { return row(t, s.ledger, key).State == job.Delivered })
		require.Equal(t, int32(1), row(t, s.ledger, key).Emission)
	}
	require.Zero(t, s.judge(2*machine.JudgeAfter))
	require.Equal(t, jobs, s.effects.total())
}

// On NATS, a mark is behind a message that somebody holds, not behind its end: what is lost
// between the two is found while it is held.
func TestNATSMarkPassesWhatAStoppedConsumerHolds(t *testing.T) {
	t.Parallel()
	server, err := devstack.StartNATS(devstack.NATSOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	b, err := natsbus.Connect(t.Context(), server.URL(), natsbus.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	s := newSite(t, b)

	held := enqueue(t, s.ledger, "held")
	stopped, err := b.Consume(t.Context(), lane)
	require.NoError(t, err)
	inHand := s.receive(stopped, held)
	require.NoError(t, stopped.Close())
	w := machine.Worker{ID: "stopped", LeaseTime: 30 * time.Second}
	require.NoError(t, s.ledger.RegisterWorker(t.Context(), w))
	leases, err := s.ledger.Lease(t.Context(), machine.LeaseRequest{Worker: w, Kind: reminders(), Refs: []job.Ref{{Job: held, Generation: 1, Emission: 1}}})
	require.NoError(t, err)
	require.Len(t, leases.Grants, 1)

	const jobs = 6
	for i := range jobs {
		enqueue(t, s.ledger, fmt.Sprint("lost-", i))
	}
	require.Equal(t, jobs, s.remove(server.URL(), jobs), "the broker has lost them")
	s.start(newWorker(t, reminders(), s.ledger, b, s.effects, 10, 1).Run)
	s.eventually("a mark passes", func() bool { return !s.stands() })
	require.Zero(t, s.judge(machine.JudgeAfter/2), "it has not passed for long enough")
	lost := 0
	s.eventually("they are lost", func() bool { // by a mark that may have been issued only now
		lost += s.judge(time.Second)
		return lost == jobs
	})
	s.eventually("they are moving again", func() bool { return s.effects.total() == jobs })
	require.Empty(t, s.effects.of("held"))
	require.NoError(t, inHand.Ack())
}

// receive takes the message of a job into hand, and acknowledges marks before it.
func (s *site) receive(c bus.Consumer, id int64) bus.Delivery {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	for {
		got, err := c.Receive(ctx, 1)
		require.NoError(s, err)
		if got[0].Message().Type == bus.TypeWork {
			e, err := bus.DecodeEnvelope(got[0].Message().Body)
			require.NoError(s, err)
			require.Equal(s, id, e.Refs[0].Job)
			return got[0]
		}
		require.NoError(s, got[0].Ack())
	}
}

// remove removes the newest n messages of work from the lane's stream, once they are there.
func (s *site) remove(url string, n int) (removed int) {
	s.Helper()
	conn, err := nats.Connect(url)
	require.NoError(s, err)
	defer conn.Close()
	js, err := jetstream.New(conn)
	require.NoError(s, err)
	stream, err := js.Stream(s.Context(), "duly_work_"+lane)
	require.NoError(s, err)
	s.eventually("they are relayed", func() bool {
		depth, err := s.ledger.OutboxDepth(s.Context(), lane, 1)
		return err == nil && depth == 0
	})
	info, err := stream.Info(s.Context())
	require.NoError(s, err)
	for seq := info.State.LastSeq; seq >= info.State.FirstSeq && removed < n; seq-- {
		m, err := stream.GetMsg(s.Context(), seq)
		if err != nil || m.Header.Get("ce-type") != string(bus.TypeWork) {
			continue // it is gone, or a mark
		}
		require.NoError(s, stream.DeleteMsg(s.Context(), seq))
		removed++
	}
	return removed
}
