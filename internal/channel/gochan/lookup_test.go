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

func TestALookupSaysWhatItsFunctionDoes(t *testing.T) {
	t.Parallel()
	var zero handler.Answer
	for name, c := range map[string]struct {
		answer handler.Answer
		err    error
		want   channel.Answer
	}{
		"it happened":     {handler.Happened("m-1"), nil, channel.Answer{Said: job.SaidYes, Receipt: &job.Receipt{ID: "m-1"}}},
		"it did not":      {handler.DidNotHappen(), nil, channel.Answer{Said: job.SaidNo}},
		"still working":   {handler.StillWorking(), nil, channel.Answer{Said: job.SaidWorking}},
		"nothing":         {zero, nil, channel.Answer{Said: job.SaidNothing}},
		"an error":        {zero, errors.New("no route"), channel.Answer{Said: job.SaidNothing, Detail: "no route"}},
		"an error counts": {handler.DidNotHappen(), errors.New("no route"), channel.Answer{Said: job.SaidNothing, Detail: "no route"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := channel.Inquiry{
				Kind: "greeting", Key: "customer-1842", Subject: "customer 1842", Period: "2026-W42", Destination: "somewhere", Generation: 2,
				EffectKey: "greeting/customer-1842:2:go",
			}
			l := gochan.NewLookup(func(_ context.Context, got handler.Question) (handler.Answer, error) {
				require.Equal(t, handler.Question{
					Kind: "greeting", Key: "customer-1842", Subject: "customer 1842", Period: "2026-W42", Destination: "somewhere", Generation: 2,
					EffectKey: "greeting/customer-1842:2:go",
				}, got)
				return c.answer, c.err
			})
			require.Empty(t, cmp.Diff(c.want, l.Ask(t.Context(), q), cmpopts.IgnoreFields(job.Receipt{}, "At")))
			require.NoError(t, l.Close())
		})
	}
}

func TestALookupStandsBesideItsHandler(t *testing.T) {
	t.Parallel()
	h := handler.Func(func(context.Context, handler.Job) error { return nil })
	require.Nil(t, handler.LookupOf(h))
	both := handler.WithLookup(h, func(context.Context, handler.Question) (handler.Answer, error) { return handler.StillWorking(), nil })
	require.NotNil(t, handler.LookupOf(both))
	require.NoError(t, both.Handle(t.Context(), handler.Job{}))
}
