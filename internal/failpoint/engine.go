package failpoint

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Engine acts at places as its rules say. It is safe for concurrent use.
type Engine struct {
	rules []Rule
	seed  uint64
	known map[Place]Info
	log   *Log
	kill  func()

	mu     sync.Mutex
	passes map[Place]int
}

// NewEngine makes an engine. log takes what fires; nil keeps no record.
func NewEngine(rules []Rule, seed uint64, log *Log) *Engine {
	return &Engine{rules: rules, seed: seed, known: infos(), log: log, kill: killed, passes: make(map[Place]int)}
}

// killed ends the process as a SIGKILL does, and never returns.
func killed() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(fmt.Sprintf("failpoint: the process cannot kill itself: %v", err))
	}
	select {}
}

// At passes the place, and acts if a rule says so. It returns an *Error where the act is
// Fail or Lose.
func (e *Engine) At(p Place) error {
	if len(e.rules) == 0 {
		return nil
	}
	f, pause := e.next(p)
	if f.Act == "" {
		return nil
	}
	if err := e.log.write(f); err != nil { // nobody could tell a fault from a defect
		panic(err)
	}
	switch f.Act {
	case Crash:
		e.kill()
	case Pause:
		<-time.After(pause)
	default: // Fail or Lose
		return &Error{Place: p, Act: f.Act}
	}
	return nil
}

// next counts the pass and finds the first rule that fires.
func (e *Engine) next(p Place) (Firing, time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.passes[p]++
	n := e.passes[p]
	for _, r := range e.rules {
		if act := r.at(e.seed, e.known[p], n); act != "" {
			return Firing{Place: p, Act: act, Rule: r.Text, Pass: n}, r.pause
		}
	}
	return Firing{}, 0
}

// ErrInjected is what every error of a failpoint is.
var ErrInjected = errors.New("a fault was injected")

// Error is the error of a place. To whoever asks it is one of the network: it speaks of
// the way, not of what was sent.
type Error struct {
	Place Place
	Act   Act
}

// Error names the place.
func (e *Error) Error() string {
	return fmt.Sprintf("failpoint %s: %s: %v", e.Place, e.Act, ErrInjected)
}

// Unwrap makes it an ErrInjected.
func (e *Error) Unwrap() error { return ErrInjected }

// Timeout and Temporary make it a net.Error.
func (e *Error) Timeout() bool { return false }

// Temporary is true: the network may be there again.
func (e *Error) Temporary() bool { return true }
