package httpchan

import (
	"net/url"
	"strings"
	"testing"

	"duly.dev/duly/internal/channel"
)

// A destination that is taken can be requested, carries no login, and is no address that
// the policy forbids.
func FuzzDestination(f *testing.F) {
	for _, destination := range []string{
		"https://example.com/hook?x=1", "http://127.0.0.1/", "http://[::1]:80/", "https://user:secret@example.com", "https://example.com:0", "http://0x7f.1/",
		"http://example.com#f", "https://exämple.com/ü", "//example.com", "http://10.0.0.1.", "http://[::ffff:10.0.0.1]", "http://\x00", "https://a..b/",
	} {
		f.Add(destination)
	}
	checker, err := NewChecker(Config{})
	if err != nil {
		f.Fatal(err)
	}
	c, err := New(Config{}, 0)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, destination string) {
		if checker.Check(destination, nil) != nil {
			return
		}
		u, err := url.Parse(destination)
		if err != nil || u.User != nil || u.Hostname() == "" || checker.forbidden(u) != nil {
			t.Fatalf("%q is taken: %v", destination, err)
		}
		if _, err := c.request(t.Context(), channel.Effect{Destination: destination, Payload: []byte("{}"), EffectKey: "k", Kind: "kind"}); err != nil {
			t.Fatalf("%q is taken and cannot be requested: %v", destination, err)
		}
	})
}

// Whatever a job is called, the address at which its effect is asked about keeps its shape:
// no value becomes another part of it.
func FuzzLookupAddress(f *testing.F) {
	f.Add("kind/a key:1:http", "customer", "2026-W42", "https://receiver.example.com/path")
	f.Add("../..", ".", "?a=b&c#d", "http://h:8080/x")
	f.Add("%2F%00", "\xff", "a/b", "https://[::1]/")
	f.Add("", "s", "p", "ftp://x")
	address, err := newLookupURL("{{.Origin}}/v1/{{.EffectKey}}/of/{{.Subject}}?period={{.Period}}")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, key, subject, period, destination string) {
		u, err := address.of(channel.Inquiry{EffectKey: key, Subject: subject, Period: period, Destination: destination})
		if err != nil {
			return
		}
		parts := strings.Split(u.EscapedPath(), "/")
		if len(parts) != 5 || parts[1] != "v1" || parts[3] != "of" || u.User != nil || u.Fragment != "" || len(u.Query()) != 1 {
			t.Fatalf("%q %q %q makes %s", key, subject, period, u)
		}
		if got, err := url.PathUnescape(parts[2]); err != nil || got != key {
			t.Fatalf("the key %q is %q in %s", key, got, u)
		}
		if got := u.Query().Get("period"); got != period {
			t.Fatalf("the period %q is %q in %s", period, got, u)
		}
	})
}
