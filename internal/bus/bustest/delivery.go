package bustest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/bus"
)

var deliveryCases = map[string]func(*testing.T, *fixture){
	"a message arrives as it was sent":                                 arrivesAsSent,
	"messages arrive in the order of their publication":                inOrder,
	"what is acknowledged does not come again":                         ackedOnce,
	"a consumer gets no more than it asks for and others get the rest": sharedByNeed,
	"consumers share a lane without loss":                              sharedWithoutLoss,
	"C71 250 consumers share a lane":                                   manyConsumers,
	"lanes do not see each other's work":                               separateLanes,
	"a mark comes after the work before it":                            markAfterWork,
	"marks are never swallowed":                                        marksRepeat,
	"notices arrive on the dead topic only":                            notices,
	"Receive ends with its context":                                    receiveEndsWithContext,
	"Receive ends when the consumer is closed":                         receiveEndsWithConsumer,
	"Receive ends when the bus is closed":                              receiveEndsWithBus,
	"a new consumer goes on where the last one stopped":                consumerRestart,
}

func arrivesAsSent(t *testing.T, f *fixture) {
	sent := workOf(7, time.Time{})
	sent.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	publish(t, f.bus, sent)
	got := receive(t, consume(t, f.bus), 1, 1)[0]
	sent.Partition = got.Message().Partition // where it went is the bus's choice
	require.Equal(t, sent, got.Message())
	ack(t, got)
}

func inOrder(t *testing.T, f *fixture) {
	publish(t, f.bus, work(1, 50)...)
	publish(t, f.bus, work(51, 50)...)
	got := receive(t, consume(t, f.bus), 100, 7)
	require.ElementsMatch(t, numbers(1, 100), jobsOf(t, got))
	requireInOrder(t, got)
	ack(t, got...)
}

func ackedOnce(t *testing.T, f *fixture) {
	publish(t, f.bus, work(1, 100)...)
	c := consume(t, f.bus)
	got := receive(t, c, 100, 64)
	require.ElementsMatch(t, numbers(1, 100), jobsOf(t, got))
	ack(t, got...)
	ack(t, got...) // a second one has no effect
	require.NoError(t, got[0].Release())
	receiveNone(t, c, f.Visibility+f.Visibility/2)
}

func sharedByNeed(t *testing.T, f *fixture) {
	publish(t, f.bus, work(1, 10)...)
	busy, idle := consume(t, f.bus), consume(t, f.connect(t))
	held := receive(t, busy, 3, 3)
	if f.Log { // then its partitions are its own until it leaves
		ack(t, held...)
		require.NoError(t, busy.Close())
		receiveSet(t, idle, slices.DeleteFunc(numbers(1, 10), func(id int64) bool { return slices.Contains(jobsOf(t, held), id) })...)
		return
	}
	rest := receive(t, idle, 7, 64)
	require.ElementsMatch(t, numbers(1, 10), append(jobsOf(t, held), jobsOf(t, rest)...))
	ack(t, held...)
	ack(t, rest...)
}

func sharedWithoutLoss(t *testing.T, f *fixture) {
	const publishers, each, consumers = 4, 250, 4
	other := f.connect(t)
	var publishing sync.WaitGroup
	for p := range publishers {
		b := []bus.Bus{f.bus, other}[p%2]
		publishing.Go(func() {
			for first := 0; first < each; first += 25 {
				for _, err := range b.Publish(t.Context(), work(1+p*each+first, 25)) {
					if err != nil {
						t.Errorf("publishing: %v", err)
					}
				}
			}
		})
	}
	got := collect(t, publishers*each, func(i int) bus.Consumer { return consume(t, []bus.Bus{f.bus, other}[i%2]) }, consumers)
	publishing.Wait()
	f.requireJobs(t, numbers(1, publishers*each), got)
}

func manyConsumers(t *testing.T, f *fixture) {
	const consumers, total = 250, 500
	buses := []bus.Bus{f.bus, f.connect(t), f.connect(t), f.connect(t), f.connect(t)}
	publish(t, f.bus, work(1, total/2)...)
	var publishing sync.WaitGroup
	publishing.Go(func() {
		for _, err := range f.bus.Publish(t.Context(), work(1+total/2, total/2)) {
			if err != nil {
				t.Errorf("publishing: %v", err)
			}
		}
	})
	got := collect(t, total, func(i int) bus.Consumer { return consume(t, buses[i%len(buses)]) }, consumers)
	publishing.Wait()
	f.requireJobs(t, numbers(1, total), got)
}

