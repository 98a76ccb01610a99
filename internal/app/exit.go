package app

import (
	"errors"

	"duly.dev/duly/pkg/job"
)

// Exit codes of every program.
const (
	// ExitOK: what was asked for was done.
	ExitOK = 0
	// ExitFailed: it was tried and failed, or the answer is "no": a check that found
	// something, a comparison that disagrees.
	ExitFailed = 1
	// ExitUsage: flags, settings or configuration are wrong; nothing was started.
	ExitUsage = 2
	// ExitUnavailable: the ledger or the bus could not be reached in time.
	ExitUnavailable = 3
	// ExitRefused: what was named does not exist, or the state of things forbids
	// what was asked.
	ExitRefused = 4
	// exitSignal plus its number: a signal cut the work short, or a second signal
	// ended the process at once. Loops that a first signal stopped end with ExitOK.
	exitSignal = 128
)

// ErrUnavailable: something that the process needs could not be reached.
var ErrUnavailable = errors.New("unavailable")

// exitError is an error that knows its exit code.
type exitError struct {
	error
	code int
}

// Exit gives an error the code with which the process ends; nil stays nil.
func Exit(code int, err error) error {
	if err == nil {
		return nil
	}
	return exitError{err, code}
}

// ExitCode is the exit code of the process.
func (e exitError) ExitCode() int { return e.code }

// Unwrap returns the error itself.
func (e exitError) Unwrap() error { return e.error }

// ExitCode returns the exit code for what a program ended with: the code that Exit
// gave it, else the one that its sentinel means, else ExitFailed.
func ExitCode(err error) int {
	var coded interface{ ExitCode() int }
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &coded):
		return coded.ExitCode()
	case errors.Is(err, ErrUnavailable):
		return ExitUnavailable
	case errors.Is(err, job.ErrNotFound), errors.Is(err, job.ErrConflict), errors.Is(err, job.ErrRefused):
		return ExitRefused
	default:
		return ExitFailed
	}
}
