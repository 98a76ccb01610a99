package execute

import "sync"

// reports hands endings from the attempts to the one goroutine that settles. It holds so
// many at most: who brings more waits, which keeps its attempt's slot and so slows down
// the intake. The hand-back of a stranger has no slot, and never waits: who brings it is the
// heart, on which every attempt of the worker lives.
type reports struct {
	most     int
	arrived  chan struct{} // holds a token while endings are there; perhaps one more
	finished chan struct{} // closed when no report is to come any more

	mu      sync.Mutex
	room    sync.Cond
	endings []*ending
	pending int // those that are not committed
	closed  bool
}

func newReports(most int) *reports {
	r := &reports{most: most, arrived: make(chan struct{}, 1), finished: make(chan struct{})}
	r.room.L = &r.mu
	return r
}

// put adds endings, as far as there is room all at once; behind finish they are dropped.
func (r *reports) put(endings ...*ending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending += len(endings)
	first := false // one was added where none was: nobody is on the way to take it
	for _, e := range endings {
		for e.attempt != nil && len(r.endings) >= r.most && !r.closed {
			if first {
				r.wake()
			}
			r.room.Wait()
		}
		if r.closed {
			break
		}
		first = first || len(r.endings) == 0
		r.endings = append(r.endings, e)
	}
	if first {
		r.wake()
	}
}

// take appends what is there to batch, until that has most.
func (r *reports) take(batch []*ending, most int) []*ending {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := max(0, min(most-len(batch), len(r.endings)))
	batch = append(batch, r.endings[:n]...)
	rest := copy(r.endings, r.endings[n:])
	clear(r.endings[rest:])
	r.endings = r.endings[:rest]
	if rest > 0 {
		r.wake()
	}
	r.room.Broadcast()
	return batch
}

// committed counts what the ledger has taken, or never will.
func (r *reports) committed(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending -= n
}

// left is how many are not committed.
func (r *reports) left() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pending
}

// finish says that no report is to come any more.
func (r *reports) finish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	close(r.finished)
	r.room.Broadcast()
}

func (r *reports) wake() {
	select {
	case r.arrived <- struct{}{}:
	default:
	}
}
