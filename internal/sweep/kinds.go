package sweep

import (
	"context"
	"time"

	"duly.dev/duly/internal/machine"
)

// Kinds are the kinds as the ledger has them.
type Kinds interface {
	// Kinds reads the kinds again, with the policies that other schedulers wrote.
	Kinds(ctx context.Context) ([]machine.Kind, error)
}

func (s *Sweeper) kinds() loop {
	return loop{name: "kinds", every: 10 * time.Second, round: func(ctx context.Context) (bool, error) {
		_, err := s.options.Ledger.Kinds(ctx)
		return false, err
	}}
}
