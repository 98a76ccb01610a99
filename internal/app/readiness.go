package app

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Readiness knows when each loop of the process last succeeded. A process is ready
// when every loop has succeeded within its bound: the last successful claim says
// that it works, a ping only that something answers.
type Readiness struct {
	mu       sync.Mutex
	loops    []*heart
	starting bool
	stopping bool
}

// heart is one loop's last success.
type heart struct {
	name  string
	stale time.Duration
	begun time.Time
	last  atomic.Pointer[time.Time]
}

// Loop registers a loop, which counts as not ready until it first reports, and
// whenever its last report is older than stale. It returns the function by which
// the loop reports a success; that is cheap and safe for concurrent use.
func (r *Readiness) Loop(name string, stale time.Duration) (succeeded func()) {
	h := &heart{name: name, stale: stale, begun: time.Now()}
	r.mu.Lock()
	r.loops = append(r.loops, h)
	r.mu.Unlock()
	return func() {
		now := time.Now()
		h.last.Store(&now)
	}
}

// Starting makes the process not ready until Started: it waits for what its loops need,
// and may not even know yet which these are.
func (r *Readiness) Starting() { r.setStarting(true) }

// Started ends Starting: from here on the loops say how the process does.
func (r *Readiness) Started() { r.setStarting(false) }

func (r *Readiness) setStarting(is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.starting = is
}

// Stopping makes the process not ready for good: it drains.
func (r *Readiness) Stopping() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopping = true
}

// LoopStatus is how one loop does.
type LoopStatus struct {
	Loop  string `json:"loop"`
	Ready bool   `json:"ready"`
	// LastSuccess is absent where there was none yet.
	LastSuccess *time.Time `json:"last_success,omitempty"`
	// Ago is how long ago that was, such as "3.2s".
	Ago        string `json:"ago,omitempty"`
	StaleAfter string `json:"stale_after"`
	// Why says what is wrong, in words.
	Why string `json:"why,omitempty"`
}

// Status is how the process does.
type Status struct {
	Ready bool `json:"ready"`
	// Starting: it waits for what its loops need; its log says for what.
	Starting bool         `json:"starting,omitempty"`
	Stopping bool         `json:"stopping,omitempty"`
	Loops    []LoopStatus `json:"loops"`
}

// Status returns how the process does now. A process that has started, and has no loops,
// is ready.
func (r *Readiness) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	s := Status{Ready: !r.starting && !r.stopping, Starting: r.starting, Stopping: r.stopping, Loops: []LoopStatus{}}
	for _, h := range r.loops {
		one := h.status(now)
		s.Ready = s.Ready && one.Ready
		s.Loops = append(s.Loops, one)
	}
	return s
}

func (h *heart) status(now time.Time) LoopStatus {
	s := LoopStatus{Loop: h.name, StaleAfter: h.stale.String()}
	last := h.last.Load()
	if last == nil {
		s.Why = fmt.Sprintf("%s has not succeeded yet", h.name)
		return s
	}
	ago := now.Sub(*last)
	utc := last.UTC()
	s.LastSuccess, s.Ago = &utc, ago.Round(100*time.Millisecond).String()
	if s.Ready = ago <= h.stale; !s.Ready {
		s.Why = fmt.Sprintf("%s last succeeded %s ago; its bound is %s", h.name, s.Ago, s.StaleAfter)
	}
	return s
}

var lastSuccess = prometheus.NewDesc("duly_loop_last_success_timestamp_seconds",
	"When each loop of the process last succeeded, in seconds since 1970; of one that has not yet, when it was begun.", []string{"loop"}, nil)

// Describe implements prometheus.Collector.
func (r *Readiness) Describe(c chan<- *prometheus.Desc) { c <- lastSuccess }

// Collect implements prometheus.Collector.
func (r *Readiness) Collect(c chan<- prometheus.Metric) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.loops {
		last := h.begun // so that one that never succeeds is seen to stand
		if at := h.last.Load(); at != nil {
			last = *at
		}
		c <- prometheus.MustNewConstMetric(lastSuccess, prometheus.GaugeValue, float64(last.UnixMilli())/1000, h.name)
	}
}
