package kafkabus_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/bus/kafkabus"
)

// What can go wrong on Kafka, each with the test that fails when its protection is removed.

func TestC72OutOfOrderFinishThenCrash(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	options := kafkabus.Options{Partitions: 1, SessionTimeout: time.Second}
	b := ready(t, s, options)
	publish(t, b, 1, 10)
	dying := connect(t, s.url(), options)
	held := receive(t, consume(t, dying), 10)
	ack(t, held[0], held[1], held[9], held[5])
	requireCommitted(t, s, b, 0, 2)
	ack(t, held[4], held[3])
	dying.Crash()
	got := receive(t, consume(t, b), 8)
	require.Equal(t, numbers(3, 8), jobsOf(t, got), "from the first hole on")
	ack(t, got...)
	requireCommitted(t, s, b, 0, 10)
}

// TestC40CooperativeRebalanceWithASlowHandler: what is acknowledged after its partition went
// to another consumer changes nothing, least of all what that one has committed.
func TestC40CooperativeRebalanceWithASlowHandler(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	metrics := prometheus.NewRegistry()
	options := kafkabus.Options{Partitions: 2, SessionTimeout: sessionTimeout}.Draining(50 * time.Millisecond)
	b := ready(t, s, options)
	publish(t, b, 1, 100)
	options.Metrics = metrics
	slow := connect(t, s.url(), options)
	first := consume(t, slow)
	held := receive(t, first, 100)
	options.Metrics = nil
	other := connect(t, s.url(), options)
	second := consume(t, other)
	got := receive(t, second, 50) // of the partition that it was given
	moved := got[0].Message().Partition
	ack(t, got...)
	requireCommitted(t, s, b, moved, 50)

	var late []bus.Delivery
	for _, d := range held {
		if d.Message().Partition == moved {
			late = append(late, d)
		} else {
			ack(t, d)
		}
	}
	ack(t, late...) // no error that would upset a worker
	requireCommitted(t, s, b, 1-moved, 50)
	publish(t, b, 101, 2)
	require.Len(t, append(receive(t, first, 1), receive(t, second, 1)...), 2)
	require.EqualValues(t, 50, committed(t, s, b, moved), "not rewound, and nothing in hand is passed")
	require.InDelta(t, 50, total(t, metrics, "duly_bus_late_settlements_total"), 0)
}

// total is the sum of a metric's series.
func total(t testing.TB, r *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := r.Gather()
	require.NoError(t, err)
	sum := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sum
}

// TestDrainLetsWhatIsInHandBeCommitted: a moment is given to what is about to end.
func TestDrainLetsWhatIsInHandBeCommitted(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	options := kafkabus.Options{Partitions: 2, SessionTimeout: sessionTimeout}.Draining(patience)
	b := ready(t, s, options)
	publish(t, b, 1, 20)
	slow := connect(t, s.url(), options)
	held := receive(t, consume(t, slow), 20)
	second := consume(t, connect(t, s.url(), options))
	joined := make(chan []bus.Delivery, 1)
	go func() {
		got, _ := second.Receive(t.Context(), 10)
		joined <- got
	}()
	require.Eventually(t, func() bool { return slow.Leaving(lane) == 1 }, patience, time.Millisecond)
	ack(t, held...)
	requireCommitted(t, s, b, 0, 10)
	requireCommitted(t, s, b, 1, 10)
	publish(t, b, 21, 2)
	require.Subset(t, []int64{21, 22}, jobsOf(t, <-joined), "none of what was in hand")
}

// TestCloseCommitsWhatWasAcknowledged, however short before.
func TestCloseCommitsWhatWasAcknowledged(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	b := ready(t, s, kafkabus.Options{Partitions: 1})
	publish(t, b, 1, 10)
	for n := range int64(10) {
		other := connect(t, s.url(), kafkabus.Options{SessionTimeout: sessionTimeout})
		got := receive(t, consume(t, other), 1)
		require.Equal(t, []int64{n + 1}, jobsOf(t, got))
		ack(t, got...)
		require.NoError(t, other.Close())
		require.Equal(t, n+1, committed(t, s, b, 0))
	}
}

