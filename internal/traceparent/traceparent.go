// Package traceparent carries a trace through places that keep only text: a job's
// row in the ledger, a header on the bus, a header of an HTTP request.
//
// The text is the W3C trace context header "traceparent", such as
// "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01". Nothing fails for the
// sake of a trace: what cannot be read means that there is none.
package traceparent

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

const header = "traceparent"

// Of formats the span that ctx carries; empty where it carries none.
func Of(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier.Get(header)
}

// Into returns ctx with the remote span that the text names as its parent; ctx
// itself where the text names none.
func Into(ctx context.Context, text string) context.Context {
	if text == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{header: text})
}

// Link returns a link to the span that the text names, by which an attempt refers
// to the one before it; false where the text names none.
func Link(text string) (trace.Link, bool) {
	span := trace.SpanContextFromContext(Into(context.Background(), text))
	return trace.Link{SpanContext: span}, span.IsValid()
}

// Valid reports whether the text names a span.
func Valid(text string) bool {
	_, ok := Link(text)
	return ok
}
