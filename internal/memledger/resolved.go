package memledger

import (
	"context"
	"time"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// Bind stores where the worker is about to send attempts, and says of each whether it was
// taken: one whose lease is over is not, nor is one in doubt that an earlier one has sent
// elsewhere.
func (l *Ledger) Bind(ctx context.Context, w machine.Worker, bindings []machine.Binding) ([]bool, error) {
	taken := make([]bool, len(bindings))
	err := l.write(ctx, "Bind", func(now time.Time) error {
		for i, b := range bindings {
			_, g := l.find(b.Job, b.Generation)
			if g == nil || g.row.Fence != b.Fence || g.row.Worker != w.ID || g.row.State != job.Leased {
				continue
			}
			if g.row.InDoubt() && g.bound.Address != "" && g.bound.Address != b.Address {
				continue
			}
			g.bound = machine.Bound{Address: b.Address, By: b.By, Fence: b.Fence, At: now}
			taken[i] = true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return taken, nil
}
