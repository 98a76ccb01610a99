package sweep

import (
	"context"
	"time"

	"duly.dev/duly/internal/machine"
)

// Overruns is where leases are found whose time is over, though their workers live.
type Overruns interface {
	// EndOverrun ends the next leases whose limit and lease time are over.
	EndOverrun(ctx context.Context, limit int) (machine.LeaseSweep, error)
}

func (s *Sweeper) overruns() loop {
	return loop{name: "overrun leases", every: time.Second, round: func(ctx context.Context) (bool, error) {
		done, err := s.options.Ledger.EndOverrun(ctx, leaseRows)
		if err != nil {
			return false, err
		}
		s.metrics.leases("overrun", done.Ended)
		if n := done.Ended.Total(); n > 0 {
			s.log.WarnContext(ctx, "leases outlived their limit and are ended; their workers live", "leases", n)
		}
		return done.More, nil
	}}
}
