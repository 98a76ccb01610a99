// Package gochan is the channel of Go handlers: the effect is what a function of
// the worker's own program does. Its first byte is the call of the handler, so the
// last check comes right before it, and from then on only the handler's word says
// that nothing happened.
package gochan

import (
	"context"
	"errors"

	"duly.dev/duly/internal/channel"
	"duly.dev/duly/pkg/handler"
	"duly.dev/duly/pkg/job"
)

// Name is the channel's name.
const Name = "go"

// Channel performs effects by calling a handler.
type Channel struct{ handler handler.Handler }

var _ channel.Channel = (*Channel)(nil)

// New makes the channel of a handler.
func New(h handler.Handler) *Channel { return &Channel{h} }

// Name is the last part of the effect key.
func (c *Channel) Name() string { return Name }

// Check refuses nothing: only the handler knows its destinations and payloads.
func (c *Channel) Check(string, []byte) *job.Refusal { return nil }

// Deliver calls the handler and returns what it says. A panic passes through to the
// worker, which reports it as unknown.
func (c *Channel) Deliver(ctx context.Context, e channel.Effect) job.Result {
	if err := e.Begin(); err != nil {
		return job.NotBegun(err.Error())
	}
	ctx, receipt := handler.WithReceipt(ctx)
	result := handler.Verdict(c.handler.Handle(ctx, handler.Job{
		Kind: e.Kind, Key: e.Key, Subject: e.Subject, Period: e.Period,
		Destination: e.Destination, Payload: e.Payload,
		Generation: e.Generation, Attempt: e.Attempt, EffectKey: e.EffectKey,
		Deadline: e.Deadline, DeadlineZone: e.DeadlineZone, DeadlineLocal: e.DeadlineLocal,
		TraceParent: e.TraceParent,
	}))
	if result.Outcome == job.OutcomeUnknown {
		switch {
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			result.Code = job.CodeTimeout
		case ctx.Err() != nil:
			result.Code = job.CodeLeaseEnded
		}
	}
	result.Receipt = receipt()
	return result
}

// Close has nothing to end.
func (c *Channel) Close() error { return nil }
