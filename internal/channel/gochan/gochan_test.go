package gochan_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/channel"
	"duly.dev/duly/internal/channel/gochan"
	"duly.dev/duly/pkg/handler"
	"duly.dev/duly/pkg/job"
)

func effect(begin error) channel.Effect {
	return channel.Effect{
		Kind: "greeting", Key: "customer-1842", Destination: "somewhere", Payload: []byte(`1`), Generation: 2, Attempt: 3,
		EffectKey: "greeting/customer-1842:2:go", Begin: func() error { return begin },
	}
}

func TestHandlerIsNotCalledWhereBeginRefuses(t *testing.T) {
	t.Parallel()
	c := gochan.New(handler.Func(func(context.Context, handler.Job) error { panic("called") }))
	r := c.Deliver(t.Context(), effect(errors.New("the lease is over")))
	require.Equal(t, job.NotBegun("the lease is over"), r)
}

func TestHandlerGetsItsJobAndDecidesTheResult(t *testing.T) {
	t.Parallel()
	var got handler.Job
	c := gochan.New(handler.Func(func(ctx context.Context, j handler.Job) error {
		got = j
		handler.Receipt(ctx, "msg-7")
		return nil
	}))
	r := c.Deliver(t.Context(), effect(nil))
	require.Empty(t, cmp.Diff(job.Done(&job.Receipt{ID: "msg-7"}), r, cmpopts.IgnoreFields(job.Receipt{}, "At")))
	require.Empty(t, cmp.Diff(handler.Job{
		Kind: "greeting", Key: "customer-1842", Destination: "somewhere", Payload: []byte(`1`), Generation: 2, Attempt: 3,
		EffectKey: "greeting/customer-1842:2:go",
	}, got))
}

func TestUnknownEndSaysWhetherTheContextHadEnded(t *testing.T) {
	t.Parallel()
	c := gochan.New(handler.Func(func(ctx context.Context, _ handler.Job) error {
		<-ctx.Done()
		return ctx.Err()
	}))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, job.CodeLeaseEnded, c.Deliver(over, effect(nil)).Code)
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	require.Equal(t, job.MayBeDone(job.CodeTimeout, "context deadline exceeded"), c.Deliver(late, effect(nil)))
}

func TestVerdictStandsEvenAfterTheContextEnded(t *testing.T) {
	t.Parallel()
	c := gochan.New(handler.Func(func(ctx context.Context, _ handler.Job) error {
		return handler.NotDone(ctx.Err(), job.CodeUnreachable)
	}))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, job.NotDone(job.ClassTransient, job.CodeUnreachable, "context canceled"), c.Deliver(over, effect(nil)))
}
