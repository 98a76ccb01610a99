package ledger

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// unclearLeases remembers the references of lease calls whose reply was lost. Such a
// lease may be committed after the caller has read back and found nothing, so every
// heartbeat looks again, until no statement can be running any more.
type unclearLeases struct {
	mu    sync.Mutex
	until map[string]map[job.Ref]time.Time // by worker
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
	if u.until == nil {
		u.until = make(map[string]map[job.Ref]time.Time)
	}
	if u.until[worker] == nil {
		u.until[worker] = make(map[job.Ref]time.Time)
	}
	until := time.Now().Add(unclearFor)
	for _, r := range refs {
		u.until[worker][r] = until
	}
}

// of returns the references to look for. It forgets what is old, also of workers that have
// ended and ask no more.
func (u *unclearLeases) of(worker string) []job.Ref {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	for asked, refs := range u.until {
		maps.DeleteFunc(refs, func(_ job.Ref, until time.Time) bool { return !now.Before(until) })
		if len(refs) == 0 {
			delete(u.until, asked)
		}
	}
	return slices.SortedFunc(maps.Keys(u.until[worker]), job.Ref.Compare)
}