// collect receives and acknowledges with n consumers at once, until total messages came.
func collect(t *testing.T, total int, open func(i int) bus.Consumer, n int) []int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var (
		mu  sync.Mutex
		got []int64
		all sync.WaitGroup
	)
	for i := range n {
		c := open(i)
		all.Go(func() {
			for {
				batch, err := c.Receive(ctx, 5)
				if err != nil {
					return
				}
				for _, d := range batch {
					if err := d.Ack(); err != nil {
						t.Errorf("acknowledging: %v", err)
					}
				}
				ids, err := decodeJobs(batch)
				if err != nil {
					t.Errorf("decoding: %v", err)
				}
				mu.Lock()
				got = append(got, ids...)
				if len(setOf(got)) >= total {
					cancel()
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return got
}

func separateLanes(t *testing.T, f *fixture) {
	other := workOf(1, time.Time{})
	other.Lane = "slow"
	publish(t, f.bus, other, workOf(2, time.Time{}))
	got := receive(t, consume(t, f.bus), 1, 10)
	require.Equal(t, []int64{2}, jobsOf(t, got))
	slow, err := f.bus.Consume(t.Context(), "slow")
	require.NoError(t, err)
	require.Equal(t, []int64{1}, jobsOf(t, receive(t, slow, 1, 10)))
	require.NoError(t, slow.Close())
}

func markAfterWork(t *testing.T, f *fixture) {
	partitions, err := f.bus.Partitions(t.Context(), lane)
	require.NoError(t, err)
	require.NotEmpty(t, partitions)
	publish(t, f.bus, work(1, 200)...)
	for _, p := range partitions {
		m := markOf(t, 42)
		m.Partition = p
		publish(t, f.bus, m)
	}
	publish(t, f.bus, work(201, 20)...)
	require.Len(t, partitions, max(f.Partitions, 1))
	passed := map[int32]bool{}
	got := receive(t, consume(t, f.bus), 220+len(partitions), 16)
	for _, d := range got {
		m := d.Message()
		if m.Type == bus.TypeWork {
			before := jobsOf(t, []bus.Delivery{d})[0] <= 200
			require.NotEqual(t, before, passed[m.Partition], "work and mark of partition %d: %s", m.Partition, describe(d))
			continue
		}
		mark, err := bus.DecodeMark(m.Body)
		require.NoError(t, err, describe(d))
		require.Equal(t, bus.Mark{Lane: lane, Number: 42}, mark)
		require.Empty(t, m.ID, "a mark has no id")
		passed[m.Partition] = true
	}
	require.Len(t, passed, len(partitions))
	ack(t, got...)
}

func marksRepeat(t *testing.T, f *fixture) {
	for range 3 {
		publish(t, f.bus, markOf(t, 7))
	}
	got := receive(t, consume(t, f.bus), 3, 3)
	for _, d := range got {
		require.Equal(t, bus.TypeMark, d.Message().Type)
	}
	ack(t, got...)
}

func notices(t *testing.T, f *fixture) {
	sent := bus.Message{Type: bus.TypeDead, ID: "notice-1", Kind: "reminder", Body: []byte(`{"kind":"reminder"}`)}
	publish(t, f.bus, sent)
	c, err := f.bus.ConsumeDead(t.Context())
	require.NoError(t, err)
	got := receive(t, c, 1, 10)
	require.Equal(t, sent, got[0].Message())
	ack(t, got...)
	require.NoError(t, c.Close())
	receiveNone(t, consume(t, f.bus), f.Visibility/4)
}

func receiveEndsWithContext(t *testing.T, f *fixture) {
	c := consume(t, f.bus)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := c.Receive(ctx, 10)
		ended <- err
	}()
	cancel()
	requireEnded(t, ended, context.Canceled)
	publish(t, f.bus, work(1, 20)...) // nothing went to the request that ended
	if !f.Log {
		c = consume(t, f.connect(t))
	}
	got := receive(t, c, 20, 20)
	require.ElementsMatch(t, numbers(1, 20), jobsOf(t, got))
}

func receiveEndsWithConsumer(t *testing.T, f *fixture) {
	c := consume(t, f.bus)
	ended := make(chan error, 1)
	go func() {
		_, err := c.Receive(t.Context(), 10)
		ended <- err
	}()
	require.NoError(t, c.Close())
	requireEnded(t, ended, bus.ErrClosed)
	_, err := c.Receive(t.Context(), 10)
	require.ErrorIs(t, err, bus.ErrClosed)
}

func receiveEndsWithBus(t *testing.T, f *fixture) {
	b := f.connect(t)
	c := consume(t, b)
	ended := make(chan error, 1)
	go func() {
		_, err := c.Receive(t.Context(), 10)
		ended <- err
	}()
	require.NoError(t, b.Close())
	requireEnded(t, ended, bus.ErrClosed)
	_, err := b.Consume(t.Context(), lane)
	require.ErrorIs(t, err, bus.ErrClosed)
	require.Error(t, b.Healthy())
	require.Error(t, b.Publish(t.Context(), work(1, 1))[0])
}

func requireEnded(t *testing.T, ended <-chan error, want error) {
	t.Helper()
	select {
	case err := <-ended:
		require.ErrorIs(t, err, want)
	case <-time.After(patience):
		require.Fail(t, "Receive did not end")
	}
}

func consumerRestart(t *testing.T, f *fixture) {
	publish(t, f.bus, work(1, 20)...)
	first, err := f.bus.Consume(t.Context(), lane)
	require.NoError(t, err)
	got := receive(t, first, 10, 10)
	require.NoError(t, first.Close())
	ack(t, got...) // what is out can be acknowledged after Close
	second := consume(t, f.bus)
	rest := receive(t, second, 10, 10)
	require.ElementsMatch(t, numbers(1, 20), append(jobsOf(t, got), jobsOf(t, rest)...))
	ack(t, rest...)
	receiveNone(t, second, f.Visibility+f.Visibility/2)
}
