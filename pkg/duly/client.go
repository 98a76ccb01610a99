package duly

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"duly.dev/duly/internal/calendar"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/traceparent"
	"duly.dev/duly/pkg/job"
)

// kindsAge is for how long a client trusts what it knows of the kinds' policies.
const kindsAge = time.Minute

// Client schedules jobs. It is safe for concurrent use; a program needs one a ledger.
type Client struct {
	ledger     *ledger.Ledger
	maxPayload int
	check      func(job.Spec) *job.Refusal
}

// Option changes how a client is made.
type Option func(*Client)

// MaxPayload sets the largest payload that the client accepts, in bytes; it is
// job.DefaultMaxPayload by default, and should be the max_payload of duly.yaml.
func MaxPayload(bytes int) Option { return func(c *Client) { c.maxPayload = bytes } }

// Check adds a check of the producer's own, such as whether a destination is one that
// the kind's channel can use. It sees only specs that break no other rule, and returns
// nil where it has nothing against one.
func Check(check func(job.Spec) *job.Refusal) Option { return func(c *Client) { c.check = check } }

// NewClient makes a client. The pool is used by Job alone: everything else runs in the
// transaction that it is given, which must be of the same database. It does no I/O, and
// the pool stays the caller's to close.
func NewClient(pool *pgxpool.Pool, options ...Option) *Client {
	c := &Client{ledger: ledger.New(pool), check: func(job.Spec) *job.Refusal { return nil }}
	for _, o := range options {
		o(c)
	}
	return c
}

// Status is what became of a request.
type Status string

const (
	// Created: there is a new job.
	Created Status = "created"
	// Existing: the same request was accepted before; its job is the answer.
	Existing Status = "existing"
	// Replaced: the job has the request's body from now on.
	Replaced Status = "replaced"
	// Refused: there is no job by this request; Reason says why.
	Refused Status = "refused"
)

// Scheduled is the answer to one request.
type Scheduled struct {
	Status Status
	// ID is the ledger's number of the job: of the new one or, also in a conflict, of
	// the one that has the key. It is for logs; kind and key are the identity.
	ID int64
	// Last is the last state of an existing job that was removed since, after its
	// retention; empty otherwise.
	Last job.State
	// Reason is why the request was refused: job.Refusals lists its parts, and it
	// matches job.ErrConflict where the key is taken by another body. Nil otherwise.
	Reason error
}

// ScheduleOption changes how requests are taken.
type ScheduleOption func(*scheduling)

type scheduling struct{ replace bool }

// Replace asks to give a job that has the key another body, due time and deadline, as
// long as no attempt of it has begun. Where one has, the request is a conflict still.
func Replace() ScheduleOption { return func(s *scheduling) { s.replace = true } }

// Schedule asks for one job in the caller's transaction. A refused request is an error
// that matches job.ErrRefused (and job.ErrConflict where the key is taken by another
// body) and names every field that is wrong; the transaction is not harmed by it. Any
// other error is the transaction's, which is then to be rolled back.
//
// The trace that ctx carries goes on in the job, unless the spec names another.
func (c *Client) Schedule(ctx context.Context, tx pgx.Tx, spec job.Spec, options ...ScheduleOption) (Scheduled, error) {
	all, err := c.ScheduleMany(ctx, tx, []job.Spec{spec}, options...)
	if err != nil {
		return Scheduled{}, err
	}
	if all[0].Reason != nil {
		return all[0], fmt.Errorf("scheduling %s/%s: %w", job.Storable(spec.Kind, job.MaxName), job.Storable(spec.Key, job.MaxKey), all[0].Reason)
	}
	return all[0], nil
}

