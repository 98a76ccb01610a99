package machine

import (
	"math"
	"time"

	"duly.dev/duly/pkg/job"
)

// The types and rules of this file are about asking receivers what became of effects.
// When it is asked is no part of a row, since it decides nothing: an answer is an event
// like any other, and says itself when it was asked.

// Means is how a receiver can be asked about an effect key; empty is not at all.
type Means string

const (
	// MeansHTTP: by an HTTP request.
	MeansHTTP Means = "http"
	// MeansSQL: by a statement against a database.
	MeansSQL Means = "sql"
	// MeansGo: by a function in a worker of the user's own.
	MeansGo Means = "go"
)

// Asking is how far the asking about an unknown outcome has come. It begins anew where a
// generation becomes unknown again.
type Asking struct {
	// Means is how it is asked; empty where nobody can be.
	Means Means
	// Times is how often it was asked.
	Times int32
	// NextAt is when it is asked next; zero where it is asked no more.
	NextAt time.Time
	// Said is the last answer, and AskedAt when it was asked for; zero before the first.
	Said    job.Said
	AskedAt time.Time
	// Detail is a short line about the answer, such as the status of a response.
	Detail string
}

// BeginAsking is the asking about a row that has just become as it is; none where it is
// not unknown.
func (r Row) BeginAsking(now time.Time) Asking {
	if r.State != job.Unknown || !r.Current() {
		return Asking{}
	}
	a := Asking{Means: r.promises().Lookup}
	if a.Means != "" && !r.Closed {
		a.NextAt = r.NextAsk(0, now)
	}
	return a
}

// NextAsk is when an unknown outcome is asked about next, which was asked about so many
// times, the last time at the instant now: after the delays of its kind's policy. The
// instant from which a "no" counts is not slept through; before it, only a "yes" is worth
// asking for.
func (r Row) NextAsk(times int32, now time.Time) time.Time {
	next := now.Add(r.Kind.Policy.Delay(min(times, math.MaxInt32-1)+1, r.chanceOf(-times-1)))
	if from := r.NoFrom(); now.Before(from) && next.After(from) {
		next = from
	}
	return next.Truncate(time.Microsecond)
}

// Question is an unknown outcome that somebody took to ask about.
type Question struct {
	Job        int64
	Generation int32
	// Fence is the newest of the generation: the answer is about every attempt up to it.
	Fence                      int64
	Kind, Key, Subject, Period string
	Destination, Channel       string
	Means                      Means
	// Times is how often it was asked, this time included.
	Times int32
	// AskedAt is the ledger's clock when it was taken. It is asked no sooner, so that a
	// "no" counts as one of this instant, whatever the asker's own clock says.
	AskedAt time.Time
	// Next is when it is asked again if no answer settles it.
	Next time.Time
}

// EffectKey is what the receiver is asked about, as it goes on the wire.
func (q Question) EffectKey() string {
	return job.WireEffectKey(q.Kind, q.Key, q.Generation, q.Channel)
}

// Ask makes the question about a row at the instant now, which was asked about so many
// times before.
func (r Row) Ask(times int32, now time.Time) Question {
	return Question{
		Job: r.Job, Generation: r.Generation, Fence: r.Fence, Kind: r.Kind.Name, Channel: r.Channel, Means: r.promises().Lookup,
		Times: times + 1, AskedAt: now, Next: r.NextAsk(times+1, now),
	}
}

// Reply is what came of a question.
type Reply struct {
	Question
	Said job.Said
	// Receipt is what proves a "yes", where the receiver gave one.
	Receipt *job.Receipt
	// Detail is a short line without anything private.
	Detail string
}

// Event is the event of the reply; false where it says nothing that could settle a doubt.
func (r Reply) Event() (Event, bool) {
	names := map[job.Said]Name{job.SaidYes: AnswerYes, job.SaidNo: AnswerNo}
	name, ok := names[r.Said]
	ev := Event{Name: name, Fence: r.Fence, AskedAt: r.AskedAt, Detail: r.Detail, Actor: ActorLookup}
	if r.Said == job.SaidYes {
		ev.Result.Receipt = r.Receipt
	}
	return ev, ok
}

// Storable returns the reply with every text that came from outside made storable.
func (r Reply) Storable() Reply {
	clean := job.Result{Detail: r.Detail, Receipt: r.Receipt}.Storable()
	r.Detail, r.Receipt = clean.Detail, clean.Receipt
	return r
}

// ActorLookup is who answers where no person does.
const ActorLookup = "lookup"

// Answered is what became of a reply.
type Answered struct {
	// Found is false where there is no such generation any more.
	Found bool
	// State is where the generation stands now, as far as a "yes" or a "no" was decided
	// about.
	State job.State
	// Refused says why a "yes" or a "no" changed nothing.
	Refused Refusal
}
