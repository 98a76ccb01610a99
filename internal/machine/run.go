package machine

import (
	"errors"
	"time"

	"duly.dev/duly/pkg/job"
)

// RunState says how far a run has come.
type RunState string

// The states of a run.
const (
	// RunOpen: its selection is still to be frozen; there is no job of it yet.
	RunOpen RunState = "open"
	// RunFrozen: it has its members, for good.
	RunFrozen RunState = "frozen"
)

// RunCause says why a run was opened.
type RunCause string

// The causes of a run.
const (
	// RunFired: its occurrence came.
	RunFired RunCause = "fired"
	// RunLate: its occurrence had been missed, and was caught up.
	RunLate RunCause = "late"
	// RunManual: a person asked for it.
	RunManual RunCause = "manual"
)

// Run is one occurrence of a schedule for one period: a frozen selection of recipients,
// one job each.
type Run struct {
	ID       int64  `json:"id"`
	Schedule string `json:"schedule"`
	Period   string `json:"period"`
	Kind     string `json:"kind"`
	// At is its occurrence, Local the wall time that this means, and Zone where.
	At    time.Time `json:"at"`
	Local string    `json:"local"`
	Zone  string    `json:"zone"`
	Cause RunCause  `json:"cause"`
	// Actor is who opened it.
	Actor   string    `json:"actor"`
	Created time.Time `json:"created"`
	State   RunState  `json:"state"`
	// Tries counts the freezes that failed, Error is why the last one did, and Next when it
	// is tried again.
	Tries int       `json:"tries"`
	Error string    `json:"error,omitempty"`
	Next  time.Time `json:"next"`
	// Frozen is when the selection was read. Selected are its rows, of which Refused became
	// no member; of the members, Linked are jobs that existed before.
	Frozen   time.Time `json:"frozen,omitzero"`
	Selected int64     `json:"selected"`
	Refused  int64     `json:"refused"`
	Linked   int64     `json:"linked"`
	// Digest is the SHA-256 of the members' key hashes in the order of the selection, in hex.
	Digest string `json:"digest,omitempty"`
	// ZoneData is the release of the zone data by which the due times and deadlines of its
	// jobs were resolved, when it was frozen.
	ZoneData string `json:"zone_data,omitempty"`
	// Finished is when no member was pending any more, the first time.
	Finished time.Time `json:"finished,omitzero"`
}

// Expected is how many members the run has: Selected = Refused + Expected.
func (r Run) Expected() int64 { return r.Selected - r.Refused }

// RunCounts are a run's members by the state of their newest generation, each once.
type RunCounts map[job.State]int64

// Pending counts members that have not ended.
func (c RunCounts) Pending() (n int64) {
	for state, members := range c {
		if state.Pending() {
			n += members
		}
	}
	return n
}

// All counts all members. It is always Expected: the completeness equation of a run.
func (c RunCounts) All() (n int64) {
	for _, members := range c {
		n += members
	}
	return n
}

// Opening asks for a run.
type Opening struct {
	Period      string
	At          time.Time
	Local, Zone string
	Cause       RunCause
	Actor       string
}

// OccurrenceOutcome says what became of an occurrence.
type OccurrenceOutcome string

// The outcomes of an occurrence.
const (
	OccurrenceFired   OccurrenceOutcome = "fired"
	OccurrenceLate    OccurrenceOutcome = "late"
	OccurrenceSkipped OccurrenceOutcome = "skipped"
	OccurrenceMissed  OccurrenceOutcome = "missed"
)

// Occurrence is what the ledger keeps of one occurrence, or of many in a row that were
// missed or skipped.
type Occurrence struct {
	Schedule string            `json:"schedule"`
	At       time.Time         `json:"at"`
	Outcome  OccurrenceOutcome `json:"outcome"`
	// Why is its reason, in words; empty where it fired in time.
	Why string `json:"why,omitempty"`
	// Count is 1, or how many there were from At until Last.
	Count int64     `json:"count"`
	Last  time.Time `json:"last"`
	// Period is what it is called, the first of many; LastPeriod the last of many.
	Period     string `json:"period,omitempty"`
	LastPeriod string `json:"last_period,omitempty"`
	// Run is the run of one that fired.
	Run int64 `json:"run,omitempty"`
	// Recorded is when this was decided.
	Recorded time.Time `json:"recorded"`
}

// Firing is what is to be done with a schedule: runs to open, and occurrences that have
// none. Through is the instant up to which everything is decided.
type Firing struct {
	Open    []Opening
	Without []Occurrence
	Through time.Time
}

// Empty reports whether nothing is to be done.
func (f Firing) Empty() bool { return len(f.Open) == 0 && len(f.Without) == 0 }

// Columns are one row of a selection: the value of a column as text, false where it is
// null or there is no such column.
type Columns func(name string) (text string, ok bool)

// Recipient is what a row of a selection becomes: a request for a job, or the reason why
// it cannot be one.
type Recipient struct {
	Spec    job.Spec
	Refused *job.Refusal
}

// RefusedRow is a row of a selection that became no member, with its reason. Nothing
// private is kept of it.
type RefusedRow struct {
	// Row is its number in the selection, from 1.
	Row     int64    `json:"row"`
	Key     string   `json:"key,omitempty"`
	Subject string   `json:"subject,omitempty"`
	Field   string   `json:"field"`
	Rule    job.Rule `json:"rule"`
	More    string   `json:"more,omitempty"`
}

// Moment is what a decision about a schedule starts from.
type Moment struct {
	// Since is the instant up to which everything is decided, Now the ledger's clock.
	Since, Now time.Time
	// Running says whether some run of the schedule is not over whose occurrence has come.
	Running bool
}

// Fired is what a decision came to.
type Fired struct {
	// Opened are the runs that were opened, in order of their occurrences.
	Opened []Run
	// Taken counts occurrences whose period had a run already.
	Taken int
}

// Selection is what a run is frozen from.
type Selection struct {
	// Query is the user's own SELECT, and Source the name of the database that it is
	// asked of; empty is the ledger's own.
	Query, Source string
	// Recipient makes a request of each row, or says why it is none. The requests are of
	// the run's kind, and valid.
	Recipient func(Columns) Recipient
	// ZoneData is the release of the zone data by which Recipient resolves wall times.
	ZoneData string
	// Progress is called after each batch with the rows read so far. Optional.
	Progress func(rows int64)
}

// ErrSelection: a selection could not be read, or can be nobody's. The error says why in
// the words of the database.
var ErrSelection = errors.New("the selection")

// RunFilter says which runs are meant; empty fields mean all.
type RunFilter struct {
	Schedule, Period string
	// Before is the id of the last run of the page before; 0 begins with the newest.
	Before int64
	// Limit is the most runs; at most 1000, and 100 where it is 0.
	Limit int
}

// RunFigures are what metrics show of the runs of a schedule that are not finished.
type RunFigures struct {
	Schedule string
	// Open counts runs that wait for their freeze, Failed those of them whose freeze has
	// failed, and Oldest is how long the first occurrence of them is past.
	Open   int64
	Oldest time.Duration
	Failed int64
	// Unfinished counts frozen runs with pending members.
	Unfinished int64
}
