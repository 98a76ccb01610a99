package gochan

import (
	"context"
	"fmt"

	"duly.dev/duly/internal/channel"
	"duly.dev/duly/pkg/handler"
	"duly.dev/duly/pkg/job"
)

// Resolver asks a function of the worker's own program where effects go.
type Resolver struct{ resolve handler.Resolve }

var _ channel.Resolver = (*Resolver)(nil)

// NewResolver makes the resolver of a function.
func NewResolver(r handler.Resolve) *Resolver { return &Resolver{r} }

// Resolve calls the function. Its error is a verdict as a handler's is, but for one thing:
// nothing was sent, so that a plain error says "not now" and not "it may have happened".
func (r *Resolver) Resolve(ctx context.Context, jobs []channel.Addressee) []channel.Address {
	asked := make([]handler.Addressee, len(jobs))
	for i, j := range jobs {
		asked[i] = handler.Addressee(j)
	}
	found, err := r.resolve(ctx, asked)
	if err == nil && len(found) != len(jobs) {
		err = handler.NotDone(fmt.Errorf("the resolve returned %d addresses for %d jobs", len(found), len(jobs)))
	}
	if err != nil {
		why := handler.Verdict(err)
		if why.Outcome != job.OutcomeFailed {
			why = job.NotDone(job.ClassTransient, job.CodeHandlerError, err.Error())
			if ctx.Err() != nil {
				why.Code = job.CodeTimeout
			}
		}
		return channel.Unresolved(len(jobs), why)
	}
	all := make([]channel.Address, len(jobs))
	for i, address := range found {
		if all[i].Destination = address; address == "" {
			all[i] = channel.NoAddress("the resolve has no address for it")
		}
	}
	return all
}
