package sweep

import (
	"context"
	"log/slog"
	"time"

	"duly.dev/duly/internal/machine"
)

// Patrol walks over the whole ledger, shared by all schedulers.
type Patrol interface {
	// Patrol looks at the next page, unless another was taken less than every ago.
	Patrol(ctx context.Context, rows int, every, retention time.Duration) (machine.Patrol, error)
}

const (
	// patrolEvery is the time from page to page; a page with much to remove is followed
	// patrolHurry times as soon.
	patrolEvery, patrolHurry = time.Second, 4
	// patrolRest is the time from walk to walk.
	patrolRest = time.Minute
)

// patroller is one scheduler's part of the walk.
type patroller struct {
	*Sweeper
	every        time.Duration
	lease, ready time.Duration // the oldest seen in this walk
	resting      bool          // between two walks, until then
	until        time.Duration // monotonic
}

func (s *Sweeper) patrol() loop {
	p := &patroller{Sweeper: s, every: patrolEvery}
	return loop{name: "patrol", every: patrolEvery / patrolHurry, round: p.round}
}

func (p *patroller) round(ctx context.Context) (bool, error) {
	if p.resting && p.now().Elapsed < p.until {
		return false, nil
	}
	found, err := p.options.Ledger.Patrol(ctx, p.options.PatrolRows, p.every, p.options.Retention)
	if err != nil || !found.Mine {
		return false, err
	}
	p.resting = false
	p.metrics.patrolRows.Add(float64(found.Rows))
	for finding, n := range found.Acted {
		p.metrics.patrolActed.WithLabelValues(string(finding)).Add(float64(n))
	}
	p.tell(ctx, found)
	p.lease, p.ready = max(p.lease, found.OldestLease), max(p.ready, found.OldestReady)
	if p.every = patrolEvery; found.Acted[machine.FoundOld] > found.Rows/2 {
		p.every = patrolEvery / patrolHurry
	}
	if found.Rows == 0 {
		p.resting, p.until = true, p.now().Elapsed+patrolRest
		p.metrics.walked(found.Walk, p.lease, p.ready)
		p.lease, p.ready = 0, 0
	}
	return false, nil
}

// tell logs what only a patrol can have found: something else has failed to.
func (p *patroller) tell(ctx context.Context, found machine.Patrol) {
	var odd []any
	for _, finding := range []machine.Finding{machine.FoundLease, machine.FoundExpired, machine.FoundOpen} {
		if n := found.Acted[finding]; n > 0 {
			odd = append(odd, slog.Int(string(finding), n))
		}
	}
	if len(odd) > 0 {
		p.log.WarnContext(ctx, "the patrol set right what no other sweep had found", odd...)
	}
}
