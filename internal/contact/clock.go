package contact

import (
	"time"
)

const (
	// maxStep is how far the ledger's clock may move against the monotonic one.
	maxStep = 2 * time.Second
	// driftShare is how far two sound clocks drift apart, as a share of the time gone by.
	driftShare = 0.0005
	// renewAfter is when a reading of the ledger's clock is replaced by the next, even
	// by one that is less exact.
	renewAfter = time.Minute
)

// Clock notices steps of the ledger's clock against this process's monotonic one.
type Clock struct {
	there bool
	// The instant of the ledger's clock at the monotonic zero lies in [low, high]: the
	// clock was read at some moment between the question and its answer.
	low, high time.Time
	read      time.Duration
}

// Observe takes a reading of the ledger's clock, asked for at sent and answered at got,
// and returns how far the clock has stepped since the readings before; 0 when it has
// not, within 2 s.
func (c *Clock) Observe(sent, got Instant, ledger time.Time) (step time.Duration) {
	low, high := ledger.Add(-got.Elapsed), ledger.Add(-sent.Elapsed)
	if c.there {
		allowed := maxStep + time.Duration(driftShare*float64(got.Elapsed-c.read))
		switch {
		case low.After(c.high.Add(allowed)):
			step = low.Sub(c.high)
		case high.Before(c.low.Add(-allowed)):
			step = high.Sub(c.low)
		case high.Sub(low) > c.high.Sub(c.low) && got.Elapsed-c.read < renewAfter:
			return 0 // the reading before was more exact
		}
	}
	c.there, c.low, c.high, c.read = true, low, high, got.Elapsed
	return step
}
