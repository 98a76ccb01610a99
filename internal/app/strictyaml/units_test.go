package strictyaml

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestDurationsNeedTheirUnit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"500ms": 500 * time.Millisecond, "30s": 30 * time.Second, "7d": 7 * 24 * time.Hour, "1d12h": 36 * time.Hour,
		"0s": 0, "0d": 0, "1.5h": 90 * time.Minute, "-1d": -24 * time.Hour, "-1d1h": -25 * time.Hour,
	} {
		got, err := ParseDuration(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "0", "30", "d", "1.5d", "1w", "7 d", "--1s", "+1s", "1d-1h", "1d0", "99999999999h", "1h1d", "65535d2000000h", "٣s"} {
		_, err := ParseDuration(text)
		require.Error(t, err, "%q", text)
	}
}

func TestDurationsReadBackAsWritten(t *testing.T) {
	t.Parallel()
	require.Equal(t, "7d", FormatDuration(7*24*time.Hour))
	require.Equal(t, "1h30m", FormatDuration(90*time.Minute))
	require.Equal(t, "30m", FormatDuration(30*time.Minute))
	require.Equal(t, "2h", FormatDuration(2*time.Hour))
	require.Equal(t, "10s", FormatDuration(10*time.Second))
	require.Equal(t, "0s", FormatDuration(0))
	rapid.Check(t, func(t *rapid.T) {
		v := time.Duration(rapid.Int64Range(-1<<62, 1<<62).Draw(t, "duration"))
		back, err := ParseDuration(FormatDuration(v))
		require.NoError(t, err)
		require.Equal(t, v, back)
	})
}

func TestSizesAreBytesOrHaveAUnit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Size{"4096": 4096, "4096B": 4096, "256KiB": 256 << 10, "1 MiB": 1 << 20, "2GiB": 2 << 30, "0": 0} {
		var got Size
		require.NoError(t, got.UnmarshalText([]byte(text)), text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "KiB", "-1", "1.5KiB", "1KB", "1k", "99999999999GiB"} {
		require.Error(t, new(Size).UnmarshalText([]byte(text)), "%q", text)
	}
	require.Equal(t, "256KiB", Size(256<<10).String())
	require.Equal(t, "1000B", Size(1000).String())
}
