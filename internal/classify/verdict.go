package classify

import "duly.dev/duly/pkg/job"

// Version names the default tables of this package. It is recorded with every
// attempt, so that a change of rules can be told from a change of receivers; it is
// raised with every change of a verdict.
const Version = "default-1"

// Verdict is what a rule says about an answer, certainty first.
type Verdict struct {
	// Certainty says whether the effect happened. It is delivered, failed (it
	// provably did not happen) or unknown.
	Certainty job.Outcome
	// Class is set if, and only if, Certainty is failed.
	Class job.Class
	// Code says what went wrong; empty when delivered.
	Code job.Code
}

// Result makes the verdict the result of an attempt. The detail is dropped from a
// delivery, which needs none.
func (v Verdict) Result(detail string, receipt *job.Receipt) job.Result {
	r := job.Result{Outcome: v.Certainty, Class: v.Class, Code: v.Code, Receipt: receipt}
	if v.Certainty != job.OutcomeDelivered {
		r.Detail = detail
	}
	return r
}

// happened, mayHaveHappened, later and never build the four kinds of verdict.
func happened() Verdict { return Verdict{Certainty: job.OutcomeDelivered} }

func mayHaveHappened(code job.Code) Verdict {
	return Verdict{Certainty: job.OutcomeUnknown, Code: code}
}

func later(code job.Code) Verdict {
	return Verdict{Certainty: job.OutcomeFailed, Class: job.ClassTransient, Code: code}
}

func never(code job.Code) Verdict {
	return Verdict{Certainty: job.OutcomeFailed, Class: job.ClassPermanent, Code: code}
}
