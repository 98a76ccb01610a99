package app

import (
	"io"
	"log/slog"
	"time"
)

// NewLogger returns a logger that writes to w: one JSON object a line, or text for
// people. Times are in UTC and durations are written with their unit.
func NewLogger(w io.Writer, level slog.Level, text bool) *slog.Logger {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: readable}
	if text {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}

// Component returns a logger whose lines name the part of the process that wrote
// them.
func Component(log *slog.Logger, name string) *slog.Logger { return log.With("component", name) }

func readable(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindDuration:
		a.Value = slog.StringValue(a.Value.Duration().String())
	case slog.KindTime:
		a.Value = slog.StringValue(a.Value.Time().UTC().Format(time.RFC3339Nano))
	default: // shown as it is
	}
	return a
}
