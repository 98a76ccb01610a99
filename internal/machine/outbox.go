package machine

import (
	"time"

	"duly.dev/duly/pkg/job"
)

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
	// Age is how old it was when it was read (StandingMarks), by the ledger's clock.
	Age time.Duration
	// Passed is when it had passed every partition; zero while it stands.
	Passed time.Time
}

// JudgeAfter is how long after a mark passed everywhere what it covers is judged: by
// then whoever received it has leased it, or never will.
const JudgeAfter = 60 * time.Second

// DeadTopic is the outbox topic of dead notices; every other topic is a lane.
const DeadTopic = ".dead"

// Page is one page of a topic's outbox, in the order in which it is relayed.
type Page struct {
	// Rows are what is to be announced; none when everything was relayed.
	Rows []OutboxRow
	// Last: nothing that was committed when the pass began is behind this page.
	Last bool
	// Cursor is where the topic stands once the rows were acknowledged.
	Cursor Cursor
}

// Cursor is a place in a topic's outbox. It is the ledger's: loops hand it back as
// they got it.
type Cursor struct {
	// Version is the topic's as it was read; moving the cursor compares it.
	Version int64
	// Pass is the snapshot that the pass reads, as the ledger writes it.
	Pass string
	// XID and ID are the last row of the page.
	XID uint64
	ID  int64
}

// Unsendable is what the broker would not take, set aside so that what is behind
// it flows. It is tried again from Next on.
type Unsendable struct {
	// Outbox is the id of its newest outbox row.
	Outbox int64     `json:"outbox"`
	Topic  string    `json:"topic"`
	Kind   string    `json:"kind"`
	Refs   []job.Ref `json:"refs"`
	Tries  int32     `json:"tries"`
	// Since is when it was first set aside.
	Since time.Time `json:"since"`
	Next  time.Time `json:"next"`
	Error string    `json:"error"`
}
