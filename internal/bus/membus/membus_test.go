package membus_test

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/bus/bustest"
	"duly.dev/duly/internal/bus/membus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSuite(t *testing.T) {
	t.Parallel()
	bustest.Run(t, func(t *testing.T) bustest.Broker {
		const visibility = 300 * time.Millisecond
		broker := membus.NewBroker(membus.Options{Visibility: visibility})
		return bustest.Broker{
			Connect: func(testing.TB) bus.Bus { return broker.Connect() },
			Crash:   func(_ testing.TB, b bus.Bus) { b.(*membus.Bus).Crash() },
			Restart: func(testing.TB) { broker.Stop(); broker.Start() },
			Wipe:    func(testing.TB) { broker.Wipe() },
			Purge:   func(testing.TB, string) { broker.Wipe() },
			Raw:     func(_ testing.TB, lane string, body []byte) { broker.Inject(lane, bus.Message{Body: body}) },
			Fill: func(testing.TB, string) func() {
				broker.SetFaults(membus.Faults{Refuse: func(bus.Message) error { return errors.New("no space left") }})
				return func() { broker.SetFaults(membus.Faults{}) }
			},
			Visibility: visibility,
		}
	}, bustest.Damage, bustest.Limit)
}
