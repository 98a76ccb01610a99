package membus_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/bus/membus"
	"duly.dev/duly/pkg/job"
)

// The tests of this file run in bubbles: their hours take no time, and every wait of the
// broker must be one that the bubble sees.

func workOf(id int64, at time.Time) bus.Message {
	return bus.Envelope{
		Kind: "reminder", Lane: "mail", At: at,
		Refs:   []job.Ref{{Job: id, Generation: 1, Emission: 1}},
		Outbox: []int64{id},
	}.Message()
}

func works(first, n int64) []bus.Message {
	var out []bus.Message
	for id := first; id < first+n; id++ {
		out = append(out, workOf(id, time.Time{}))
	}
	return out
}

func publish(t *testing.T, b bus.Publisher, messages ...bus.Message) {
	t.Helper()
	for _, err := range b.Publish(t.Context(), messages) {
		require.NoError(t, err)
	}
}

func consume(t *testing.T, b bus.Bus) bus.Consumer {
	t.Helper()
	c, err := b.Consume(t.Context(), "mail")
	require.NoError(t, err)
	return c
}

func receive(t *testing.T, c bus.Consumer, limit int) ([]int64, []bus.Delivery) {
	t.Helper()
	batch, err := c.Receive(t.Context(), limit)
	require.NoError(t, err)
	return jobsOf(t, batch), batch
}

func jobsOf(t *testing.T, batch []bus.Delivery) (ids []int64) {
	t.Helper()
	for _, d := range batch {
		e, err := bus.DecodeEnvelope(d.Message().Body)
		require.NoError(t, err)
		ids = append(ids, e.Refs[0].Job)
	}
	return ids
}

func requireNone(t *testing.T, c bus.Consumer, wait time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	_, err := c.Receive(ctx, 1)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestCrashedWorkComesAgainAfterItsVisibility(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broker := membus.NewBroker(membus.Options{Visibility: 30 * time.Second})
		dying, other := broker.Connect(), broker.Connect()
		publish(t, other, works(1, 5)...)
		ids, held := receive(t, consume(t, dying), 5)
		require.Equal(t, []int64{1, 2, 3, 4, 5}, ids)
		require.NoError(t, held[1].Ack())

		time.Sleep(time.Hour) // what is held stays in progress, however long
		c := consume(t, other)
		requireNone(t, c, time.Hour)
		require.Equal(t, 4, broker.Depth("mail"))

		dying.Crash()
		begin := time.Now()
		require.ErrorIs(t, held[0].Ack(), bus.ErrClosed)
		ids, _ = receive(t, c, 10)
		require.Equal(t, 30*time.Second, time.Since(begin))
		require.Equal(t, []int64{1, 3, 4, 5}, ids, "in their order")
	})
}

func TestDelaysAreExact(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := membus.New()
		begin := time.Now()
		publish(t, b, workOf(3, begin.Add(3*time.Hour)), workOf(1, begin.Add(time.Hour)), workOf(2, begin.Add(time.Hour)))
		c := consume(t, b)
		ids, _ := receive(t, c, 10)
		require.Equal(t, []int64{1, 2}, ids)
		require.Equal(t, time.Hour, time.Since(begin))
		ids, _ = receive(t, c, 10)
		require.Equal(t, []int64{3}, ids)
		require.Equal(t, 3*time.Hour, time.Since(begin))
	})
}

func TestAWaitingConsumerWakesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broker := membus.NewBroker(membus.Options{})
		b := broker.Connect()
		c := consume(t, b)
		came := make(chan []bus.Delivery)
		go func() {
			batch, err := c.Receive(t.Context(), 10)
			if err != nil {
				t.Error(err)
			}
			came <- batch
		}()
		synctest.Wait()
		broker.Stop()
		require.Error(t, b.Healthy())
		require.Error(t, b.Publish(t.Context(), works(1, 1))[0])
		broker.Start()
		require.NoError(t, b.Healthy())
		publish(t, b, works(2, 1)...)
		require.Equal(t, []int64{2}, jobsOf(t, <-came))
	})
}

func TestAnOutageLosesAcknowledgementsOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broker := membus.NewBroker(membus.Options{})
		b := broker.Connect()
		publish(t, b, works(1, 2)...)
		_, held := receive(t, consume(t, b), 2)
		broker.Stop()
		require.Error(t, held[0].Ack())
		broker.Start()
		require.NoError(t, held[0].Ack(), "it can be said again")
		require.NoError(t, b.Close())
		ids, _ := receive(t, consume(t, broker.Connect()), 10)
		require.Equal(t, []int64{2}, ids)
	})
}

func TestFaults(t *testing.T) {
	t.Parallel()
	errRefused := errors.New("no room")
	synctest.Test(t, func(t *testing.T) {
		broker := membus.NewBroker(membus.Options{})
		b := broker.Connect()
		byJob := func(m bus.Message) int64 {
			e, err := bus.DecodeEnvelope(m.Body)
			require.NoError(t, err)
			return e.Refs[0].Job
		}
		broker.SetFaults(membus.Faults{
			Refuse: func(m bus.Message) error {
				if byJob(m) == 2 {
					return errRefused
				}
				return nil
			},
			Fate: func(m bus.Message) membus.Fate {
				return map[int64]membus.Fate{3: membus.Lose, 4: membus.Duplicate, 6: membus.Overtake}[byJob(m)]
			},
		})
		errs := b.Publish(t.Context(), works(1, 6))
		for i, err := range errs {
			if i == 1 {
				require.ErrorIs(t, err, errRefused)
				require.NotErrorIs(t, err, bus.ErrUnsendable)
				continue
			}
			require.NoError(t, err)
		}
		ids, _ := receive(t, consume(t, b), 10)
		require.Equal(t, []int64{6, 1, 4, 4, 5}, ids)

		broker.SetFaults(membus.Faults{})
		publish(t, b, workOf(2, time.Time{})) // what was refused is not taken for a copy
		ids, _ = receive(t, consume(t, b), 10)
		require.Equal(t, []int64{2}, ids)
	})
}

func TestADuplicatedDelayComesTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broker := membus.NewBroker(membus.Options{})
		broker.SetFaults(membus.Faults{Fate: func(bus.Message) membus.Fate { return membus.Duplicate }})
		b := broker.Connect()
		publish(t, b, workOf(1, time.Now().Add(time.Hour)))
		ids, _ := receive(t, consume(t, b), 10)
		require.Equal(t, []int64{1, 1}, ids)
	})
}

func TestCopiesAreSwallowedWithinTheWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broker := membus.NewBroker(membus.Options{DuplicateWindow: time.Minute})
		b := broker.Connect()
		for range 4 { // at 0 s, 40 s, 80 s and 120 s
			publish(t, b, workOf(1, time.Time{}))
			time.Sleep(40 * time.Second)
		}
		require.Equal(t, 2, broker.Depth("mail"), "those at 0 s and 80 s")

		forgetful := membus.NewBroker(membus.Options{DuplicateWindow: -1})
		publish(t, forgetful.Connect(), workOf(1, time.Time{}), workOf(1, time.Time{}))
		require.Equal(t, 2, forgetful.Depth("mail"))
	})
}

func TestAWipeLosesEverything(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broker := membus.NewBroker(membus.Options{})
		b := broker.Connect()
		publish(t, b, append(works(1, 3), workOf(4, time.Now().Add(time.Hour)))...)
		c := consume(t, b)
		_, held := receive(t, c, 1)
		broker.Wipe()
		require.NoError(t, held[0].Release(), "a late word has no effect")
		require.Zero(t, broker.Depth("mail"))
		publish(t, b, workOf(1, time.Time{})) // ids are forgotten too
		ids, _ := receive(t, c, 10)
		require.Equal(t, []int64{1}, ids)
	})
}
