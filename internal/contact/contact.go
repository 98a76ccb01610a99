package contact

import (
	"sync"
	"time"
)

// Contact measures for how long a loop has been in unbroken contact with the ledger.
// It is broken by a failure, and by a gap between two successes: whoever was away for
// long cannot know what happened meanwhile. The zero Contact allows no gap.
type Contact struct {
	// Gap is the longest time between two successes that does not break the contact.
	Gap time.Duration

	mu          sync.Mutex
	there       bool
	began, last Instant
}

// Seen notes a call that was answered just now, and reports whether the contact began
// with it.
func (c *Contact) Seen(now Instant) (began bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if began = !c.there || now.since(c.last) > c.Gap; began {
		c.there, c.began = true, now
	}
	c.last = now
	return began
}

// Lost notes a failure.
func (c *Contact) Lost() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.there = false
}

// Unbroken is for how long there has been contact; 0 when it is broken.
func (c *Contact) Unbroken(now Instant) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.there || now.since(c.last) > c.Gap {
		return 0
	}
	return now.Elapsed - c.began.Elapsed
}