// members is how many are in the group of the lane.
func members(t testing.TB, s *fake, b *kafkabus.Bus) int {
	t.Helper()
	group, err := b.Group(t.Context(), lane)
	require.NoError(t, err)
	groups, err := admin(t, s.address).DescribeGroups(t.Context(), group)
	require.NoError(t, err)
	return len(groups[group].Members)
}

// TestCommitThatWaitsWhileItsPartitionIsLostIsNotMade: a commit waits in the client while
// the group is joined, and would then go out as a commit of the new membership.
func TestCommitThatWaitsWhileItsPartitionIsLostIsNotMade(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	b := ready(t, s, kafkabus.Options{Partitions: 1})
	publish(t, b, 1, 10)
	c := consume(t, b)
	held := receive(t, c, 10)
	requireCommitted(t, s, b, 0, 0)

	var commits atomic.Int64 // of more than was committed before
	s.cluster.ControlKey(int16(kmsg.OffsetCommit), func(r kmsg.Request) (kmsg.Response, error, bool) {
		for _, topic := range r.(*kmsg.OffsetCommitRequest).Topics {
			for _, p := range topic.Partitions {
				if p.Offset > 0 {
					commits.Add(1)
				}
			}
		}
		return nil, nil, false
	})
	joining, joined := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s.cluster.ControlKey(int16(kmsg.JoinGroup), func(kmsg.Request) (kmsg.Response, error, bool) {
		once.Do(func() {
			close(joining)
			s.cluster.SleepControl(func() { <-joined })
		})
		return nil, nil, false
	})
	b.Rejoin(lane)
	<-joining
	ack(t, held...)
	waiting := &watched{Context: t.Context(), waiting: make(chan struct{})}
	ended := make(chan error, 1)
	go func() { ended <- b.Commit(waiting, lane) }()
	<-waiting.waiting
	b.LoseAll(lane)
	close(joined)
	require.ErrorIs(t, <-ended, kafkabus.ErrRevoked)
	require.Zero(t, commits.Load())
}

// watched is a context that tells when somebody begins to wait for its end.
type watched struct {
	context.Context
	once    sync.Once
	waiting chan struct{}
}

func (w *watched) Done() <-chan struct{} {
	w.once.Do(func() { close(w.waiting) })
	return w.Context.Done()
}

// TestPausedRevokedRegained: the client's pauses outlast a revocation.
func TestPausedRevokedRegained(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	options := kafkabus.Options{Partitions: 2, SessionTimeout: sessionTimeout}.Backlog(4).Draining(50 * time.Millisecond)
	options.Metrics = prometheus.NewRegistry()
	b := ready(t, s, options)
	publish(t, b, 1, 200)
	first := consume(t, b)
	ack(t, receive(t, first, 2)...)
	require.Eventually(t, func() bool { return b.Paused(lane) == 2 }, patience, 10*time.Millisecond)
	options.Metrics = nil
	guest := connect(t, s.url(), options)
	second := consume(t, guest)
	ack(t, receive(t, second, 1)...) // it was given a partition
	require.NoError(t, guest.Close())
	seen := map[int32]bool{}
	publish(t, b, 201, 100)
	require.Eventually(t, func() bool {
		for _, d := range receive(t, first, 1) {
			seen[d.Message().Partition] = seen[d.Message().Partition] || jobsOf(t, []bus.Delivery{d})[0] > 200
			ack(t, d)
		}
		return seen[0] && seen[1]
	}, patience, time.Microsecond, "new work of both partitions")
}

// TestLateAcksAfterATopicWasRecreated: offsets of the old topic mean nothing to the new.
func TestLateAcksAfterATopicWasRecreated(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	options := kafkabus.Options{Partitions: 1, SessionTimeout: sessionTimeout}.Looking(time.Second)
	b := ready(t, s, options)
	publish(t, b, 1, 10)
	c := consume(t, b)
	late := receive(t, c, 10)
	wipe(t, s.address, "duly.")
	require.Eventually(t, func() bool {
		for _, err := range b.Publish(t.Context(), []bus.Message{workOf(11, time.Time{}), workOf(12, time.Time{})}) {
			if err != nil {
				return false
			}
		}
		return true
	}, patience, 10*time.Millisecond)
	again := receive(t, c, 2)
	require.Equal(t, []int64{11, 12}, jobsOf(t, again))
	ack(t, late...)
	receiveNone(t, c, time.Second)
	require.LessOrEqual(t, committed(t, s, b, 0), int64(0), "nothing of the new topic was acknowledged")
	ack(t, again...)
	requireCommitted(t, s, b, 0, 2)
}

