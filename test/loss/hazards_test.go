package loss_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/channel"
	"duly.dev/duly/pkg/job"
)

// found is within what time that which the bus lost is moving again: a mark every 10 s, 60 s
// until what it covers is judged, a look every 5 s, and the relay.
const found = 90 * time.Second

// once requires that each of the jobs was performed once, at its first emission.
func (w *world) once(keys []string) {
	w.Helper()
	for _, key := range keys {
		require.Len(w, w.effects.of(key), 1, key)
		require.Equal(w, int32(1), row(w.T, w.ledger, key).Emission, key)
	}
}

// findsLoss requires that detection is awake: what the bus loses now moves in time.
func (w *world) findsLoss() {
	w.Helper()
	before := w.reemitted()
	stop := w.losing()
	keys := w.enqueue(6)
	wait(5 * time.Second)
	stop()
	lost := time.Now()
	wait(found)
	for _, key := range keys {
		began := w.effects.of(key)
		require.Len(w, began, 1, "%s was lost %s ago", key, time.Since(lost))
	}
	require.Equal(w, before+len(keys), w.reemitted())
}

// A relay that was stopped for an hour has lost nothing: what waits in the outbox was
// never on the bus. The ledger's own part, with more rows, is tested there.
func TestRelayThatWasStoppedForAnHourHasLostNothing(t *testing.T) {
	t.Parallel()
	inWorld(t, reminders(), func(w *world) {
		w.work()
		stop := w.dispatch()
		before := w.enqueue(50)
		wait(30 * time.Second)
		w.once(before)
		stop()
		waiting := w.enqueue(1000)
		wait(time.Hour)
		require.Zero(t, w.reemitted())
		require.Zero(t, w.broker.Depth(lane))
		w.dispatch()
		wait(10 * time.Minute)
		w.once(waiting)
		require.Zero(t, w.reemitted())
		w.findsLoss()
	})
}

// A backlog behind a fleet that is away is no loss, nor is it while the fleet comes back
// and works it off.
func TestBacklogBehindAStoppedFleetIsNoLoss(t *testing.T) {
	t.Parallel()
	inWorld(t, reminders(), func(w *world) {
		w.dispatch()
		stop := w.work()
		before := w.enqueue(50)
		wait(30 * time.Second)
		w.once(before)
		stop()
		waiting := w.enqueue(2000)
		wait(time.Hour)
		require.Equal(t, 0, w.reemitted())
		standing, err := w.ledger.StandingMarks(t.Context())
		require.NoError(t, err)
		require.NotEmpty(t, standing, "an operator sees that nobody takes the lane's messages")
		require.Greater(t, standing[0].Age, 50*time.Minute)
		w.work()
		wait(10 * time.Minute)
		w.once(waiting)
		require.Zero(t, w.reemitted())
		w.findsLoss()
	})
}

// One message is in the hands of a consumer that was stopped, and six behind it are lost:
// they need not wait until the one comes again.
func TestWhatIsLostBehindAHeldMessageMovesAgainInTime(t *testing.T) {
	t.Parallel()
	inWorld(t, reminders(), func(w *world) {
		w.dispatch()
		stopped := w.broker.Connect()
		consumer, err := stopped.Consume(t.Context(), lane)
		require.NoError(t, err)
		held := w.enqueue(1)
		wait(time.Second)
		deliveries, err := consumer.Receive(t.Context(), 1)
		require.NoError(t, err)
		require.Len(t, deliveries, 1)
		w.work()
		stop := w.losing()
		lost := w.enqueue(6)
		wait(time.Second)
		stop()
		wait(found)
		for _, key := range lost {
			require.Len(t, w.effects.of(key), 1, key)
		}
		require.Len(t, w.effects.of(held[0]), 1, "what nobody has leased is not waited for either")
		require.NoError(t, deliveries[0].Ack())
		wait(10 * time.Minute)
		require.Equal(t, 7, w.effects.total(), "and nothing is done twice")
		require.Equal(t, 7, w.reemitted())
	})
}

// No clock of a broker is believed. Where it is 5 minutes ahead, retries come too early and
// are not begun; where it is behind, nobody waits for it; and marks say what they say.
func TestClockOfTheBrokerDecidesNothing(t *testing.T) {
	t.Parallel()
	kind := reminders()
	kind.Policy.Base, kind.Policy.Jitter = 2*time.Minute, 0
	for name, skew := range map[string]time.Duration{"ahead": 5 * time.Minute, "behind": -5 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, kind, func(w *world) {
				w.skew = skew
				w.effects.do = func(e channel.Effect) job.Result {
					if e.Attempt == 1 {
						return job.NotDone(job.ClassTransient, job.CodeUnreachable, "away")
					}
					return job.Done(nil)
				}
				w.dispatch()
				w.work()
				keys := w.enqueue(20)
				wait(20 * time.Minute)
				for _, key := range keys {
					began := w.effects.of(key)
					require.Len(t, began, 2, key)
					require.GreaterOrEqual(t, began[1].Sub(began[0]), kind.Policy.Base, "%s was not begun before its time", key)
					require.Less(t, began[1].Sub(began[0]), kind.Policy.Base+10*time.Second, "%s did not wait for the broker", key)
					require.Equal(t, job.Delivered, row(t, w.ledger, key).State)
				}
				require.Zero(t, w.reemitted())
				w.effects.do = nil
				w.findsLoss()
			})
		})
	}
}
