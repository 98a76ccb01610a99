package bus_test

import (
	"strings"
	"testing"

	"duly.dev/duly/internal/bus"
)

// What a bus is called is the same for its own name, and never shows a login.
func FuzzAddress(f *testing.F) {
	for _, url := range []string{
		"nats://bus-1:4222,bus-2", "tls://user:secret@bus", "kafka://user:secret@b1:9093,b2:9094/?tls=true", "nats://[::1]:4222", "nats://[fe80::1%25eth0]",
		"kafka://A,a", "nats://", "http://bus", "nats://a,,b", "nats://a:b@c@d", "kafka://b?x=nats://y",
	} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		name, err := bus.Address(url)
		if err != nil {
			return
		}
		if again, err := bus.Address(name); err != nil || again != name {
			t.Fatalf("%q is %q, and that is %q: %v", url, name, again, err)
		}
		if strings.ContainsAny(name, "@?") {
			t.Fatalf("%q is called %q", url, name)
		}
	})
}
