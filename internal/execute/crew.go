package execute

import "sync"

// crew are the goroutines of the attempts that run: each has one to itself until it ends.
// Attempts come in batches and many end at once, so a goroutine whose attempt has ended
// takes one that waits for its own, instead of a new one being made for each. None waits
// for another's end: while one waits, a goroutine is on its way that has nothing else to
// do.
type crew struct {
	perform func(*attempt)

	mu      sync.Mutex
	waiting []*attempt
	coming  bool // a goroutine was started that has taken nothing yet
}

// start performs the attempts.
func (c *crew) start(attempts []*attempt) {
	if len(attempts) == 0 {
		return
	}
	c.mu.Lock()
	c.waiting = append(c.waiting, attempts...)
	more := !c.coming
	c.coming = true
	c.mu.Unlock()
	if more {
		go c.run()
	}
}

// run performs attempts until none waits. A handler that ends its goroutine ends this
// with it.
func (c *crew) run() {
	for first := true; ; first = false {
		a, more := c.next(first)
		if more {
			go c.run()
		}
		if a == nil {
			return
		}
		c.perform(a)
	}
}

// next takes an attempt, nil where none waits, and says whether a goroutine is to be
// started for those behind it.
func (c *crew) next(first bool) (a *attempt, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if first {
		c.coming = false
	}
	if len(c.waiting) == 0 {
		return nil, false
	}
	a, c.waiting[0] = c.waiting[0], nil
	if c.waiting = c.waiting[1:]; len(c.waiting) == 0 {
		c.waiting = nil
	}
	more = len(c.waiting) > 0 && !c.coming
	c.coming = c.coming || more
	return a, more
}
