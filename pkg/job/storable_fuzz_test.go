package job_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"duly.dev/duly/pkg/job"
)

// Whatever came from outside, what is kept of it is text within its bound, and stays as it
// is; and failures of one cause keep one fingerprint.
func FuzzStorable(f *testing.F) {
	f.Add("a\x00b\xff", 4)
	f.Add("äöü", 3)
	f.Add("line\r\nline\x7f", 100)
	f.Add(strings.Repeat("€", 1000), job.MaxDetail)
	f.Add("", 0)
	f.Fuzz(func(t *testing.T, text string, most int) {
		most = max(0, min(most, 1<<16))
		kept := job.Storable(text, most)
		if !utf8.ValidString(kept) || len(kept) > most || strings.ContainsFunc(kept, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
			t.Fatalf("%q is kept as %q", text, kept)
		}
		if again := job.Storable(kept, most); again != kept {
			t.Fatalf("%q is kept as %q, and that as %q", text, kept, again)
		}
		if normal := job.Normalise(text); job.Normalise(normal) != normal {
			t.Fatalf("%q is normalised to %q, and that to %q", text, normal, job.Normalise(normal))
		}
	})
}
