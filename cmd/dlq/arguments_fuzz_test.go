package main

import (
	"testing"

	"duly.dev/duly/internal/app"
)

// What a person types is an instant, a place or a job, or is refused with what it should be.
func FuzzArguments(f *testing.F) {
	for _, text := range []string{
		"2026-09-30T17:00:00+02:00", "2026-09-30T17:00:00 Europe/Paris", "2026-09-30 17:00 Europe/Paris", "24h", "-1h", "12@2026-09-30T17:00:00Z", "12", "mail/customer/1842", "/", "a/", "", " ", "@",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var at instant
		if err := at.UnmarshalText([]byte(text)); err == nil && at.local != "" && at.zone == "" {
			t.Fatalf("%q has a local time and no zone", text)
		}
		var s since
		_ = s.UnmarshalText([]byte(text)) // any duration is one
		var p, again place
		if p.UnmarshalText([]byte(text)) == nil {
			if err := again.UnmarshalText([]byte(p.String())); err != nil || again.Job != p.Job || !again.At.Equal(p.At) {
				t.Fatalf("place %q is %s, which is %s: %v", text, p, again, err)
			}
		}
		var job app.JobName
		if job.UnmarshalText([]byte(text)) == nil && job.String() != text {
			t.Fatalf("job %q is %s", text, job)
		}
	})
}
