package memledger

import (
	"context"
	"slices"
	"time"

	"duly.dev/duly/internal/machine"
)

// Bus is the address of the bus that the lanes were moved to; empty if they never were.
func (l *Ledger) Bus(ctx context.Context) (string, error) {
	var address string
	err := l.read(ctx, "Bus", func(time.Time) error {
		address = l.bus
		return nil
	})
	return address, err
}

// MoveBus has every lane relayed to another bus, from where its judge stands.
// machine.ErrBus: the lanes are on another bus than it says.
func (l *Ledger) MoveBus(ctx context.Context, m machine.BusMove) error {
	if err := m.Check(); err != nil {
		return err
	}
	return l.write(ctx, "MoveBus", func(time.Time) error {
		if err := m.CheckFrom(l.bus); err != nil {
			return err
		}
		l.bus = m.To
		for name, t := range l.topics {
			t.holder, t.heldUntil, t.marks, t.passed = "", time.Time{}, nil, nil
			t.version++
			if name != machine.DeadTopic {
				t.relayed = t.judged
			}
		}
		return nil
	})
}

// UnheldLanes are the lanes that no dispatcher relays at this moment, in order.
func (l *Ledger) UnheldLanes(ctx context.Context) ([]string, error) {
	var lanes []string
	err := l.read(ctx, "UnheldLanes", func(now time.Time) error {
		for name, t := range l.topics {
			if name != machine.DeadTopic && (t.holder == "" || !now.Before(t.heldUntil)) {
				lanes = append(lanes, name)
			}
		}
		slices.Sort(lanes)
		return nil
	})
	return lanes, err
}
