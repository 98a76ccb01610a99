package sweep

import (
	"context"
	"time"
)

// overtime is what a function has to return once its time is over, before it is left behind.
const overtime = time.Second

// atOnce calls do for all tasks at the same time, each in a place of its own and for at
// most timeout, and returns what each came to, in their order. One that panicked came to
// panicked: what it panicked with may be private. One that has not even returned when its
// time is over came to late, and is left behind, in its place: a place that is free again
// is free before the result is there. The tasks must be no more than the free places.
func atOnce[T, R any](ctx context.Context, timeout time.Duration, places chan struct{}, tasks []T, do func(context.Context, T) R, late, panicked R) []R {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	came := make([]chan R, len(tasks))
	for i, t := range tasks {
		came[i] = make(chan R, 1)
		places <- struct{}{}
		go func() {
			r := caught(ctx, t, do, panicked)
			<-places
			came[i] <- r
		}()
	}
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(overtime, func() { close(over) }) })
	defer stop()
	results := make([]R, len(tasks))
	for i := range tasks {
		select {
		case results[i] = <-came[i]:
		case <-over:
			results[i] = late
		}
	}
	return results
}

// caught calls do, and returns panicked where it panics.
func caught[T, R any](ctx context.Context, task T, do func(context.Context, T) R, panicked R) (r R) {
	defer func() {
		if recover() != nil {
			r = panicked
		}
	}()
	return do(ctx, task)
}
