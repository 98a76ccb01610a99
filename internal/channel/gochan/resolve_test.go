package gochan_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/channel"
	"duly.dev/duly/internal/channel/gochan"
	"duly.dev/duly/pkg/handler"
	"duly.dev/duly/pkg/job"
)

// Whatever a resolve does, nothing was sent: no answer of it leaves anybody in doubt.
func TestAResolveNeverLeavesADoubt(t *testing.T) {
	t.Parallel()
	jobs := []channel.Addressee{
		{Kind: "greeting", Key: "a", Subject: "customer 1", Period: "2026-W42", Destination: "old", Generation: 2},
		{Kind: "greeting", Key: "b"},
	}
	throttled := job.NotDone(job.ClassTransient, job.CodeThrottled, "busy")
	throttled.RetryAfter = time.Minute
	for name, c := range map[string]struct {
		found []string
		err   error
		want  []channel.Address
	}{
		"addresses":          {[]string{"x", "y"}, nil, []channel.Address{{Destination: "x"}, {Destination: "y"}}},
		"no address":         {[]string{"x", ""}, nil, []channel.Address{{Destination: "x"}, channel.NoAddress("the resolve has no address for it")}},
		"too few":            {[]string{"x"}, nil, channel.Unresolved(2, job.NotDone(job.ClassTransient, job.CodeHandlerError, "the resolve returned 1 addresses for 2 jobs"))},
		"a plain error":      {nil, errors.New("no route"), channel.Unresolved(2, job.NotDone(job.ClassTransient, job.CodeHandlerError, "no route"))},
		"an error counts":    {[]string{"x", "y"}, errors.New("no route"), channel.Unresolved(2, job.NotDone(job.ClassTransient, job.CodeHandlerError, "no route"))},
		"permanent":          {nil, handler.Permanent(errors.New("left"), job.CodeDestinationGone), channel.Unresolved(2, job.NotDone(job.ClassPermanent, job.CodeDestinationGone, "left"))},
		"retry after":        {nil, handler.RetryAfter(errors.New("busy"), time.Minute), channel.Unresolved(2, throttled)},
		"not done with code": {nil, handler.NotDone(errors.New("down"), job.CodeUnreachable), channel.Unresolved(2, job.NotDone(job.ClassTransient, job.CodeUnreachable, "down"))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := gochan.NewResolver(func(_ context.Context, got []handler.Addressee) ([]string, error) {
				require.Equal(t, []handler.Addressee{
					{Kind: "greeting", Key: "a", Subject: "customer 1", Period: "2026-W42", Destination: "old", Generation: 2}, {Kind: "greeting", Key: "b"},
				}, got)
				return c.found, c.err
			})
			require.Equal(t, c.want, r.Resolve(t.Context(), jobs))
		})
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	slow := gochan.NewResolver(func(ctx context.Context, _ []handler.Addressee) ([]string, error) { return nil, ctx.Err() })
	require.Equal(t, job.NotDone(job.ClassTransient, job.CodeTimeout, "context canceled"), slow.Resolve(over, jobs)[0].Why)
}
