package machine

import (
	"time"

	"duly.dev/duly/pkg/job"
)

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
	Row                  Row
	Key, Subject, Period string
	Destination          string
	Payload              []byte
	// Bound is where an attempt of the generation went that may have happened; zero where
	// none may have, or none was bound.
	Bound                       Bound
	DeadlineZone, DeadlineLocal string
	TraceParent                 string
}

// EarlyRef is a reference to ask about again after a while: of a retry that came before
// its wake_at, or of a row that somebody else has locked.
type EarlyRef struct {
	Ref job.Ref
	In  time.Duration
	// Locked: somebody else has locked its row.
	Locked bool
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
