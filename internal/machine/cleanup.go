package machine

import (
	"fmt"
	"math"
	"time"

	"duly.dev/duly/pkg/job"
)

// The types and rules of this file are about the cleanup gate: when rows that were
// generated for a job may be removed. A cleanup decides nothing about its job, so that it
// is no part of a row. There is one of a job at most, since the job is its operation key.

// CleanupWhen is how a delivery must have ended to be cleaned up behind.
type CleanupWhen string

const (
	// CleanupDelivered: delivered, whatever says so.
	CleanupDelivered CleanupWhen = "delivered"
	// CleanupReceipt: delivered on a receipt; a delivery without one counts as ended
	// otherwise.
	CleanupReceipt CleanupWhen = "receipt"
)

// CleanupRule is the cleanup gate of a kind. How it is cleaned up is as the configuration
// says at the time, so that what is due is taken by whatever means the kind has then.
type CleanupRule struct {
	// By is who removes the rows: a statement in the ledger's database (MeansSQL), or a
	// function in a worker of the user's own (MeansGo).
	By Means `json:"by"`
	// When says which deliveries are accepted. Default delivered.
	When CleanupWhen `json:"when"`
	// From is how long after an accepted delivery. Default 0.
	From time.Duration `json:"from,omitempty"`
	// After is how long after any other end. Default 30 d.
	After time.Duration `json:"after"`
	// MaxTries is after how many tries that failed it waits for a person. Default 20.
	MaxTries int32 `json:"max_tries"`
	// MaxAge is how long after the first of them. Default 7 d.
	MaxAge time.Duration `json:"max_age"`
}

// DefaultCleanup is the gate of a kind that asks for one and says no more.
func DefaultCleanup() CleanupRule {
	return CleanupRule{By: MeansSQL, When: CleanupDelivered, After: 30 * 24 * time.Hour, MaxTries: 20, MaxAge: 7 * 24 * time.Hour}
}

// Over reports whether the generation has come to an end that nothing leaves by itself,
// and is its job's current one: only then may its generated rows ever be removed. An
// unknown outcome is over once it is closed.
func (r Row) Over() bool {
	switch r.State {
	case job.Delivered, job.Quarantined, job.Cancelled:
		return r.Current()
	case job.Unknown:
		return r.Current() && r.Closed
	case job.Scheduled, job.Ready, job.Leased:
	}
	return false
}

// Cleanup is the cleanup of a job as a ledger keeps it; the zero Cleanup is none.
type Cleanup struct {
	// Generation is the one behind which it is cleaned up.
	Generation int32
	By         Means
	// Accepted: it was delivered as the kind's rule asks; else it ended otherwise.
	Accepted bool
	// DueAt is when the gate opens.
	DueAt time.Time
	// NextAt is when it is tried next; zero where it is done, was given up, or waits for a
	// person.
	NextAt time.Time
	// Tries counts how often it was tried, since a person last asked for it.
	Tries int32
	// FailingSince is the first failure of these, and FailedAt the newest of all, of which
	// Error says why.
	FailingSince, FailedAt time.Time
	Error                  string
	// ParkedAt is since when it waits for a person; zero where it does not.
	ParkedAt time.Time
	// DoneAt is when it was done; zero before.
	DoneAt time.Time
	// GivenUpAt is since when nobody tries it any more, as a person decided.
	GivenUpAt time.Time
	// Rows is how many rows the statement said that it changed.
	Rows int64
}

// BeginCleanup is the cleanup behind a row that has just become as it is, with or without
// a receipt, at the instant now; none where its kind has no gate or it is not over.
func (r Row) BeginCleanup(receipt bool, now time.Time) Cleanup {
	rule := r.Kind.Cleanup
	if rule == nil || !r.Over() {
		return Cleanup{}
	}
	c := Cleanup{Generation: r.Generation, By: rule.By, Accepted: r.State == job.Delivered && (receipt || rule.When != CleanupReceipt)}
	c.DueAt = now.Add(rule.After)
	if c.Accepted {
		c.DueAt = now.Add(rule.From)
	}
	c.NextAt = c.DueAt
	return c
}

// Begun reports whether rows may be gone already, so that the job is not sent again
// unless it is forced: a statement did it or did nothing, a function may have done a part.
func (c Cleanup) Begun() bool {
	return !c.DoneAt.IsZero() || c.By == MeansGo && (c.Tries > 0 || !c.FailedAt.IsZero())
}

