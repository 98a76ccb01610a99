// Package bustest is the one suite that every bus must pass: what dispatchers and
// workers may rely on, whichever broker there is.
//
// An adapter's test calls Run with a function that starts a broker. Each case has a
// broker to itself, since some restart or wipe it. Cases that wait for something to
// happen wait long, so that a busy machine does not fail them; cases that assert that
// something does not happen wait for a multiple of Broker.Visibility.
//
// Brokers are of two kinds, and some cases ask of each what it can promise. A queue gives a
// message to whoever asks, and knows of each one whether it is acknowledged. A log gives a
// partition to one consumer at a time and knows how far that has come: what was acknowledged
// behind a hole comes again after a crash, what is released comes again where it was, and
// when a partition changes hands, what is in hand of it comes again elsewhere.
package bustest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/pkg/job"
)

// Broker is a running broker and what can be done to it. It is stopped by the
// cleanup of the test that started it.
type Broker struct {
	// Connect makes a connection, as a process would have one. The suite closes it.
	Connect func(t testing.TB) bus.Bus
	// Crash ends a connection as the death of its process would: nothing is given
	// back, no sign of life follows.
	Crash func(t testing.TB, b bus.Bus)
	// Restart stops the broker and starts it again on the same storage.
	Restart func(t testing.TB)
	// Wipe deletes what the broker stores, its topics included, under everyone's feet.
	Wipe func(t testing.TB)
	// Raw publishes bytes on the topic of the lane that most cases use, as who is not Duly
	// would.
	Raw func(t testing.TB, lane string, body []byte)
	// Damage stores something on the topic of the lane that nobody will be able to decode.
	Damage func(t testing.TB, lane string)
	// Purge removes all messages of the lane that most cases use and leaves its topic, as an
	// operator's hand would.
	Purge func(t testing.TB, lane string)
	// Limit makes the topic of a lane one that drops what nobody has acknowledged, before
	// anyone uses it, and returns the names of the settings that are to blame.
	Limit func(t testing.TB, lane string) []string
	// Fill leaves the broker no room to store anything, until what it returns is called.
	Fill func(t testing.TB, lane string) (room func())
	// Visibility is how long after a crash the broker delivers again what was held.
	Visibility time.Duration
	// Log says that a partition is a log, and not a queue.
	Log bool
	// Partitions is how many a lane has; zero means one.
	Partitions int
}

// Need is something that cases need and not every broker lets a test do.
type Need string

const (
	// Restart is Broker.Restart.
	Restart Need = "restart"
	// Damage is Broker.Damage.
	Damage Need = "damage"
	// Limit is Broker.Limit.
	Limit Need = "limit"
	// Fill is Broker.Fill.
	Fill Need = "fill"
)

// patience is how long a case waits for what must happen.
const patience = 60 * time.Second

// Run runs the suite, each case in parallel with a broker of its own. Cases that need
// what is named are left out.
func Run(t *testing.T, start func(t *testing.T) Broker, without ...Need) {
	groups := []map[string]func(*testing.T, *fixture){
		deliveryCases, redeliveryCases, delayCases, publishCases, lossCases, rebalanceCases, rawCases,
	}
	for need, cases := range map[Need]map[string]func(*testing.T, *fixture){Restart: restartCases, Damage: damageCases, Limit: limitCases, Fill: fillCases} {
		if !slices.Contains(without, need) {
			groups = append(groups, cases)
			continue
		}
		t.Logf("left out, since they need %s: %q", need, slices.Sorted(maps.Keys(cases)))
	}
	for _, group := range groups {
		for name, test := range group {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, newFixture(t, start(t)))
			})
		}
	}
}

// lane is the lane that most cases use.
const lane = "mail"

// fixture is a broker with its lane ensured, and one connection.
type fixture struct {
	Broker
	bus bus.Bus
}

func newFixture(t *testing.T, broker Broker) *fixture {
	f := &fixture{Broker: broker}
	f.bus = f.connect(t)
	require.NoError(t, f.bus.Ensure(t.Context(), []string{lane, "slow"}))
	if m, ok := f.bus.(bus.Mover); ok {
		startMoving(t, m)
	}
	return f
}

// startMoving moves delayed messages on until the test ends, as a dispatcher does.
func startMoving(t *testing.T, m bus.Mover) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- m.Move(ctx, func(_ context.Context, source string, m bus.Message, cause error) error {
			t.Errorf("%s: %s: %v", source, m.Identity(), cause)
			return nil
		})
	}()
	t.Cleanup(func() {
		cancel()
		requireEnded(t, ended, context.Canceled)
	})
}

