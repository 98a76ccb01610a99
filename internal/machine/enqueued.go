package machine

import "duly.dev/duly/pkg/job"

// Enqueued is what became of one request.
type Enqueued struct {
	// Job is the job's id: the new one, or the one that has the key already.
	Job int64
	// Created is false where the same request had been accepted before.
	Created bool
	// Replaced: the job has the request's body from now on.
	Replaced bool
	// State is the last state of a job that was removed since; empty otherwise.
	State job.State
	// Refused is why there is no job: a *job.Refusal, or several joined; nil otherwise.
	Refused error
}
