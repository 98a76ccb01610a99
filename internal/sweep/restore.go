package sweep

import (
	"context"
	"time"
)

// Restore is where a ledger is noticed that was moved to another cluster.
type Restore interface {
	// CheckRestored makes the cursors begin anew in such a ledger.
	CheckRestored(ctx context.Context) (bool, error)
}

func (s *Sweeper) restore() loop {
	return loop{name: "restore", every: time.Minute, round: func(ctx context.Context) (bool, error) {
		restored, err := s.options.Ledger.CheckRestored(ctx)
		if restored {
			s.log.WarnContext(ctx, "the ledger was restored or upgraded: its outbox is announced from the start; duplicates of that are dropped as stale")
		}
		return false, err
	}}
}
