package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"duly.dev/duly/internal/pause"
)

// text is what a payload holds whose JSON has so many bytes around it.
func (l Load) text(around int) string { return strings.Repeat("0", max(1, l.Payload-around)) }

// warmUp is what contestants have to do what they do at their start, before they are
// measured at work; --quick shortens it.
var warmUp = time.Second

// batches splits [0, n) into batches, which producers insert at once.
func batches(ctx context.Context, producers, n, size int, insert func(ctx context.Context, from, to int) error) error {
	var next atomic.Int64
	return together(ctx, producers, func(ctx context.Context, _ int) error {
		for {
			from := int(next.Add(int64(size))) - size
			if from >= n {
				return nil
			}
			if err := insert(ctx, from, min(from+size, n)); err != nil {
				return err
			}
		}
	})
}

// hammer does the same over and over, from so many clients at once, for so long, and
// returns how often it was done.
func hammer(ctx context.Context, clients int, d time.Duration, do func(ctx context.Context, client, i int) error) (int, error) {
	var done atomic.Int64
	until := time.Now().Add(d)
	err := together(ctx, clients, func(ctx context.Context, client int) error {
		for i := 0; time.Now().Before(until); i++ {
			if err := do(ctx, client, i); err != nil {
				return err
			}
			done.Add(1)
		}
		return nil
	})
	return int(done.Load()), err
}

// together runs so many of do at once; the first error ends all.
func together(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if err := do(ctx, i); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// drip does something so many times a second, for so long, without waiting for what it
// began before. do is told when its turn came: waiting for a connection counts. It returns
// how often it was done once all is.
func drip(ctx context.Context, rate int, d time.Duration, do func(ctx context.Context, i int, began time.Time) error) (int, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	defer all.Wait()
	total := int(d.Seconds() * float64(rate))
	timer := time.NewTimer(0)
	defer timer.Stop()
	start := time.Now()
	for i := range total {
		due := start.Add(time.Duration(i) * time.Second / time.Duration(rate))
		if wait := time.Until(due); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return i, context.Cause(ctx)
			}
		}
		began := time.Now()
		all.Go(func() {
			if err := do(ctx, i, began); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	return total, context.Cause(ctx)
}

// tally counts jobs that are durably done.
type tally struct {
	mu      sync.Mutex
	done    int
	changed chan struct{}
}

func newTally() *tally { return &tally{changed: make(chan struct{}, 1)} }

// add counts more of them.
func (t *tally) add(n int) {
	t.mu.Lock()
	t.done += n
	t.mu.Unlock()
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// wait waits until so many are done. One goroutine may wait at a time.
func (t *tally) wait(ctx context.Context, n int) error {
	for {
		t.mu.Lock()
		done := t.done
		t.mu.Unlock()
		if done >= n {
			return nil
		}
		select {
		case <-t.changed:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d jobs were done: %w", done, n, context.Cause(ctx))
		}
	}
}

// stopwatches bring together when a job's enqueue began and when it was durably done,
// whichever is known first.
type stopwatches struct {
	histogram *Histogram
	tally     *tally

	mu    sync.Mutex
	began map[int64]time.Time
	ended map[int64]time.Time
}

func newStopwatches(h *Histogram) *stopwatches {
	return &stopwatches{histogram: h, tally: newTally(), began: make(map[int64]time.Time), ended: make(map[int64]time.Time)}
}

// start says when the enqueue of the job began.
func (s *stopwatches) start(job int64, at time.Time) {
	if ended, ok := s.meet(job, at, s.began, s.ended); ok {
		s.took(ended.Sub(at))
	}
}

// stop says that the job is durably done now.
func (s *stopwatches) stop(job int64) {
	now := time.Now()
	if began, ok := s.meet(job, now, s.ended, s.began); ok {
		s.took(now.Sub(began))
	}
}

// meet takes the job's instant from the other side, or leaves one on this side where the
// other has none yet.
func (s *stopwatches) meet(job int64, at time.Time, here, there map[int64]time.Time) (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	other, ok := there[job]
	if ok {
		delete(there, job)
	} else {
		here[job] = at
	}
	return other, ok
}

func (s *stopwatches) took(d time.Duration) {
	s.histogram.Add(d)
	s.tally.add(1)
}

// waitFor waits for so long, or until ctx ends.
func waitFor(ctx context.Context, d time.Duration) error {
	if !pause.For(ctx, d) {
		return context.Cause(ctx)
	}
	return nil
}

// errWrongCount: what the server holds is not what was counted.
var errWrongCount = errors.New("the server holds another number of finished jobs than was counted")
