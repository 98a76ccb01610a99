package machine

import (
	"errors"
	"fmt"
)

// ErrBus is what every refused BusMove matches with errors.Is.
var ErrBus = errors.New("the lanes cannot be moved")

// BusMove is a person's decision that all lanes are relayed to another bus.
type BusMove struct {
	// From and To are the addresses of the two buses, as bus.Address makes them.
	From, To string
	// Actor is who decided it.
	Actor string
}

// Check refuses a move that is none, with ErrBus.
func (m BusMove) Check() error {
	switch {
	case m.From == "" || m.To == "":
		return fmt.Errorf("%w: it must be said from which bus to which", ErrBus)
	case m.From == m.To:
		return fmt.Errorf("%w: both are %s", ErrBus, m.To)
	case m.Actor == "":
		return fmt.Errorf("%w: it must be said who decided it", ErrBus)
	}
	return nil
}

// CheckFrom refuses a move from a bus that the lanes are not on, with ErrBus. current is
// the bus that they were moved to last, and empty if they never were: then From is
// believed.
func (m BusMove) CheckFrom(current string) error {
	switch current {
	case "", m.From:
		return nil
	case m.To:
		return fmt.Errorf("%w: they are on %s already", ErrBus, m.To)
	default:
		return fmt.Errorf("%w: they are on %s, not on %s", ErrBus, current, m.From)
	}
}