// TestTopicThatIsMadeAnewAtOnce: it is never seen to be gone.
func TestTopicThatIsMadeAnewAtOnce(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	b := ready(t, s, kafkabus.Options{Partitions: 1}.Looking(time.Minute))
	publish(t, b, 1, 10)
	c := consume(t, b)
	late := receive(t, c, 10)
	ack(t, late[:5]...)
	requireCommitted(t, s, b, 0, 5)
	require.NoError(t, s.cluster.DeleteTopic(workTopic))
	makeTopic(t, s, workTopic, 1, map[string]string{"retention.ms": "-1"})
	publish(t, b, 11, 7)
	require.Equal(t, numbers(11, 7), jobsOf(t, receive(t, c, 7)))
	ack(t, late...)
	receiveNone(t, c, 300*time.Millisecond)
	require.LessOrEqual(t, committed(t, s, b, 0), int64(0))
}

// TestOffsetsOfAnOldTopicAreNotTakenOver: brokers forget what was committed for a topic
// some time after it was deleted, and a slow commit may come even later.
func TestOffsetsOfAnOldTopicAreNotTakenOver(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	b := ready(t, s, kafkabus.Options{Partitions: 1})
	old, err := b.Group(t.Context(), lane)
	require.NoError(t, err)
	wipe(t, s.address, "duly.")
	require.NoError(t, b.Ensure(t.Context(), []string{lane}))
	now, err := b.Group(t.Context(), lane)
	require.NoError(t, err)
	require.NotEqual(t, old, now)
	publish(t, b, 1, 10)
	commit(t, s, old, 5)
	require.Equal(t, numbers(1, 10), jobsOf(t, receive(t, consume(t, b), 10)))
}

// commit commits an offset of partition 0 of the lane for a group that nobody is in.
func commit(t testing.TB, s *fake, group string, at int64) {
	t.Helper()
	offsets := kadm.Offsets{}
	offsets.AddOffset("duly.work."+lane, 0, at, -1)
	require.NoError(t, admin(t, s.address).CommitAllOffsets(t.Context(), group, offsets))
}

func TestNewGroupStartsAtTheEarliest(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(t *testing.T, s *fake, group string){
		"nothing was ever committed":     func(*testing.T, *fake, string) {},
		"the committed offset is beyond": func(t *testing.T, s *fake, group string) { commit(t, s, group, 1000) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startFake(t)
			b := ready(t, s, kafkabus.Options{Partitions: 1})
			publish(t, b, 1, 10)
			group, err := b.Group(t.Context(), lane)
			require.NoError(t, err)
			prepare(t, s, group)
			c := consume(t, b)
			require.Equal(t, numbers(1, 10), jobsOf(t, receive(t, c, 10)))
			// Where it began is committed, so that a log which grows to the old offset
			// is not passed over by the next.
			requireCommitted(t, s, b, 0, 0)
		})
	}
}

func TestCommittedOffsetBeforeTheBeginningOfTheLog(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	b := ready(t, s, kafkabus.Options{Partitions: 1})
	publish(t, b, 1, 10)
	group, err := b.Group(t.Context(), lane)
	require.NoError(t, err)
	commit(t, s, group, 2)
	require.NoError(t, s.cluster.DeleteRecords("duly.work."+lane, 0, 6))
	require.Equal(t, numbers(7, 4), jobsOf(t, receive(t, consume(t, b), 4)), "from where the log begins now")
}

// TestPartitionThatLostItsTailIsReadAnew: other records have the offsets of lost ones.
func TestPartitionThatLostItsTailIsReadAnew(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	b := ready(t, s, kafkabus.Options{Partitions: 1})
	publish(t, b, 1, 10)
	c := consume(t, b)
	late := receive(t, c, 10)
	record := &kgo.Record{Topic: "duly.work." + lane, Offset: 4, Value: []byte("another")}
	b.TakeIn(lane, kgo.Fetches{{Topics: []kgo.FetchTopic{{
		Topic: record.Topic, Partitions: []kgo.FetchPartition{{Partition: 0, Records: []*kgo.Record{record}}},
	}}}})
	got := receive(t, c, 1)
	require.Equal(t, []byte("another"), got[0].Message().Body)
	ack(t, late...)
	requireCommitted(t, s, b, 0, 4)
	ack(t, got...)
	requireCommitted(t, s, b, 0, 5)
}

