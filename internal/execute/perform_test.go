package execute

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"duly.dev/duly/internal/channel"
	"duly.dev/duly/pkg/job"
)

// reported is the result of the only report.
func (r *rig) reported() job.Result {
	r.t.Helper()
	require.Len(r.t, r.books.settles, 1)
	require.Len(r.t, r.books.settles[0], 1)
	return r.books.settles[0][0].Result
}

func TestG8PanicIsUnknownAndShowsNoContents(t *testing.T) { // G8, G13
	t.Parallel()
	for name, c := range map[string]struct {
		panics func()
		says   string
	}{
		"a value":         {func() { panic("dear Ms. Secret") }, "panic of type string in duly.dev/duly/internal/execute."},
		"an error":        {func() { panic(errors.New("dear Ms. Secret")) }, "panic of type *errors.errorString in "},
		"a runtime error": {func() { _ = []int{}[len("Secret")] }, "panic: runtime error: index out of range [6] with length 0 in "},
		"a nil map":       {func() { noMap()["Secret"] = 1 }, "panic: assignment to entry in nil map in "},
		"nil":             {func() { panic(nil) }, "panic: panic called with nil argument"}, //nolint:govet // on purpose
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(r *rig) {
				r.performer.do = func(_ context.Context, e channel.Effect) job.Result {
					require.NoError(r.t, e.Begin())
					c.panics()
					return job.Done(nil)
				}
			}, func(t *testing.T, r *rig) {
				r.put("a")
				r.settle()
				r.requireState(1, job.Unknown, 1)
				got := r.reported()
				require.Equal(t, job.OutcomeUnknown, got.Outcome)
				require.Equal(t, job.CodeHandlerPanic, got.Code)
				require.Contains(t, got.Detail, c.says)
				require.NotContains(t, got.Detail, "Secret")
				r.performer.perform(nil)
				r.put("the worker lives on")
				r.settle()
				r.requireState(2, job.Delivered, 1)
			})
		})
	}
}

func noMap() map[string]int { return nil }

func TestHandlerThatEndsItsGoroutineIsUnknown(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.performer.do = func(_ context.Context, e channel.Effect) job.Result {
			require.NoError(r.t, e.Begin())
			runtime.Goexit()
			return job.Done(nil)
		}
	}, func(t *testing.T, r *rig) {
		r.put("a")
		r.settle()
		r.requireState(1, job.Unknown, 1)
		require.Zero(t, r.broker.Depth("mail"))
		require.Equal(t, 8, r.worker.lanes[0].slots.available())
	})
}

func TestG8ResultsAreNoMoreCertainThanTheirChannelCanBe(t *testing.T) {
	t.Parallel()
	receipt := &job.Receipt{ID: "7"}
	nonsense := job.CodeUnexpectedAnswer
	for name, c := range map[string]struct {
		result         job.Result
		begun, refused bool
		outcome        job.Outcome
		code           job.Code
	}{
		"delivered":                            {job.Done(receipt), true, false, job.OutcomeDelivered, ""},
		"failed":                               {job.NotDone(job.ClassTransient, job.CodeUnreachable, "x"), false, false, job.OutcomeFailed, job.CodeUnreachable},
		"failed after it began":                {job.NotDone(job.ClassPermanent, job.CodeRejected, "x"), true, false, job.OutcomeFailed, job.CodeRejected},
		"unclassified":                         {job.NotDone(job.ClassUnclassified, "X", "x"), true, false, job.OutcomeFailed, "X"},
		"unknown":                              {job.MayBeDone(job.CodeTimeout, "x"), true, false, job.OutcomeUnknown, job.CodeTimeout},
		"not begun":                            {job.NotBegun("x"), false, true, job.OutcomeNotBegun, ""},
		"failed because it might not begin":    {job.NotDone(job.ClassTransient, job.CodeUnreachable, "x"), false, true, job.OutcomeNotBegun, ""},
		"not begun, and yet it did":            {job.NotBegun("x"), true, false, job.OutcomeUnknown, nonsense},
		"failed without a class":               {job.Result{Outcome: job.OutcomeFailed}, true, false, job.OutcomeUnknown, nonsense},
		"failed with a class that is none":     {job.NotDone("hopeless", "X", "x"), true, false, job.OutcomeUnknown, nonsense},
		"unknown with a class":                 {job.Result{Outcome: job.OutcomeUnknown, Class: job.ClassTransient}, true, false, job.OutcomeUnknown, nonsense},
		"delivered with a class":               {job.Result{Outcome: job.OutcomeDelivered, Class: job.ClassTransient}, true, false, job.OutcomeUnknown, nonsense},
		"no outcome":                           {job.Result{}, true, false, job.OutcomeUnknown, nonsense},
		"an outcome that is none":              {job.Result{Outcome: "lost"}, false, false, job.OutcomeUnknown, nonsense},
		"delivered although refused: a wonder": {job.Done(receipt), false, true, job.OutcomeDelivered, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := judge(c.result, c.begun, c.refused)
			require.Equal(t, c.outcome, got.Outcome)
			require.Equal(t, c.code, got.Code)
			require.Equal(t, got.Class != "", got.Outcome == job.OutcomeFailed)
		})
	}
}

