package main

import (
	"context"
	"errors"
	"time"
)

// Setting is something that a contestant's figures depend on.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Contestant is who is measured. Prepare is called once; then, for every measurement,
// Open, one of the measuring methods (Insert and Drain in this order for one Open) and
// Close. Nothing of it runs, and nothing is connected, outside of Open and Close.
type Contestant interface {
	Described
	Measurable
	// Prepare looks for what the contestant needs. An error makes it absent.
	Prepare(ctx context.Context, s *Stack) error
	// Open makes a fresh state: for users of PostgreSQL, a database with their schema.
	Open(ctx context.Context, s *Stack) error
	// Close ends what Open began. It is called whatever happened.
	Close(ctx context.Context) error
}

// Described is what tables say about a contestant.
type Described interface {
	// Name is what tables show.
	Name() string
	// Version is known after Prepare.
	Version() string
	// Settings say how it is run, and what about it is unequal.
	Settings() []Setting
}

// Measurable is what is measured. A method prepares what is not measured, calls Begin of
// the meter, works, calls Done when the last job is durably done, and then makes sure
// that everything that it counted was really done. What the contestant cannot do is
// Unable.
type Measurable interface {
	// Insert enqueues n jobs in bulk while nothing works them.
	Insert(ctx context.Context, m *Meter, n int) error
	// Drain works the n jobs that Insert left.
	Drain(ctx context.Context, m *Meter, n int) error
	// Both enqueues n jobs in bulk and works them at once.
	Both(ctx context.Context, m *Meter, n int) error
	// Singles enqueues one job a transaction (begin, enqueue, commit) from so many
	// clients at once for so long, while nothing works them; it tells Count of the meter.
	Singles(ctx context.Context, m *Meter, clients int, d time.Duration) error
	// Latency enqueues so many jobs a second, one a transaction, while they are worked,
	// and gives the meter's histogram how long each took from before its enqueue until it
	// was durably done.
	Latency(ctx context.Context, m *Meter, rate int, d time.Duration) error
	// Idle runs everything that works jobs, for so long, without a job.
	Idle(ctx context.Context, m *Meter, d time.Duration) error
}

// Unable is why a contestant cannot be measured at something: tables show a dash.
type Unable string

// Error is the reason.
func (u Unable) Error() string { return string(u) }

// Absent is why a contestant cannot take part at all; an error of Prepare need not be one.
type Absent string

// Error is the reason.
func (a Absent) Error() string { return string(a) }

// unableReason returns why, if the error is Unable.
func unableReason(err error) (string, bool) {
	var u Unable
	ok := errors.As(err, &u)
	return string(u), ok
}

// cannot is embedded by contestants that are not measured at everything: every measuring
// method that they do not have is Unable, for this reason.
type cannot struct{ why Unable }

// Prepare needs nothing.
func (c cannot) Prepare(context.Context, *Stack) error { return nil }

// Insert is Unable.
func (c cannot) Insert(context.Context, *Meter, int) error { return c.why }

// Drain is Unable.
func (c cannot) Drain(context.Context, *Meter, int) error { return c.why }

// Both is Unable.
func (c cannot) Both(context.Context, *Meter, int) error { return c.why }

// Singles is Unable.
func (c cannot) Singles(context.Context, *Meter, int, time.Duration) error { return c.why }

// Latency is Unable.
func (c cannot) Latency(context.Context, *Meter, int, time.Duration) error { return c.why }

// Idle is Unable.
func (c cannot) Idle(context.Context, *Meter, time.Duration) error { return c.why }

// restricted is a contestant of which only some things are measured.
type restricted struct {
	Contestant
	may map[string]bool // "insert", "drain", "both", "singles", "latency", "idle"
	why Unable
}

// restrict makes one.
func restrict(c Contestant, why Unable, may ...string) Contestant {
	r := restricted{Contestant: c, may: make(map[string]bool, len(may)), why: why}
	for _, name := range may {
		r.may[name] = true
	}
	return r
}

func (r restricted) allow(name string, measure func() error) error {
	if !r.may[name] {
		return r.why
	}
	return measure()
}

// Insert is measured where it may be.
func (r restricted) Insert(ctx context.Context, m *Meter, n int) error {
	return r.allow("insert", func() error { return r.Contestant.Insert(ctx, m, n) })
}

// Drain is measured where it may be.
func (r restricted) Drain(ctx context.Context, m *Meter, n int) error {
	return r.allow("drain", func() error { return r.Contestant.Drain(ctx, m, n) })
}

// Both is measured where it may be.
func (r restricted) Both(ctx context.Context, m *Meter, n int) error {
	return r.allow("both", func() error { return r.Contestant.Both(ctx, m, n) })
}

// Singles is measured where it may be.
func (r restricted) Singles(ctx context.Context, m *Meter, clients int, d time.Duration) error {
	return r.allow("singles", func() error { return r.Contestant.Singles(ctx, m, clients, d) })
}

// Latency is measured where it may be.
func (r restricted) Latency(ctx context.Context, m *Meter, rate int, d time.Duration) error {
	return r.allow("latency", func() error { return r.Contestant.Latency(ctx, m, rate, d) })
}

// Idle is measured where it may be.
func (r restricted) Idle(ctx context.Context, m *Meter, d time.Duration) error {
	return r.allow("idle", func() error { return r.Contestant.Idle(ctx, m, d) })
}
