package contact

import "time"

// Instant is one reading of this process's two clocks. The monotonic one does not jump,
// but stands still while the machine is suspended; the wall clock shows that.
type Instant struct {
	// Elapsed is monotonic. Only differences of it mean anything.
	Elapsed time.Duration
	Wall    time.Time
}

var beginning = time.Now()

// Now reads both clocks.
func Now() Instant {
	now := time.Now()
	return Instant{now.Sub(beginning), now.Round(0)}
}

// since is how long ago an earlier reading was, by the clock that says more.
func (i Instant) since(earlier Instant) time.Duration {
	return max(i.Elapsed-earlier.Elapsed, i.Wall.Sub(earlier.Wall).Abs())
}
