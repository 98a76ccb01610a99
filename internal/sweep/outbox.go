package sweep

import (
	"context"
	"time"
)

// Outbox is kept small.
type Outbox interface {
	// KeepOutbox empties the leaves of the outbox that have done their work.
	KeepOutbox(ctx context.Context) (int, error)
}

func (s *Sweeper) outbox() loop {
	return loop{name: "outbox", every: time.Minute, round: func(ctx context.Context) (bool, error) {
		emptied, err := s.options.Ledger.KeepOutbox(ctx)
		s.metrics.leaves.Add(float64(emptied))
		return false, err
	}}
}
