package sweep

import (
	"context"
	"time"

	"duly.dev/duly/internal/machine"
)

// Deadlines is where generations are found whose deadline, age or lifetime is over.
type Deadlines interface {
	// Expire ends the next ones that wait, out of at most limit rows.
	Expire(ctx context.Context, limit int) (ended machine.Tally, more bool, err error)
}

// deadlineRows is how many rows one round looks at.
const deadlineRows = 2000

func (s *Sweeper) expiry() loop {
	return loop{name: "expiry", every: time.Second, round: func(ctx context.Context) (bool, error) {
		ended, more, err := s.options.Ledger.Expire(ctx, deadlineRows)
		s.metrics.expirations(ended)
		return more && err == nil, err
	}}
}
