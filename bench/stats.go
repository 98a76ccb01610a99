package main

import (
	"math"
	"slices"
	"sync"
	"time"
)

// Spread is a figure over the rounds.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	// Rounds is how many figures it was made of; with none, the others mean nothing.
	Rounds int `json:"rounds"`
}

// spread summarises figures.
func spread(figures []float64) Spread {
	if len(figures) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(figures))
	return Spread{Median: median(sorted), Min: sorted[0], Max: sorted[len(sorted)-1], Rounds: len(sorted)}
}

// median of figures that are sorted: of an even number, the mean of the two in the middle.
func median(sorted []float64) float64 {
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Latency is how long jobs took, in milliseconds.
type Latency struct {
	Jobs int     `json:"jobs"`
	P50  float64 `json:"p50_ms"`
	P99  float64 `json:"p99_ms"`
	P999 float64 `json:"p99_9_ms"`
	Max  float64 `json:"max_ms"`
}

// Histogram keeps durations. It is safe for concurrent use.
type Histogram struct {
	mu  sync.Mutex
	all []time.Duration
}

// Add takes a duration.
func (h *Histogram) Add(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, d)
}

// Len is how many were taken.
func (h *Histogram) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.all)
}

// Latency summarises what was taken.
func (h *Histogram) Latency() Latency {
	h.mu.Lock()
	defer h.mu.Unlock()
	sorted := slices.Sorted(slices.Values(h.all))
	if len(sorted) == 0 {
		return Latency{}
	}
	return Latency{
		Jobs: len(sorted),
		P50:  milliseconds(percentile(sorted, 0.5)), P99: milliseconds(percentile(sorted, 0.99)), P999: milliseconds(percentile(sorted, 0.999)),
		Max: milliseconds(sorted[len(sorted)-1]),
	}
}

// percentile is the least of the sorted durations that at least the share of all do not
// exceed (nearest rank).
func percentile(sorted []time.Duration, share float64) time.Duration {
	rank := int(math.Ceil(share*float64(len(sorted)))) - 1
	return sorted[min(max(rank, 0), len(sorted)-1)]
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
