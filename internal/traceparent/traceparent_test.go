package traceparent

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
)

const example = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestATraceSurvivesTheTripThroughText(t *testing.T) {
	t.Parallel()
	ctx := Into(t.Context(), example)
	span := trace.SpanContextFromContext(ctx)
	require.True(t, span.IsRemote())
	require.True(t, span.IsSampled())
	require.Equal(t, "0af7651916cd43dd8448eb211c80319c", span.TraceID().String())
	require.Equal(t, example, Of(ctx))

	link, ok := Link(example)
	require.True(t, ok)
	require.Equal(t, span.SpanID(), link.SpanContext.SpanID())
}

func TestWhatCannotBeReadIsNoTrace(t *testing.T) {
	t.Parallel()
	require.Empty(t, Of(context.Background()))
	for _, text := range []string{"", "x", "00-00000000000000000000000000000000-b7ad6b7169203331-01", example[:40], "ff" + example[2:]} {
		require.False(t, Valid(text), text)
		require.Empty(t, Of(Into(t.Context(), text)), text)
	}
	require.True(t, Valid(example))
}
