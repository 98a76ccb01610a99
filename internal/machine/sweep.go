package machine

import (
	"time"

	"duly.dev/duly/pkg/job"
)

// Position is a place in the order in which due generations are promoted. The zero
// Position is the front.
type Position struct {
	At  time.Time
	Job int64
}

// Promotion is what one look at a stretch of the due generations came to.
type Promotion struct {
	// Promoted counts what became ready, by what it had waited for. A retry among them
	// is one whose delayed emission the bus lost.
	Promoted map[job.Waiting]int
	// Ended counts what had expired instead.
	Ended Tally
	// Delay is how long the one that waited longest was due.
	Delay time.Duration
	// Next is behind the stretch.
	Next Position
	// More says that there is more behind it.
	More bool
}

// Tally counts generations that a sweep ended, by the state that they ended in and,
// where there is one, the reason.
type Tally map[Ending]int

// Ending is how a sweep ended a generation or a lease.
type Ending struct {
	State  job.State
	Reason job.Reason
}

// Add counts a row as it is now.
func (t Tally) Add(r Row) { t[Ending{r.State, r.Reason}]++ }

// Total is how many were counted.
func (t Tally) Total() int {
	n := 0
	for _, c := range t {
		n += c
	}
	return n
}

// Beat is the row of a worker that was not ended, as a sweeper sees it.
type Beat struct {
	Worker, Label, Version string
	// Count is the number of heartbeats; only its change says that the worker lives.
	Count     int64
	LeaseTime time.Duration
}

// LeaseSweep is what a look at a stretch of leases came to.
type LeaseSweep struct {
	// Ended counts the leases that were ended, by what became of their generations.
	Ended Tally
	// Left is how many were found and left, since another transaction had locked them.
	Left int
	// Next is behind the stretch, and More says that there is more behind it.
	Next time.Time
	More bool
}

// Finding is what a patrol found that no index finds.
type Finding string

const (
	// FoundLease: a lease whose end nobody noticed: its worker ended or missing, its
	// lease row gone, or its time over.
	FoundLease Finding = "lease"
	// FoundExpired: a generation that had expired, by a policy that changed or a commit
	// that came late.
	FoundExpired Finding = "expired"
	// FoundOpen: an unknown outcome that was still asked about after its time.
	FoundOpen Finding = "open"
	// FoundOld: a job whose retention was over, which is the ordinary way to find it.
	FoundOld Finding = "old"
)

// Patrol is what a patrol's look at one page of the ledger came to.
type Patrol struct {
	// Rows is how many rows the page had; 0 with Mine says that a walk has ended.
	Rows int
	// Mine is false where another patrol took the page, or its time has not come.
	Mine bool
	// Acted counts what was found and set right.
	Acted map[Finding]int
	// OldestLease is when the oldest lease on the page began; zero where there is none.
	OldestLease time.Duration
	// OldestReady is how long the one on the page that has been ready longest has been
	// that.
	OldestReady time.Duration
	// Walk is how long the walk took that ended with this page; zero in its middle.
	Walk time.Duration
}

// Partitions is what keeping the partitions came to.
type Partitions struct{ Made, Dropped int }

// CleanupOverdue is how long a cleanup may be due before it counts as overdue.
const CleanupOverdue = 10 * time.Minute

// Figures are what a scheduler tells about the ledger as a whole. Counts go no
// further than the bound that was asked for.
type Figures struct {
	UnknownOpen, Quarantined int
	// OldestUnknown is the age of the oldest unknown outcome that is not closed.
	OldestUnknown time.Duration
	// OldestQuarantined is the age of the oldest quarantined generation.
	OldestQuarantined time.Duration
	// OldestLease is the age of the oldest running lease; where there are more than were
	// looked at, no running one is older.
	OldestLease time.Duration
	// OldestDue is how long the generation at the front has been due without promotion.
	OldestDue time.Duration
	// Workers is the number of workers that were not ended.
	Workers int
	// CleanupsDue are cleanups whose gate is open and that are not done, those aside that
	// wait for a person; CleanupsOverdue are those of them that have been so for
	// CleanupOverdue.
	CleanupsDue, CleanupsOverdue int
	// CleanupsFailing are cleanups that failed and are not done, and CleanupsParked those of
	// them that wait for a person.
	CleanupsFailing, CleanupsParked int
	// CleanupsGateless are cleanups that are not done and that nobody does: their kind has no
	// gate any more.
	CleanupsGateless int
	// OldestCleanup is for how long the gate of the first of CleanupsDue has been open.
	OldestCleanup time.Duration
	// Strays is the number of rows in partitions that should be empty.
	Strays int
	// HeldXIDs is the age, in transactions, of the oldest snapshot that keeps the
	// database from cleaning up.
	HeldXIDs int64
}
