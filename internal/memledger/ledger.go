package memledger

import (
	"context"
	"fmt"
	"sync"
	"time"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// Ledger is a ledger in memory. It is safe for concurrent use.
type Ledger struct {
	clock func() time.Time

	mu    sync.Mutex
	fault func(method string) Fault
	later []func()
	// tellOf is told of every decision.
	tellOf func(Decision)

	kinds   map[string]machine.Kind
	keys    map[job.Hash]*key
	jobs    map[int64]*entry
	order   []int64 // ids of jobs as they were made
	workers map[string]*worker
	topics  map[string]*topic
	aside   []*aside
	bus     string // that the lanes were moved to
	events  []Event
	rejects []Reject
	walk    walk
	// redrives are the decisions of persons by job and recovery key.
	redrives map[recovery]*redriven

	jobID, outboxID, eventID int64
}

// key is a key of a job, and what it was taken with. It outlives the job: then it
// says how that ended.
type key struct {
	body  job.Hash
	job   int64
	state job.State // empty while the job is there
}

// entry is a job: what its generations share, and these.
type entry struct {
	spec        job.Spec
	generations []*generation // the n-th is at n-1
	redrives    []machine.RedriveNote
	// cleanup is that of the job; zero where none is due.
	cleanup machine.Cleanup
}

// generation is a row with what decisions do not need.
type generation struct {
	row                         machine.Row // without its kind
	destination                 string
	payload                     []byte
	deadlineZone, deadlineLocal string
	receipt                     *job.Receipt
	// first is the lease of its first attempt, and ended when it came to a terminal
	// state or became unknown.
	first, ended time.Time
	// detail is the evidence of how it ended, and fingerprint its group.
	detail, fingerprint string
	// asking is how far the asking about an unknown outcome has come.
	asking machine.Asking
	// bound is where its newest attempt was sent, if its destination was asked for.
	bound machine.Bound
}

// Option changes how a Ledger is made.
type Option func(*Ledger)

// Clock sets the ledger's clock; time.Now by default.
func Clock(now func() time.Time) Option { return func(l *Ledger) { l.clock = now } }

// New makes an empty ledger.
func New(options ...Option) *Ledger {
	l := &Ledger{
		clock: time.Now, fault: func(string) Fault { return None }, tellOf: func(Decision) {},
		kinds: make(map[string]machine.Kind), keys: make(map[job.Hash]*key), jobs: make(map[int64]*entry),
		workers: make(map[string]*worker), topics: make(map[string]*topic), redrives: make(map[recovery]*redriven),
	}
	l.topics[machine.DeadTopic] = &topic{}
	for _, o := range options {
		o(l)
	}
	return l
}

// now is the ledger's clock, as exact as PostgreSQL's.
func (l *Ledger) now() time.Time { return l.clock().UTC().Truncate(time.Microsecond) }

// write runs a call that changes something, under its faults.
func (l *Ledger) write(ctx context.Context, method string, change func(now time.Time) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.fault(method) {
	case Fail:
		return fmt.Errorf("%s: %w", method, ErrFault)
	case LoseReply:
		if err := change(l.now()); err != nil {
			return err
		}
		return fmt.Errorf("%s: %w", method, machine.ErrUnclear)
	case CommitLater:
		l.later = append(l.later, func() { _ = change(l.now()) }) // its caller is gone
		return fmt.Errorf("%s: %w", method, machine.ErrUnclear)
	case None:
	}
	return change(l.now())
}

// read runs a call that changes nothing; any fault is a failure of it.
func (l *Ledger) read(ctx context.Context, method string, look func(now time.Time) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault(method) != None {
		return fmt.Errorf("%s: %w", method, ErrFault)
	}
	return look(l.now())
}

// find returns a generation and its row under the kind's policy in force; nil when
// there is none.
func (l *Ledger) find(id int64, n int32) (*entry, *generation) {
	e := l.jobs[id]
	if e == nil || n < 1 || int(n) > len(e.generations) {
		return nil, nil
	}
	return e, e.generations[n-1]
}

// row is the generation's row under its kind's policy in force.
func (l *Ledger) row(e *entry, g *generation) machine.Row {
	r := g.row
	r.Kind = l.kinds[e.spec.Kind]
	return r
}

// current is the job's current generation.
func (e *entry) current() *generation { return e.generations[len(e.generations)-1] }
