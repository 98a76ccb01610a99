package strictyaml

import "testing"

// What is read is written as it reads again.
func FuzzUnits(f *testing.F) {
	for _, text := range []string{"7d", "1d12h", "500ms", "-30s", "0", "0s", "1h30m", "65535d", "99999d", "256KiB", "1 MiB", "9223372036854775807", "9GiB", "-1B", "d", "1.5h", "1d-1h", "µs"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := ParseDuration(text); err == nil {
			if again, err := ParseDuration(FormatDuration(d)); err != nil || again != d {
				t.Fatalf("duration %q is %s, which is %s: %v", text, d, again, err)
			}
		}
		var s, again Size
		if s.UnmarshalText([]byte(text)) == nil {
			if err := again.UnmarshalText([]byte(s.String())); err != nil || again != s || s < 0 {
				t.Fatalf("size %q is %s, which is %s: %v", text, s, again, err)
			}
		}
	})
}
