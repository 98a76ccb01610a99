package importer_test

import (
	"encoding/csv"
	"strings"
	"testing"

	"duly.dev/duly/internal/importer"
)

// Whatever stands where a time, a deadline and a zone should, the row is a job with an
// instant or is refused, and its neighbour is taken.
func FuzzTimes(f *testing.F) {
	f.Add("2026-09-30T17:00:00+02:00", "2026-10-01 09:00", "Europe/Paris")
	f.Add("2026-03-29T02:30:00", "", "Europe/Berlin")
	f.Add("tomorrow", "5 PM", "Mars/X")
	f.Add("", "0000-00-00", "")
	f.Add("9999-12-31T23:59:59Z", "2200-01-01T00:00:00Z", "Local")
	f.Fuzz(func(t *testing.T, due, deadline, zone string) {
		var text strings.Builder
		w := csv.NewWriter(&text)
		for _, row := range [][]string{{"kind", "key", "due", "deadline", "zone", "payload"}, {"mail", "a", due, deadline, zone, "{}"}, {"mail", "last", "", "", "", "{}"}} {
			if err := w.Write(row); err != nil {
				t.Fatal(err)
			}
		}
		w.Flush()
		got, err := tryText(importer.CSV, text.String())
		if err != nil {
			t.Fatal(err)
		}
		if got.Rows != 2 || !got.Balanced() || got.Jobs < 1 {
			t.Fatalf("%q %q %q: %+v", due, deadline, zone, got.Counts)
		}
		for _, s := range got.door.jobs {
			if s.Key == "a" && due == "" != s.Due.IsZero() {
				t.Fatalf("%q is due at %s", due, s.Due)
			}
		}
	})
}
