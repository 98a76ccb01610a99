package app

import (
	"context"
	"fmt"
	"os"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// NewTracing returns the tracer provider of a process and its teardown. Spans are
// exported by OTLP over HTTP when OTEL_EXPORTER_OTLP_ENDPOINT or
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set; else, and with OTEL_SDK_DISABLED=true or
// OTEL_TRACES_EXPORTER=none, nothing is recorded. The other standard OTEL_*
// variables (headers, sampler, resource attributes, batch sizes) apply. A collector
// that is down costs spans, never work.
func NewTracing(ctx context.Context, p *Process) (trace.TracerProvider, func(context.Context) error, error) {
	if !tracingWanted(os.Getenv) {
		return noop.NewTracerProvider(), func(context.Context) error { return nil }, nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("starting the OTLP exporter of traces: %w", err)
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", p.Name), attribute.String("service.version", p.Version)),
		resource.WithHost(), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, nil, fmt.Errorf("describing the process to the collector of traces (OTEL_RESOURCE_ATTRIBUTES): %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	return provider, provider.Shutdown, nil
}

// tracingWanted reads the standard variables.
func tracingWanted(env func(string) string) bool {
	if strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") || env("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return env("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}