func TestWhatAReceiverSaysIsMadeStorable(t *testing.T) {
	t.Parallel()
	r := job.MayBeDone("ODD\x00", strings.Repeat("é\x00", 1000))
	r.Receipt, r.RetryAfter = &job.Receipt{ID: "a\xffb"}, -time.Second
	got := judge(r, true, false)
	require.LessOrEqual(t, len(got.Detail), job.MaxDetail)
	require.NotContains(t, got.Detail+string(got.Code), "\x00")
	require.Equal(t, "a\uFFFDb", got.Receipt.ID)
	require.Zero(t, got.RetryAfter)
}

func TestGenerationThatBeganOnAnotherChannelIsNotSentOverThisOne(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, r *rig) {
		before := r.kind.Kind
		before.Channel = "smtp"
		r.books.know(before)
		ref := r.books.tried(before, r.spec("a"), job.NotDone(job.ClassTransient, job.CodeReceiverBusy, ""))
		r.books.know(r.kind.Kind)
		r.pass(time.Until(r.books.row(1).WakeAt))
		r.books.announce("greeting", "mail", ref)
		r.settle()
		require.Empty(t, r.performer.began())
		row := r.requireState(1, job.Quarantined, 2)
		require.Equal(t, job.CodeMisconfigured, row.LastCode)
	})
}

func TestAttemptIsASpanOfItsProducersTrace(t *testing.T) {
	t.Parallel()
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	const producer = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	inBubble(t, func(r *rig) { r.options.Tracer = provider }, func(t *testing.T, r *rig) {
		spec := r.spec("a")
		spec.TraceParent = producer
		r.books.enqueue(spec)
		r.books.relay()
		r.settle()
		spans := recorder.Ended()
		require.Len(t, spans, 1)
		require.Equal(t, "0af7651916cd43dd8448eb211c80319c", spans[0].SpanContext().TraceID().String())
		require.Equal(t, "b7ad6b7169203331", spans[0].Parent().SpanID().String())
		require.Equal(t, trace.SpanKindConsumer, spans[0].SpanKind())
		require.Subset(t, spans[0].Attributes(), []attribute.KeyValue{
			attribute.String("duly.kind", "greeting"), attribute.String("duly.key", "a"), attribute.Int("duly.attempt", 1),
			attribute.String("duly.outcome", "delivered"),
		})
		passedOn := r.performer.effects[0].TraceParent
		require.Contains(t, passedOn, spans[0].SpanContext().SpanID().String(), "the receiver is below the attempt")
	})
}

func TestProducersTraceIsPassedOnWhereNothingIsRecorded(t *testing.T) {
	t.Parallel()
	const producer = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	inBubble(t, nil, func(t *testing.T, r *rig) {
		spec := r.spec("a")
		spec.TraceParent = producer
		r.books.enqueue(spec)
		r.books.relay()
		r.put("without a trace")
		r.settle()
		traces := map[string]string{}
		for _, e := range r.performer.effects {
			traces[e.Key] = e.TraceParent
		}
		require.Equal(t, map[string]string{"a": producer, "without a trace": ""}, traces)
	})
}
