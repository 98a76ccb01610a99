package failpoint

import "testing"

// BenchmarkOff measures a place of a program that is shipped: nothing.
func BenchmarkOff(b *testing.B) {
	if Enabled {
		b.Fatal("this measures what is shipped: run it without the tag")
	}
	for b.Loop() {
		if At(SettleCall) != nil {
			b.Fatal("an error of nothing")
		}
	}
}