// ScheduleMany asks for any number of jobs in the caller's transaction, and returns one
// answer a request, in their order. A refused request costs its neighbours nothing: the
// caller decides whether to commit the rest. The error is the transaction's, which is
// then to be rolled back.
//
// A copy of a request in one call is answered like one that comes later: existing, or a
// conflict.
func (c *Client) ScheduleMany(ctx context.Context, tx pgx.Tx, specs []job.Spec, options ...ScheduleOption) ([]Scheduled, error) {
	var how scheduling
	for _, o := range options {
		o(&how)
	}
	all := make([]Scheduled, len(specs))
	if len(specs) == 0 {
		return all, nil
	}
	limits, err := c.limits(ctx, tx, specs)
	if err != nil {
		return nil, err
	}
	trace := traceparent.Of(ctx)
	valid, places := make([]job.Spec, 0, len(specs)), make([]int, 0, len(specs))
	for i, s := range specs {
		if reason := c.refuse(s, limits); reason != nil {
			all[i] = Scheduled{Status: Refused, Reason: reason}
			continue
		}
		if !traceparent.Valid(s.TraceParent) {
			s.TraceParent = trace
		}
		valid, places = append(valid, s), append(places, i)
	}
	take := c.enqueue
	if how.replace {
		take = c.ledger.Replace
	}
	taken, err := take(ctx, tx, valid)
	if err != nil {
		return nil, fmt.Errorf("scheduling %d jobs: %w", len(specs), err)
	}
	for n, e := range taken {
		all[places[n]] = scheduled(e)
	}
	return all, nil
}

func (c *Client) enqueue(ctx context.Context, tx pgx.Tx, specs []job.Spec) ([]machine.Enqueued, error) {
	return c.ledger.Enqueue(ctx, tx, specs)
}

// limits are what the ledger says about the kinds that the specs name.
func (c *Client) limits(ctx context.Context, tx pgx.Tx, specs []job.Spec) (job.Limits, error) {
	names := make(map[string]bool)
	for _, s := range specs {
		names[s.Kind] = true
	}
	known, err := c.ledger.KnowKinds(ctx, tx, names, kindsAge)
	if err != nil {
		return job.Limits{}, fmt.Errorf("scheduling %d jobs: %w", len(specs), err)
	}
	return job.Limits{
		MaxPayload: c.maxPayload, KnownZone: calendar.KnownZone,
		KnownKind: func(kind string) bool { return known[kind] },
	}, nil
}

// refuse returns why the spec is refused, or nil. Whether its deadline has passed is
// the ledger's to say, whose clock counts, and who knows the request if it is a copy.
func (c *Client) refuse(s job.Spec, limits job.Limits) error {
	if err := s.Validate(time.Time{}, limits); err != nil {
		return err
	}
	if refusal := c.check(s); refusal != nil {
		return refusal
	}
	return nil
}

func scheduled(e machine.Enqueued) Scheduled {
	s := Scheduled{Status: Existing, ID: e.Job, Last: e.State, Reason: e.Refused}
	switch {
	case e.Refused != nil:
		s.Status = Refused
	case e.Created:
		s.Status = Created
	case e.Replaced:
		s.Status = Replaced
	}
	return s
}

// At resolves a local wall time such as "2026-09-30T17:00:00" in an IANA zone such as
// "Europe/Paris" to its instant, in UTC. A time that the clocks skip is the first
// instant after the gap, one that they show twice is the first of the two. What is no
// such time or zone is a refusal.
//
// Give zone and local time along in job.Spec.DeadlineZone and DeadlineLocal, so that a
// person sees what was meant.
func At(local, zone string) (time.Time, error) {
	z, zoneErr := calendar.LoadZone(zone)
	if zoneErr != nil {
		zoneErr = job.Refuse("zone", zone, job.RuleUnknownZone, "")
	}
	l, localErr := calendar.ParseLocal(local)
	if localErr != nil {
		localErr = job.Refuse("local", local, job.RuleTime, "")
	}
	if err := errors.Join(zoneErr, localErr); err != nil {
		return time.Time{}, err
	}
	t, _ := l.In(z)
	return t, nil
}
