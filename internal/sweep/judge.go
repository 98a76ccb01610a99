package sweep

import (
	"context"
	"errors"
	"time"

	"duly.dev/duly/internal/machine"
)

// Judge is where references are found that the bus lost.
type Judge interface {
	// Topics lists the lanes, and machine.DeadTopic.
	Topics(ctx context.Context) ([]string, error)
	// Judge judges the next outbox rows that a passed mark covers. contact is how long
	// the caller has been in unbroken contact with the ledger.
	Judge(ctx context.Context, lane string, contact time.Duration, limit int) (lost int, more bool, err error)
}

// judgeRows is how many outbox rows are judged at once; each may hold hundreds of
// references.
const judgeRows = 20

func (s *Sweeper) judge() loop {
	return loop{name: "judge", every: 5 * time.Second, round: func(ctx context.Context) (bool, error) {
		topics, err := s.options.Ledger.Topics(ctx)
		if err != nil {
			return false, err
		}
		again := false
		var errs []error
		for _, lane := range topics {
			if lane == machine.DeadTopic {
				continue // notices are copies of what the ledger keeps
			}
			lost, more, err := s.options.Ledger.Judge(ctx, lane, s.options.Watch.Unbroken(), judgeRows)
			if err != nil {
				errs = append(errs, err) // the other lanes are judged all the same
				continue
			}
			if lost > 0 {
				s.metrics.reemitted.WithLabelValues(lane).Add(float64(lost))
				s.log.WarnContext(ctx, "the bus lost references; they are announced anew", "lane", lane, "references", lost)
			}
			again = again || more
		}
		return again, errors.Join(errs...)
	}}
}
