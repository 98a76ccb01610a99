package sim

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// journal is what happened in one schedule, in order: what was decided, what receivers did,
// what went wrong. Two runs of one seed have the same journal, byte by byte.
type journal struct {
	began time.Time

	mu     sync.Mutex
	lines  []string
	fired  map[fault]int
	broken []string
}

// elapsed is the time since the schedule began.
func (j *journal) elapsed() time.Duration { return time.Since(j.began) }

// sayf notes what happened.
func (j *journal) sayf(format string, about ...any) {
	line := fmt.Sprintf("%14.9f ", j.elapsed().Seconds()) + fmt.Sprintf(format, about...)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

// happenedf notes a fault.
func (j *journal) happenedf(f fault, format string, about ...any) {
	j.sayf("! "+string(f)+": "+format, about...)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.fired[f]++
}

// breaksf notes that a guarantee does not hold.
func (j *journal) breaksf(guarantee, format string, about ...any) {
	line := guarantee + ": " + fmt.Sprintf(format, about...)
	j.sayf("BROKEN %s", line)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.broken = append(j.broken, line)
}

// text is the whole journal.
func (j *journal) text() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines, "\n") + "\n"
}
