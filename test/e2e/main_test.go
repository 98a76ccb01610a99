package e2e_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"duly.dev/duly/internal/devstack"
	"duly.dev/duly/internal/ledger/ledgertest"
)

// atOnce is how many tests run at the same time. Most of the time they wait, for leases
// to end and servers to come back, so there may be more of them than processors.
const atOnce = "8"

// shared is what all tests use: the programs, and a bus on which each has a prefix of
// its own.
var shared struct {
	programs string
	bus      *devstack.NATS
}

// suite runs the tests between the start and the end of what they share.
type suite struct{ tests *testing.M }

func TestMain(m *testing.M) {
	flag.Parse()
	ledgertest.Main(suite{m})
}

func (s suite) Run() (code int) {
	if chosen := flag.Lookup("test.parallel"); chosen.Value.String() == chosen.DefValue {
		_ = chosen.Value.Set(atOnce)
	}
	if err := s.start(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	defer func() {
		if err := s.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "e2e:", err)
			code = max(code, 1)
		}
	}()
	return s.tests.Run()
}

func (suite) start() (err error) {
	if shared.programs, err = os.MkdirTemp("", "duly-e2e-*"); err != nil {
		return err
	}
	shared.bus, err = devstack.StartNATS(devstack.NATSOptions{})
	return err
}

func (suite) stop() error {
	err := shared.bus.Stop()
	if removed := os.RemoveAll(shared.programs); err == nil {
		err = removed
	}
	return err
}
