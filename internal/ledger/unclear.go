package ledger

import (
	"errors"
	"sync"
	"time"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// unclearLeases remembers the references of lease calls whose reply was lost. Such a
// lease may be committed after the caller has read back and found nothing, so every
// heartbeat looks again, until no statement can be running any more.
type unclearLeases struct {
	mu   sync.Mutex
	refs map[string][]unclearRef // by worker
}

type unclearRef struct {
	ref   job.Ref
	until time.Time
}

// unclearFor is longer than a lost statement can go on in the server: the lease
// that it would make has ended by itself after that.
const unclearFor = 10 * time.Minute

// note takes the error of a lease call.
func (u *unclearLeases) note(worker string, refs []job.Ref, err error) {
	if !errors.Is(err, machine.ErrUnclear) {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.refs == nil {
		u.refs = make(map[string][]unclearRef)
	}
	until := time.Now().Add(unclearFor)
	for _, r := range refs {
		u.refs[worker] = append(u.refs[worker], unclearRef{r, until})
	}
}

// of returns the references to look for, and forgets those that are old.
func (u *unclearLeases) of(worker string) []job.Ref {
	u.mu.Lock()
	defer u.mu.Unlock()
	var refs []job.Ref
	kept := u.refs[worker][:0]
	for _, r := range u.refs[worker] {
		if time.Now().Before(r.until) {
			kept, refs = append(kept, r), append(refs, r.ref)
		}
	}
	if len(kept) == 0 {
		delete(u.refs, worker)
	} else {
		u.refs[worker] = kept
	}
	return refs
}
