package handler_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/pkg/handler"
)

// What stands beside a handler is found whatever it was put there with, and in whichever
// order.
func TestWhatStandsBesideAHandlerIsFoundInAnyOrder(t *testing.T) {
	t.Parallel()
	performed := 0
	h := handler.Handler(handler.Func(func(context.Context, handler.Job) error { performed++; return nil }))
	require.Nil(t, handler.LookupOf(h))
	require.Nil(t, handler.CleanupOf(h))
	require.Nil(t, handler.ResolveOf(h))
	look := func(h handler.Handler) handler.Handler {
		return handler.WithLookup(h, func(context.Context, handler.Question) (handler.Answer, error) { return handler.StillWorking(), nil })
	}
	tidy := func(h handler.Handler) handler.Handler {
		return handler.WithCleanup(h, func(context.Context, handler.Ended) error { return nil })
	}
	find := func(h handler.Handler) handler.Handler {
		return handler.WithResolve(h, func(context.Context, []handler.Addressee) ([]string, error) { return nil, nil })
	}
	for _, all := range []handler.Handler{look(tidy(find(h))), find(look(tidy(h))), tidy(find(look(h)))} {
		require.NotNil(t, handler.LookupOf(all))
		require.NotNil(t, handler.CleanupOf(all))
		require.NotNil(t, handler.ResolveOf(all))
		require.NoError(t, all.Handle(t.Context(), handler.Job{}))
	}
	require.Equal(t, 3, performed)
	require.Nil(t, handler.LookupOf(find(h)))
	require.Nil(t, handler.ResolveOf(tidy(h)))
}