// TestMarkWaitsForWhatIsBeforeIt: a mark says that all before it was dealt with.
func TestMarkWaitsForWhatIsBeforeIt(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	b := ready(t, s, kafkabus.Options{Partitions: 1})
	publish(t, b, 1, 2)
	requireStored(t, b.Publish(t.Context(), []bus.Message{markOf(t, 7, 0)}))
	publish(t, b, 3, 1)
	first, second := consume(t, b), consume(t, b)
	one := receive(t, first, 1)
	two := receive(t, second, 1)
	require.Equal(t, []int64{1, 2}, append(jobsOf(t, one), jobsOf(t, two)...))
	receiveNone(t, second, 300*time.Millisecond) // the mark would overtake what the first has
	require.NoError(t, one[0].Release())
	got := receive(t, second, 3)
	require.Equal(t, []int64{1}, jobsOf(t, got[:1]), "what was given back comes before the mark")
	require.Equal(t, bus.TypeMark, got[1].Message().Type)
	require.Equal(t, []int64{3}, jobsOf(t, got[2:]))
}

// TestBacklogThatIsDroppedProvesNothing: a mark in it does not come out before the work
// that was in it.
func TestBacklogThatIsDroppedProvesNothing(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	options := kafkabus.Options{Partitions: 1, SessionTimeout: sessionTimeout}.Draining(50 * time.Millisecond)
	b := ready(t, s, options)
	publish(t, b, 1, 5)
	requireStored(t, b.Publish(t.Context(), []bus.Message{markOf(t, 7, 0)}))
	c := consume(t, b)
	receive(t, c, 2)
	b.LoseAll(lane)
	receiveNone(t, c, 300*time.Millisecond)
	other := connect(t, s.url(), options)
	require.NoError(t, b.Close())
	got := receive(t, consume(t, other), 6)
	require.Equal(t, numbers(1, 5), jobsOf(t, got[:5]))
	require.Equal(t, bus.TypeMark, got[5].Message().Type)
}

// TestZombieDoesNotCommit: a process that nobody hears for a while goes on with what it
// has, and is heard again after others took over.
func TestZombieDoesNotCommit(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	options := kafkabus.Options{Partitions: 1, SessionTimeout: time.Second}
	b := ready(t, s, options)
	publish(t, b, 1, 10)
	var wire cable
	zombie := connect(t, s.url(), options.With(kgo.Dialer(wire.dial)))
	held := receive(t, consume(t, zombie), 10)
	wire.cut.Store(true)
	got := receive(t, consume(t, b), 10)
	require.Equal(t, numbers(1, 10), jobsOf(t, got))
	ack(t, got...)
	requireCommitted(t, s, b, 0, 10)
	ack(t, held[:5]...)
	wire.mend()
	require.Eventually(t, func() bool { return members(t, s, b) == 2 }, patience, 20*time.Millisecond, "it is back")
	ack(t, held[5:7]...)
	require.EqualValues(t, 10, committed(t, s, b, 0))
}

// cable makes connections that can all be cut: what is sent then goes nowhere.
type cable struct {
	cut atomic.Bool

	mu    sync.Mutex
	conns []net.Conn
}

func (c *cable) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if c.cut.Load() {
		return nil, &net.OpError{Op: "dial", Net: network, Err: context.DeadlineExceeded}
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns = append(c.conns, conn)
	return &strand{conn, c}, nil
}

// mend lets new connections through; the old ones are gone.
func (c *cable) mend() {
	c.cut.Store(false)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}

// strand is one connection of a cable.
type strand struct {
	net.Conn
	cable *cable
}

func (s *strand) Write(b []byte) (int, error) {
	if s.cable.cut.Load() {
		return len(b), nil
	}
	return s.Conn.Write(b)
}
