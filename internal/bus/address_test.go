package bus_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/bus"
)

func TestURLsOfOneBusHaveOneAddress(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"nats://bus:4222":                               "nats://bus:4222",
		"nats://bus":                                    "nats://bus:4222",
		"tls://BUS:4222":                                "nats://bus:4222",
		"nats://user:p%40ss@bus:4222":                   "nats://bus:4222",
		"nats://b:4222,nats://a:4222":                   "nats://a:4222,b:4222",
		"nats://u:p@b:4222, nats://u:p@a:4222":          "nats://a:4222,b:4222",
		"kafka://b:9093,a":                              "kafka://a:9092,b:9093",
		"kafka://u:p@b:9092,a:9092?tls=true&sasl=plain": "kafka://a:9092,b:9092",
		"kafka://[::1]:9092":                            "kafka://[::1]:9092",
		"kafka://a:9092,a:9092":                         "kafka://a:9092",
	} {
		got, err := bus.Address(url)
		require.NoError(t, err, url)
		require.Equal(t, want, got, url)
	}
}

func TestWhatIsNoBusHasNoAddress(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "bus:4222", "http://bus:80", "nats://", "kafka://a:9092,", "kafka://a:x"} {
		_, err := bus.Address(url)
		require.Error(t, err, url)
		require.NotContains(t, err.Error(), "p%40ss")
	}
}
