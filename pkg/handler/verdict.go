package handler

import (
	"errors"
	"fmt"
	"time"

	"duly.dev/duly/pkg/job"
)

// verdict is an error that says that the effect did not happen.
type verdict struct {
	err   error
	class job.Class
	code  job.Code
	after time.Duration
}

// Error is the text of the error that was given.
func (v *verdict) Error() string { return v.err.Error() }

// Unwrap returns the error that was given.
func (v *verdict) Unwrap() error { return v.err }

// NotDone says that the effect did not happen, and that time may repair it: the job
// is tried again under its kind's policy. The code, at most one, says what went
// wrong: one of job's, or one that the kind declares. NotDone(nil) says it without
// a reason.
func NotDone(err error, code ...job.Code) error {
	return &verdict{err: orReason(err), class: job.ClassTransient, code: first(code)}
}

// Permanent says that the effect did not happen and that the same input would fail
// again: the job is quarantined until a person corrects it.
func Permanent(err error, code ...job.Code) error {
	return &verdict{err: orReason(err), class: job.ClassPermanent, code: first(code)}
}

// RetryAfter says that the effect did not happen and that the receiver asked to be
// left alone for d. A job whose deadline comes first is quarantined at once.
func RetryAfter(err error, d time.Duration, code ...job.Code) error {
	v := &verdict{err: orReason(err), class: job.ClassTransient, code: first(code), after: max(d, 0)}
	if v.code == job.CodeHandlerError {
		v.code = job.CodeThrottled
	}
	return v
}

func first(codes []job.Code) job.Code {
	if len(codes) > 0 {
		return codes[0]
	}
	return job.CodeHandlerError
}

func orReason(err error) error {
	if err == nil {
		return errors.New("the handler gave no reason")
	}
	return err
}

// Verdict is what an error of a handler means, as the result of an attempt. A nil
// error is job.OutcomeDelivered; an error without a verdict is job.OutcomeUnknown.
// Verdicts are found through wrapping; of several the outermost counts.
func Verdict(err error) job.Result {
	var v *verdict
	switch {
	case err == nil:
		return job.Done(nil)
	case errors.As(err, &v):
		r := job.NotDone(v.class, v.code, err.Error())
		r.RetryAfter = v.after
		return r
	}
	return job.MayBeDone(job.CodeHandlerError, fmt.Sprint(err))
}
