package sweep

import (
	"context"
	"time"

	"duly.dev/duly/internal/machine"
)

// Figures are what the metrics show of the ledger as a whole.
type Figures interface {
	// Figures measures the ledger, with counts that go no further than most.
	Figures(ctx context.Context, most int) (machine.Figures, error)
}

// figuresMost is how far anything is counted.
const figuresMost = 10_000

func (s *Sweeper) figures() loop {
	return loop{name: "figures", every: 10 * time.Second, round: func(ctx context.Context) (bool, error) {
		f, err := s.options.Ledger.Figures(ctx, figuresMost)
		if err == nil {
			s.metrics.show(f)
		}
		return false, err
	}}
}
