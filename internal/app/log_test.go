package app

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLogLinesAreObjectsWithReadableTimesAndDurations(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	zone := time.FixedZone("east", 2*3600)
	NewLogger(&out, slog.LevelInfo, false).Info("leased", "took", 1500*time.Millisecond, "due", time.Date(2026, 9, 30, 17, 0, 0, 0, zone))
	var line map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &line))
	require.Equal(t, "leased", line["msg"])
	require.Equal(t, "1.5s", line["took"])
	require.Equal(t, "2026-09-30T15:00:00Z", line["due"])
	at, err := time.Parse(time.RFC3339Nano, line["time"].(string))
	require.NoError(t, err)
	require.Equal(t, time.UTC, at.Location())
}
