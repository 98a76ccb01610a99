//go:build failpoints

package failpoint

import (
	"errors"
	"fmt"
	"os"
	"strconv"
)

// Enabled reports whether this program was built with failpoints.
const Enabled = true

// The environment that a program built with failpoints reads when it starts.
const (
	variable     = "DULY_FAILPOINTS"
	seedVariable = "DULY_FAILPOINTS_SEED"
	logVariable  = "DULY_FAILPOINTS_LOG"
)

// active is the engine of this process.
var active = fromEnvironment()

// fromEnvironment makes the engine. A program that was asked for faults which it cannot
// bring about must not run as if there were none.
func fromEnvironment() *Engine {
	e, err := environment()
	if err != nil {
		panic(err)
	}
	return e
}

func environment() (*Engine, error) {
	rules, err := Parse(os.Getenv(variable))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", variable, err)
	}
	seed := uint64(1)
	if text := os.Getenv(seedVariable); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			return nil, fmt.Errorf("%s: %w", seedVariable, err)
		}
	}
	var log *Log
	if path := os.Getenv(logVariable); path != "" {
		if log, err = OpenLog(path); err != nil {
			return nil, err
		}
	}
	if len(rules) > 0 && log == nil {
		return nil, errors.New("faults are asked for and nothing would say which happened: set " + logVariable)
	}
	return NewEngine(rules, seed, log), nil
}

// At passes a place where an error can be returned.
func At(p Place) error { return active.At(p) }

// Pass passes a place where none can.
func Pass(p Place) { _ = active.At(p) }
