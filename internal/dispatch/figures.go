package dispatch

import (
	"context"
	"time"
)

// measureEvery is how often the ledger is asked for figures, and depthMost is how far it
// counts.
const measureEvery, depthMost = 10 * time.Second, 100_000

// measure asks the ledger for the figures of the topic when it is time, whether or not the
// topic can be relayed. Nobody is to stop relaying for want of a figure: a failure is
// counted apart, and the figures stay as they were.
func (r *relay) measure(ctx context.Context) {
	now := time.Now()
	if now.Sub(r.measured) < measureEvery {
		return
	}
	r.measured = now
	if err := r.figures(ctx); err != nil && ctx.Err() == nil {
		r.metrics.blind.WithLabelValues(r.topic).Inc()
		r.log.WarnContext(ctx, "the figures of the topic cannot be read; they stay as they were", "error", err)
	}
}

func (r *relay) figures(ctx context.Context) error {
	depth, err := r.ledger.OutboxDepth(ctx, r.topic, depthMost)
	if err != nil {
		return err
	}
	aside, err := r.ledger.CountUnsendable(ctx)
	if err != nil {
		return err
	}
	r.metrics.depth.WithLabelValues(r.topic).Set(float64(depth))
	r.metrics.unsendable.WithLabelValues(r.topic).Set(float64(aside[r.topic]))
	if r.marker == nil {
		return nil
	}
	marks, err := r.ledger.StandingMarks(ctx)
	if err != nil {
		return err
	}
	age := time.Duration(0)
	for _, m := range marks {
		if m.Lane == r.topic {
			age = max(0, m.Age)
		}
	}
	r.metrics.standing.WithLabelValues(r.topic).Set(age.Seconds())
	return nil
}
