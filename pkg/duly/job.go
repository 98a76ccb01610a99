package duly

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// Job is where a job stands: its current generation.
type Job struct {
	Kind, Key, Subject, Period string
	// Removed: the job ended, and was removed after its retention. State is its last
	// one; nothing else is known any more.
	Removed    bool
	Generation int32
	State      job.State
	// Waiting is why it is scheduled, Hold why it is held, Reason why it is quarantined.
	Waiting job.Waiting
	Hold    job.Hold
	Reason  job.Reason
	// Attempts are those of the generation; Class and Code are of the last failure.
	Attempts int32
	Class    job.Class
	Code     job.Code
	// Doubt: some attempt may have happened, and nobody has settled it.
	Doubt bool
	// CancelRequested: it is cancelled once its attempt ends, or its doubt is settled.
	CancelRequested bool
	// Created is when the generation was made; Deadline, WakeAt (when it goes on) and
	// Ended are zero where there is none.
	Created, Due, Deadline, WakeAt, Ended time.Time
	// Receipt is what the receiver answered; nil without one.
	Receipt *job.Receipt
}

// Job reads where a job stands; the error matches job.ErrNotFound where there is none
// of this kind and key. It reads what is committed, over the client's pool.
func (c *Client) Job(ctx context.Context, kind, key string) (Job, error) {
	story, err := c.ledger.Find(ctx, kind, key)
	if err != nil {
		return Job{}, err
	}
	j := Job{Kind: kind, Key: key, Subject: story.Subject, Period: story.Period, Removed: story.Removed, State: story.LastState}
	g, ok := story.Current()
	if !ok {
		return j, nil
	}
	j.Generation, j.State, j.Waiting, j.Hold, j.Reason = g.Generation, g.State, g.Waiting, g.Hold, g.Reason
	j.Attempts, j.Class, j.Code, j.Doubt, j.CancelRequested = g.Attempt, g.LastClass, g.LastCode, g.InDoubt(), g.CancelRequested
	j.Created, j.Due, j.Deadline, j.WakeAt, j.Ended, j.Receipt = g.Created, g.Due, g.Deadline, g.WakeAt, g.Ended, g.Receipt
	return j, nil
}

// Cancelled is what a cancellation came to.
type Cancelled struct {
	// State is where the job stands: job.Cancelled where nothing of it will happen.
	State job.State
	// Requested: an attempt is running or in doubt. It is cancelled when that attempt
	// ends, or the doubt is settled, without having happened.
	Requested bool
}

// Cancel withdraws a job in the caller's transaction. actor and reason are recorded.
// Cancelling again changes nothing. The error matches job.ErrNotFound where there is no
// such job, and job.ErrRefused where it is delivered; neither harms the transaction.
func (c *Client) Cancel(ctx context.Context, tx pgx.Tx, kind, key, actor, reason string) (Cancelled, error) {
	s, err := c.ledger.CancelIn(ctx, tx, machine.Cancellation{
		Kind: kind, Key: key, Actor: job.Storable(actor, job.MaxDetail), Reason: job.Storable(reason, job.MaxDetail),
	})
	if err != nil {
		return Cancelled{}, fmt.Errorf("cancelling: %w", err)
	}
	return Cancelled{State: s.State, Requested: s.Requested}, nil
}
