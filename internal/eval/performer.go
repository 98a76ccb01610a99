package eval

import (
	"context"
	"errors"

	"duly.dev/duly/internal/channel"
	"duly.dev/duly/pkg/job"
)

// performer is a channel as one worker sees it: its attempts pass the moments of the
// process, and break off where that is ended.
type performer struct {
	channel.Channel

	proc *proc
}

// errReplaced carries a result that takes the place of the channel's own, as if that had
// been lost on its way.
type errReplaced struct{ result job.Result }

// Error says what it is.
func (e *errReplaced) Error() string { return "the result was lost on its way" }

// Deliver performs the effect.
func (c *performer) Deliver(ctx context.Context, e channel.Effect) job.Result {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	broken := context.AfterFunc(c.proc.living, cancel)
	defer broken()
	at := func(p point, r job.Result) error {
		return c.proc.at(moment{point: p, kind: e.Kind, key: e.Key, cut: cancel, result: r})
	}
	if err := at(performing, job.Result{}); err != nil {
		return job.NotBegun(err.Error())
	}
	begin := e.Begin
	e.Begin = func() error {
		if err := begin(); err != nil {
			return err
		}
		return at(begun, job.Result{})
	}
	result := c.Channel.Deliver(ctx, e)
	if saw := c.proc.world.saw; saw != nil {
		saw(e.EffectKey, result)
	}
	err := at(done, result)
	if replaced, ok := errors.AsType[*errReplaced](err); ok {
		return replaced.result
	}
	return result
}

// Close leaves the channel to the world, which all its workers share.
func (c *performer) Close() error { return nil }
