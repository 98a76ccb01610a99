package sweep

import (
	"context"
	"time"
)

// Unknown is where unknown outcomes are found that nobody answered in time.
type Unknown interface {
	// CloseUnknown closes some of those whose time of asking is over.
	CloseUnknown(ctx context.Context, limit int) (closed int, more bool, err error)
}

func (s *Sweeper) closing() loop {
	return loop{name: "closing", every: 10 * time.Second, round: func(ctx context.Context) (bool, error) {
		closed, more, err := s.options.Ledger.CloseUnknown(ctx, 500)
		s.metrics.closed.Add(float64(closed))
		return more && err == nil, err
	}}
}
