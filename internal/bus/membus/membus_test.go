package membus_test

import (
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
			Connect:    func(testing.TB) bus.Bus { return broker.Connect() },
			Crash:      func(_ testing.TB, b bus.Bus) { b.(*membus.Bus).Crash() },
			Restart:    func(testing.TB) { broker.Stop(); broker.Start() },
			Wipe:       func(testing.TB) { broker.Wipe() },
			Visibility: visibility,
		}
	}, bustest.Raw)
}
