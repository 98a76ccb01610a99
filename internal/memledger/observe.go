package memledger

import (
	"time"

	"duly.dev/duly/internal/machine"
)

// Decision is one decision of the machine that was stored.
type Decision struct {
	// At is the ledger's clock.
	At time.Time
	// Event is what happened to the row Before, and After and Change what came of it.
	Event         machine.Event
	Before, After machine.Row
	Change        machine.Change
}

// Observe sets what is told of every decision that changed or recorded something, in
// their order; nil tells nobody. The function is called with the ledger locked and must
// not call it.
func (l *Ledger) Observe(tell func(Decision)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if tell == nil {
		tell = func(Decision) {}
	}
	l.tellOf = tell
}
