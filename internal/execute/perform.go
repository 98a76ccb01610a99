package execute

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"duly.dev/duly/internal/failpoint"
	"duly.dev/duly/internal/traceparent"
	"duly.dev/duly/pkg/job"
)

// perform runs an attempt to its end and reports it. It is the goroutine of the
// attempt: whatever happens in it, a report comes out.
func (w *Worker) perform(a *attempt) {
	w.metrics.running.Inc()
	ctx, span := w.startSpan(a)
	// What is reported if the handler ends its goroutine instead of returning.
	result := job.MayBeDone(job.CodeHandlerPanic, "the handler ended its goroutine")
	defer func() {
		if v := recover(); v != nil {
			result = w.panicked(ctx, a, v)
		}
		result = judge(result, a.begun.Load(), a.refused.Load())
		endSpan(span, result)
		w.metrics.running.Dec()
		a.cancel()
		w.report(a, result)
		a.lane.slots.give(1)
	}()
	if fixed := a.grant.Row.Channel; fixed != a.kind.Channel {
		result = job.NotDone(job.ClassPermanent, job.CodeMisconfigured, fmt.Sprintf(
			"the generation began on channel %s and the kind has %s now; a redrive begins on that", job.Storable(fixed, job.MaxName), a.kind.Channel))
		return
	}
	result = a.saying(a.kind.Performer.Deliver(ctx, a.effect(ctx)))
	failpoint.Pass(failpoint.WorkerDone)
}

// judge makes a channel's result fit to be reported: storable, and no more certain
// than the channel can be.
func judge(r job.Result, begun, refused bool) job.Result {
	r = r.Storable()
	r.RetryAfter = max(r.RetryAfter, 0)
	failed := r.Outcome == job.OutcomeFailed
	switch {
	case failed && refused && !begun:
		return job.NotBegun(r.Detail)
	case r.Outcome == job.OutcomeNotBegun && begun:
		return job.MayBeDone(job.CodeUnexpectedAnswer, "the channel began and then said that it had not: "+r.Detail).Storable()
	case failed && isClass(r.Class):
		return r
	case r.Class == "" && (r.Outcome == job.OutcomeDelivered || r.Outcome == job.OutcomeUnknown || r.Outcome == job.OutcomeNotBegun):
		return r
	}
	detail := fmt.Sprintf("the channel answered outcome %q with class %q: %s", r.Outcome, r.Class, r.Detail)
	return job.MayBeDone(job.CodeUnexpectedAnswer, detail).Storable()
}

func isClass(c job.Class) bool {
	switch c {
	case job.ClassTransient, job.ClassPermanent, job.ClassUnclassified:
		return true
	}
	return false
}

// panicked is the result of a handler that panicked. The detail names the place and
// the type: the value may be made of a payload.
func (w *Worker) panicked(ctx context.Context, a *attempt, v any) job.Result {
	w.log.LogAttrs(ctx, slog.LevelError, "a handler panicked", append(a.logAttrs(), slog.String("stack", string(debug.Stack())))...)
	what := fmt.Sprintf("panic of type %T", v)
	if bug, ok := v.(runtime.Error); ok { // speaks of indexes and types, never of contents
		what = "panic: " + bug.Error()
	}
	return job.MayBeDone(job.CodeHandlerPanic, what+panicPlace())
}

// panicPlace names the function and line that panicked, as seen from a deferred
// function.
func panicPlace() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	panicking := false
	for {
		f, more := frames.Next()
		if panicking && !strings.HasPrefix(f.Function, "runtime.") {
			return fmt.Sprintf(" in %s, line %d", f.Function, f.Line)
		}
		panicking = panicking || f.Function == "runtime.gopanic"
		if !more {
			return ""
		}
	}
}

// startSpan begins the span of an attempt below the trace of its producer.
func (w *Worker) startSpan(a *attempt) (context.Context, trace.Span) {
	if w.tracer == nil {
		return &a.ctx, noop.Span{}
	}
	ctx, span := w.tracer.Start(traceparent.Into(&a.ctx, a.grant.TraceParent), "duly.attempt", trace.WithSpanKind(trace.SpanKindConsumer))
	if span.IsRecording() {
		span.SetAttributes(
			attribute.String("duly.kind", a.kind.Name),
			attribute.String("duly.key", a.grant.Key),
			attribute.Int("duly.generation", int(a.grant.Row.Generation)),
			attribute.Int("duly.attempt", int(a.grant.Row.Attempt)),
		)
	}
	return ctx, span
}

func endSpan(span trace.Span, r job.Result) {
	if span.IsRecording() {
		span.SetAttributes(
			attribute.String("duly.outcome", string(r.Outcome)),
			attribute.String("duly.class", string(r.Class)),
			attribute.String("duly.code", string(r.Code)),
		)
		if r.Outcome != job.OutcomeDelivered {
			span.SetStatus(codes.Error, string(r.Outcome))
		}
	}
	span.End()
}

// logAttrs name the attempt in the log.
func (a *attempt) logAttrs() []slog.Attr {
	row := &a.grant.Row
	return []slog.Attr{
		slog.String("kind", a.kind.Name), slog.String("key", a.grant.Key), slog.Int64("job", row.Job),
		slog.Int("generation", int(row.Generation)), slog.Int("attempt", int(row.Attempt)), slog.Int64("fence", row.Fence),
	}
}
