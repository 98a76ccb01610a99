package compose

import (
	"context"
	"log/slog"
	"time"

	"duly.dev/duly/internal/pause"
)

// The pauses between two tries to open something beside the loops: they double.
const (
	firstOpening = 200 * time.Millisecond
	lastOpening  = time.Minute
)

// openBeside opens what one kind needs of a database, in a loop of its own: nothing else
// waits for it. Whatever is wrong is told with the kind, and tried again until somebody has
// repaired it or ctx ends, whose error it returns then.
func openBeside(ctx context.Context, log *slog.Logger, what, kind string, open func(context.Context) error) error {
	for wait := firstOpening; ; wait = min(2*wait, lastOpening) {
		err := open(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		log.ErrorContext(ctx, "this kind waits until this is repaired; nothing else does", "kind", kind, "what", what, "error", err, "next_in", wait)
		pause.For(ctx, wait)
	}
}
