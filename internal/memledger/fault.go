package memledger

import "errors"

// Fault is what goes wrong with a call.
type Fault int

const (
	// None: nothing.
	None Fault = iota
	// Fail: the call fails, and changes nothing.
	Fail
	// LoseReply: the call commits, and its caller learns only that nobody knows.
	LoseReply
	// CommitLater: its caller learns that nobody knows, and the call is decided and
	// commits at the next Land.
	CommitLater
)

// ErrFault is what a call fails with that a fault stopped.
var ErrFault = errors.New("the ledger could not be reached")

// Faults sets what decides which calls fail, by the name of the method; nil stops all
// faults. The function is called with the ledger locked and must not call it.
func (l *Ledger) Faults(decide func(method string) Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if decide == nil {
		decide = func(string) Fault { return None }
	}
	l.fault = decide
}

// Land commits what CommitLater put off, in order, and returns how many calls it were.
func (l *Ledger) Land() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	landed := l.later
	l.later = nil
	for _, change := range landed {
		change()
	}
	return len(landed)
}
