package dispatch

import (
	"context"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/pause"
)

// move lets a bus that needs it move delayed messages on, until ctx ends.
func (d *Dispatcher) move(ctx context.Context, mover bus.Mover) {
	failures := pause.Backoff{}
	for {
		err := mover.Move(ctx, d.setAside)
		if ctx.Err() != nil {
			return
		}
		rest := failures.Next()
		d.options.Log.WarnContext(ctx, "moving delayed messages on", "error", err, "next_in", rest)
		if !pause.For(ctx, rest) {
			return
		}
	}
}

// setAside keeps a message that nobody understands in the ledger.
func (d *Dispatcher) setAside(ctx context.Context, source string, m bus.Message, cause error) error {
	return d.options.Ledger.Reject(ctx, source, m.Identity(), m.Body, cause)
}
