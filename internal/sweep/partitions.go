package sweep

import (
	"context"
	"time"

	"duly.dev/duly/internal/machine"
)

// Partitions keeps the append-only tables, and the rows that nothing else removes.
type Partitions interface {
	// KeepPartitions makes daily partitions ahead and drops those that hold nothing
	// younger than keep.
	KeepPartitions(ctx context.Context, keep time.Duration) (machine.Partitions, error)
	// RemoveWorkers removes the rows of workers that have held nothing for so long.
	RemoveWorkers(ctx context.Context, after time.Duration) (int, error)
}

func (s *Sweeper) partitions() loop {
	return loop{name: "partitions", every: 10 * time.Minute, round: func(ctx context.Context) (bool, error) {
		kinds, err := s.options.Ledger.Kinds(ctx)
		if err != nil {
			return false, err
		}
		keep := s.options.Retention + longestLife(kinds)
		done, err := s.options.Ledger.KeepPartitions(ctx, keep)
		if done.Made > 0 || done.Dropped > 0 {
			s.log.InfoContext(ctx, "kept the partitions of events and leases", "made", done.Made, "dropped", done.Dropped)
		}
		if err != nil {
			return false, err
		}
		_, err = s.options.Ledger.RemoveWorkers(ctx, keep)
		return false, err
	}}
}

// longestLife is the longest that anything can happen to a job of any kind: until its
// lifetime is over, and an unknown outcome of its end is asked about no more.
func longestLife(kinds []machine.Kind) time.Duration {
	var longest time.Duration
	for _, k := range kinds {
		longest = max(longest, k.Policy.MaxLifetime+k.Promises.ResolveWithin)
	}
	return longest
}
