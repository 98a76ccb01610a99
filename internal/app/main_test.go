package app

import (
	"log/slog"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quiet is a logger for tests that do not look at the log.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