// connect connects and closes at the end of the test.
func (f *fixture) connect(t *testing.T) bus.Bus {
	t.Helper()
	b := f.Connect(t)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// consume receives from the lane on b and closes at the end of the test.
func consume(t *testing.T, b bus.Bus) bus.Consumer {
	t.Helper()
	c, err := b.Consume(t.Context(), lane)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// work is n messages, of one reference each, of the jobs from first on.
func work(first, n int) []bus.Message {
	messages := make([]bus.Message, n)
	for i := range messages {
		messages[i] = workOf(first+i, time.Time{})
	}
	return messages
}

func workOf(id int, at time.Time) bus.Message {
	return bus.Envelope{
		Kind: "reminder", Lane: lane, At: at,
		Refs:   []job.Ref{{Job: int64(id), Generation: 1, Emission: 1}},
		Outbox: []int64{int64(id)},
	}.Message()
}

func markOf(t *testing.T, number int64) bus.Message {
	t.Helper()
	m, err := bus.Mark{Lane: lane, Number: number}.Message(0)
	require.NoError(t, err)
	return m
}

// publish publishes all and requires that all are stored.
func publish(t *testing.T, b bus.Bus, messages ...bus.Message) {
	t.Helper()
	for i, err := range b.Publish(t.Context(), messages) {
		require.NoError(t, err, "message %d", i)
	}
}

// publishInTime publishes until all are stored, as the dispatcher would.
func publishInTime(t *testing.T, b bus.Bus, messages ...bus.Message) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for len(messages) > 0 {
		require.True(t, time.Now().Before(deadline), "%d messages could not be published", len(messages))
		var failed []bus.Message
		for i, err := range b.Publish(t.Context(), messages) {
			if err != nil {
				require.NotErrorIs(t, err, bus.ErrUnsendable)
				failed = append(failed, messages[i])
			}
		}
		if messages = failed; len(messages) > 0 {
			<-time.After(50 * time.Millisecond) // the dispatcher's pause
		}
	}
}

// receive receives exactly n messages, at most limit at once.
func receive(t *testing.T, c bus.Consumer, n, limit int) []bus.Delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var all []bus.Delivery
	for len(all) < n {
		batch, err := c.Receive(ctx, min(limit, n-len(all)))
		require.NoError(t, err, "after %d of %d messages", len(all), n)
		require.NotEmpty(t, batch)
		require.LessOrEqual(t, len(batch), min(limit, n-len(all)), "more than was asked for")
		all = append(all, batch...)
	}
	return all
}

// receiveNone requires that nothing comes for a time.
func receiveNone(t *testing.T, c bus.Consumer, wait time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	batch, err := c.Receive(ctx, 10)
	require.Empty(t, batch)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// receiveSet receives until each of the jobs came at least once, acknowledging all.
func receiveSet(t *testing.T, c bus.Consumer, jobs ...int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	missing := map[int64]bool{}
	for _, id := range jobs {
		missing[id] = true
	}
	for len(missing) > 0 {
		batch, err := c.Receive(ctx, 64)
		require.NoError(t, err, "%d of %d jobs did not come", len(missing), len(jobs))
		for _, id := range jobsOf(t, batch) {
			delete(missing, id)
		}
		ack(t, batch...)
	}
}

func ack(t *testing.T, deliveries ...bus.Delivery) {
	t.Helper()
	for _, d := range deliveries {
		require.NoError(t, d.Ack())
	}
}

// jobsOf is the jobs of the work among the deliveries, in order.
func jobsOf(t *testing.T, deliveries []bus.Delivery) []int64 {
	t.Helper()
	ids, err := decodeJobs(deliveries)
	require.NoError(t, err)
	return ids
}

// decodeJobs is jobsOf for goroutines, which must not end the test.
func decodeJobs(deliveries []bus.Delivery) ([]int64, error) {
	var ids []int64
	for _, d := range deliveries {
		if d.Message().Type != bus.TypeWork {
			continue
		}
		e, err := bus.DecodeEnvelope(d.Message().Body)
		if err != nil {
			return nil, err
		}
		for _, ref := range e.Refs {
			ids = append(ids, ref.Job)
		}
	}
	return ids, nil
}

// requireJobs requires the jobs, each once from a queue; a log may repeat some when a
// partition changes hands.
func (f *fixture) requireJobs(t *testing.T, want, got []int64) {
	t.Helper()
	if !f.Log {
		require.ElementsMatch(t, want, got)
		return
	}
	require.ElementsMatch(t, want, slices.Collect(maps.Keys(setOf(got))))
}

// requireInOrder requires that the jobs came in the order of their numbers in each
// partition.
func requireInOrder(t *testing.T, deliveries []bus.Delivery) {
	t.Helper()
	last := map[int32]int64{}
	for _, d := range deliveries {
		for _, id := range jobsOf(t, []bus.Delivery{d}) {
			p := d.Message().Partition
			require.Less(t, last[p], id, "in partition %d", p)
			last[p] = id
		}
	}
}

func setOf(jobs []int64) map[int64]bool {
	set := make(map[int64]bool, len(jobs))
	for _, id := range jobs {
		set[id] = true
	}
	return set
}

// numbers is first … first+n-1.
func numbers(first, n int) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = int64(first + i)
	}
	return out
}

func describe(d bus.Delivery) string {
	return fmt.Sprintf("%s %s", d.Message().Type, d.Message().Body)
}
