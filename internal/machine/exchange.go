package machine

import (
	"errors"
	"time"

	"duly.dev/duly/pkg/job"
)

// The types of this file are what the loops and a ledger hand each other. They
// live beside Row so that no loop needs to know which ledger it works on.

// Worker is one worker process. Its id is random per process start, never the
// host's name; Label is for people.
type Worker struct {
	ID, Label, Version string
	LeaseTime          time.Duration
}

// LeaseRequest asks to lease every reference of one or more messages of one kind.
type LeaseRequest struct {
	Worker Worker
	Kind   Kind
	Refs   []job.Ref
}

// Grant is one leased attempt: the row as it was leased and what its effect needs.
type Grant struct {
	Row                         Row
	Key, Subject, Period        string
	Destination                 string
	Payload                     []byte
	DeadlineZone, DeadlineLocal string
	TraceParent                 string
}

// EarlyRef is a reference of a retry that came before its wake_at.
type EarlyRef struct {
	Ref job.Ref
	In  time.Duration
}

// Leases is the ledger's answer to a LeaseRequest. Every reference of the request
// is in exactly one of Grants, Early and Stale.
type Leases struct {
	// Now is the ledger's clock when it decided.
	Now    time.Time
	Grants []Grant
	Early  []EarlyRef
	// Stale references cannot be leased and never will be: they are acknowledged.
	Stale []job.Ref
}

// Attempt identifies a lease: who holds what under which fence.
type Attempt struct {
	Job        int64
	Generation int32
	Fence      int64
}

// OutboxRow is one row of the outbox, as the relay and the judge read it.
type OutboxRow struct {
	ID          int64
	Kind        string
	Refs        []job.Ref
	At          time.Time // delayed until; zero is now
	TraceParent string
}

// Notice is what the dead topic says about a generation that needs a person. It
// holds no payload and no destination.
type Notice struct {
	Kind         string     `json:"kind"`
	Key          string     `json:"key"`
	Generation   int32      `json:"generation"`
	Subject      string     `json:"subject,omitempty"`
	Period       string     `json:"period,omitempty"`
	State        job.State  `json:"state"`
	Reason       job.Reason `json:"reason,omitempty"`
	LastClass    job.Class  `json:"last_class,omitempty"`
	LastCode     job.Code   `json:"last_code,omitempty"`
	Attempts     int32      `json:"attempts"`
	Created      time.Time  `json:"created"`
	FirstAttempt time.Time  `json:"first_attempt,omitzero"`
	LastAttempt  time.Time  `json:"last_attempt,omitzero"`
}

// Mark is a mark as the ledger keeps it.
type Mark struct {
	Number     int64
	Lane       string
	Partitions []int32
	Issued     time.Time
	// Passed is when it had passed every partition; zero while it stands.
	Passed time.Time
}

// DeadTopic is the outbox topic of dead notices; every other topic is a lane.
const DeadTopic = ".dead"

// Errors that every ledger answers with and loops act on.
var (
	// ErrWorkerEnded: the worker's row was ended; nothing of it may begin any more.
	// It drops everything and registers anew.
	ErrWorkerEnded = errors.New("the worker was ended in the ledger")
	// ErrLostTopic: another dispatcher holds the topic, or has moved its cursor.
	ErrLostTopic = errors.New("the topic is held by another dispatcher")
	// ErrUnclear: a commit was sent and its reply was lost. It is never sent again;
	// the caller reads back what became of it.
	ErrUnclear = errors.New("nobody knows whether the commit happened")
	// ErrAway: the ledger, or the way to it, takes nothing from anybody now. What was
	// asked is not to blame, and may be asked again as it was.
	ErrAway = errors.New("the ledger is away")
)
