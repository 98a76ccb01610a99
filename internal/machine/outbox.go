package machine

import (
	"time"

	"duly.dev/duly/pkg/job"
)

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