// TakenBy is what a cleanup is said to be done by, once it is taken by these means. Where a
// function has begun it, that remains so, whoever is the next: it may have done a part.
func (c Cleanup) TakenBy(by Means) Means {
	if c.By == MeansGo && c.Begun() {
		return MeansGo
	}
	return by
}

// CleanupTask is a due cleanup that somebody took.
type CleanupTask struct {
	Job                        int64
	Generation                 int32
	Kind, Key, Subject, Period string
	// State is how the job ended.
	State job.State
	// Tries is how often it was tried, this time included.
	Tries int32
	// FailingSince is the first failure since a person last asked for it; zero before.
	FailingSince time.Time
}

// CleanupResult is what came of a task.
type CleanupResult struct {
	CleanupTask

	// Error says in a short line why it failed, without anything private; empty where it
	// is done.
	Error string
	// Rows is how many rows a statement said that it changed.
	Rows int64
}

// CleanupOutcome is what a ledger made of a result. The set is closed.
type CleanupOutcome string

const (
	// CleanupDone: it is done, for good.
	CleanupDone CleanupOutcome = "done"
	// CleanupFailed: it is tried again later.
	CleanupFailed CleanupOutcome = "failed"
	// CleanupParked: it failed, and waits for a person now.
	CleanupParked CleanupOutcome = "parked"
	// CleanupStale: somebody else had it meanwhile, or it was retired.
	CleanupStale CleanupOutcome = "stale"
)

// NextCleanup is when a cleanup that failed at the instant now is tried again, after the
// delays of the kind's policy; zero where it waits for a person.
func (k Kind) NextCleanup(t CleanupTask, now time.Time) time.Time {
	rule := k.Cleanup
	if rule == nil || t.Tries >= rule.MaxTries || !t.FailingSince.IsZero() && now.Sub(t.FailingSince) >= rule.MaxAge {
		return time.Time{}
	}
	r := Row{Job: t.Job, Generation: t.Generation}
	return now.Add(k.Policy.Delay(min(t.Tries, math.MaxInt32-1), r.chanceOf(-t.Tries-1))).Truncate(time.Microsecond)
}

// Settled reports whether nobody tries it any more, so that its job need not be kept for
// it: it is done, or was given up.
func (c Cleanup) Settled() bool { return !c.DoneAt.IsZero() || !c.GivenUpAt.IsZero() }

// CleanupRetry is a person's decision to try a cleanup again that failed or was given up.
type CleanupRetry struct{ Kind, Key, Actor, Reason string }

// CleanupGiveUp is a person's decision that a cleanup is not tried any more: what was
// generated stays, or is removed by other means. Reason is required.
type CleanupGiveUp struct{ Kind, Key, Actor, Reason string }

// CleanupList asks for cleanups that failed. Zero fields do not filter.
type CleanupList struct {
	Kind string
	// Parked leaves out those that are tried again by themselves.
	Parked bool
	// Limit is the most; 0 means DefaultListLimit.
	Limit int
}

// CleanupEntry is a cleanup that failed, and is not done.
type CleanupEntry struct {
	Job        int64     `json:"job"`
	Kind       string    `json:"kind"`
	Key        string    `json:"key"`
	Generation int32     `json:"generation"`
	State      job.State `json:"state"`
	By         Means     `json:"by"`
	DueAt      time.Time `json:"due_at"`
	Tries      int32     `json:"tries"`
	FailedAt   time.Time `json:"failed_at"`
	Error      string    `json:"error"`
	// NextAt is when it is tried next, ParkedAt since when it waits for a person.
	NextAt   time.Time `json:"next_at,omitzero"`
	ParkedAt time.Time `json:"parked_at,omitzero"`
}

// WaitingCleanups are the cleanups of a kind that are not done.
type WaitingCleanups struct {
	Kind  string
	Count int64
}

// String is one line for a person who reads the kind's configuration.
func (w WaitingCleanups) String() string {
	return fmt.Sprintf("%d cleanups wait behind jobs of kind %s, which has no cleanup any more: nobody does them, and their jobs are kept; put kinds.%s.cleanup back until they are done, or give them up (dlq cleanup give-up)", w.Count, w.Kind, w.Kind)
}
