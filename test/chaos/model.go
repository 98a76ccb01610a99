package main

import (
	"fmt"

	"github.com/anishathalye/porcupine"

	"duly.dev/duly/pkg/job"
)

// A job as all who have to do with it see it, one after the other: that there is such an
// order, which agrees with when each of them asked and was answered, is what the history of
// a job is checked for. What happens inside (attempts, retries, quarantine) is not seen
// until somebody looks.

// seen is what is known of a job at a point of the order.
type seen struct {
	exists     bool
	generation int32
	// effected: the effect of this generation has happened.
	effected bool
	// requested: a cancellation may take effect.
	requested bool
	phase     phase
}

// phase is how the generation has ended, as far as anybody has seen.
type phase int

const (
	open phase = iota
	isDelivered
	isCancelled
	isQuarantined
)

// jobModel is the order's rules.
var jobModel = porcupine.Model{
	Init: func() any { return seen{generation: 1} },
	Step: func(state, input, _ any) (bool, any) {
		s, r := state.(seen), input.(request)
		fits, after := s.after(r)
		if !fits && r.As == unclear {
			return true, s // it may as well not have happened
		}
		return fits, after
	},
	Equal: func(a, b any) bool { return a == b },
	DescribeOperation: func(input, _ any) string {
		r := input.(request)
		return fmt.Sprintf("%s %s generation %d→%d %s %s", r.Verb, r.As, r.Generation, r.Successor, r.State, r.Why)
	},
	DescribeState: func(state any) string { return fmt.Sprintf("%+v", state) },
}

// after is what a request makes of the job; false where it cannot have been answered so.
func (s seen) after(r request) (bool, seen) {
	switch r.Verb {
	case enqueues:
		if r.As == ok && r.Created == s.exists {
			return false, s
		}
		s.exists = true
		return true, s
	case effects:
		// Once a generation, of the current one alone, and never behind an end.
		fits := s.exists && r.Generation == s.generation && !s.effected && s.phase == open
		s.effected = true
		return fits, s
	case cancels:
		return s.cancelled(r)
	case redrives:
		return s.redriven(r)
	case reads:
		return s.read(r)
	case resolves: // it only tells what happened
	}
	return true, s
}

func (s seen) cancelled(r request) (bool, seen) {
	switch {
	case r.As == failed:
		return true, s // refused, since it is delivered or not there
	case r.As == ok && r.Requested:
		s.requested = true
		return s.exists && s.phase == open, s
	}
	fits := s.exists && !s.effected && (s.phase == open || s.phase == isQuarantined || s.phase == isCancelled)
	s.phase = isCancelled
	return fits, s
}

func (s seen) redriven(r request) (bool, seen) {
	switch {
	case r.As == failed:
		return true, s
	case r.As == ok && r.Again:
		return s.generation >= r.Successor, s
	}
	fits := s.exists && s.generation == r.Generation && !s.effected && (s.phase == open || s.phase == isQuarantined)
	return fits, seen{exists: true, generation: r.Generation + 1}
}

func (s seen) read(r request) (bool, seen) {
	if !s.exists || r.Generation != s.generation {
		return false, s
	}
	switch r.State {
	case job.Delivered:
		fits := s.effected && (s.phase == open || s.phase == isDelivered)
		s.phase = isDelivered
		return fits, s
	case job.Cancelled:
		fits := s.phase == isCancelled || !s.effected && s.requested && (s.phase == open || s.phase == isQuarantined)
		s.phase = isCancelled
		return fits, s
	case job.Quarantined:
		fits := !s.effected && (s.phase == open || s.phase == isQuarantined)
		s.phase = isQuarantined
		return fits, s
	case job.Scheduled, job.Ready, job.Leased, job.Unknown:
	}
	return s.phase == open, s
}
