package execute

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"duly.dev/duly/internal/channel"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/traceparent"
	"duly.dev/duly/pkg/job"
)

// attempt is one lease in hand, from the ledger's grant to the commit of its end.
type attempt struct {
	id        machine.Attempt
	worker    *Worker
	session   *session
	lane      *lane
	kind      *kind
	grant     *machine.Grant
	claim     *claim
	leaseSent time.Time

	// ctx ends at the limit; cancel ends it sooner, for Go handlers and at the end of
	// a drain only.
	ctx limited

	// phase says whether its destination is still asked for; bound is where it goes then.
	phase atomic.Int32
	bound string

	begun    atomic.Bool
	refused  atomic.Bool
	reported atomic.Bool
	end      ending // the first report
}

// newAttempts makes an attempt of each grant that a claim waits for, leased by a call
// that was sent at the instant; where that is zero, by the first that asked at the latest.
func (l *lane) newAttempts(s *session, k *kind, sent time.Time, grants []machine.Grant, asked *asking) []*attempt {
	all := make([]attempt, 0, len(grants))
	attempts := make([]*attempt, 0, len(grants))
	for i := range grants {
		row := &grants[i].Row
		c := asked.take(job.Ref{Job: row.Job, Generation: row.Generation, Emission: row.Emission})
		if c == nil {
			continue // not asked for: the next heartbeats hand it back
		}
		leaseSent := sent
		if leaseSent.IsZero() {
			leaseSent = c.asked
		}
		all = append(all, attempt{
			id:     machine.Attempt{Job: row.Job, Generation: row.Generation, Fence: row.Fence},
			worker: l.worker, session: s, lane: l, kind: k, grant: &grants[i], claim: c, leaseSent: leaseSent,
		})
		attempts = append(attempts, &all[len(all)-1])
	}
	for _, a := range attempts {
		a.start(l.worker.work)
	}
	return attempts
}

// start starts the clock of the attempt's limit.
func (a *attempt) start(ctx context.Context) {
	a.ctx.start(ctx, time.Now().Add(a.limit()))
}

// cancel ends the attempt's context.
func (a *attempt) cancel() { a.ctx.cancel() }

// limit is the one that the lease was taken with.
func (a *attempt) limit() time.Duration { return a.grant.Row.Limit }

// effect is what the channel gets to see.
func (a *attempt) effect(ctx context.Context) channel.Effect {
	g, row := a.grant, &a.grant.Row
	e := channel.Effect{
		Kind: a.kind.Name, Key: g.Key, Subject: g.Subject, Period: g.Period,
		Destination: g.Destination, Payload: g.Payload,
		Generation: row.Generation, Attempt: row.Attempt,
		EffectKey: a.effectKey(),
		Deadline:  row.Deadline, DeadlineZone: g.DeadlineZone, DeadlineLocal: g.DeadlineLocal,
		TraceParent: g.TraceParent,
		Begin:       a.begin,
	}
	if trace.SpanContextFromContext(ctx).IsValid() {
		e.TraceParent = traceparent.Of(ctx)
	}
	return e
}

// effectKey is the effect key as it goes on the wire.
func (a *attempt) effectKey() string {
	row := &a.grant.Row
	return job.WireEffectKey(a.kind.Name, a.grant.Key, row.Generation, row.Channel)
}

// cutHandlers ends the contexts of the session's Go handlers: their lease is over,
// or about to be.
func (s *session) cutHandlers() {
	for _, a := range s.running() {
		if a.kind.Handler {
			a.cancel()
		}
	}
}
