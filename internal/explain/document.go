package explain

import (
	"encoding/json"
	"time"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// Private says what of a job's private parts is shown.
type Private struct {
	// Destination shows addresses in full; else they are masked.
	Destination bool
	// Payload shows the payload; else its size alone.
	Payload bool
}

// Document is the whole of a job. Its JSON form is part of the contract of every tool
// that prints it: fields are added, never renamed or removed.
type Document struct {
	Job         int64                `json:"job"`
	Kind        string               `json:"kind"`
	Key         string               `json:"key"`
	Lane        string               `json:"lane,omitempty"`
	Subject     string               `json:"subject,omitempty"`
	Period      string               `json:"period,omitempty"`
	State       job.State            `json:"state"`
	Removed     bool                 `json:"removed,omitempty"`
	AsOf        time.Time            `json:"as_of"`
	Explanation Explanation          `json:"explanation"`
	Generations []Generation         `json:"generations"`
	Events      []Event              `json:"events"`
	EventsCut   bool                 `json:"events_cut,omitempty"`
	Redrives    []Redrive            `json:"redrives,omitempty"`
	Unsendable  []machine.Unsendable `json:"unsendable,omitempty"`
	// Cleaned: what was generated for the job was removed; Cleanup says more.
	Cleaned bool     `json:"cleaned,omitempty"`
	Cleanup *Cleanup `json:"cleanup,omitempty"`
}

// Cleanup is the cleanup of a job.
type Cleanup struct {
	Generation int32         `json:"generation"`
	By         machine.Means `json:"by"`
	// Accepted: behind a delivery as the kind's rule asks; else behind another end.
	Accepted bool      `json:"accepted"`
	DueAt    time.Time `json:"due_at"`
	NextAt   time.Time `json:"next_at,omitzero"`
	Tries    int32     `json:"tries"`
	FailedAt time.Time `json:"failed_at,omitzero"`
	Error    string    `json:"error,omitempty"`
	ParkedAt time.Time `json:"parked_at,omitzero"`
	DoneAt   time.Time `json:"done_at,omitzero"`
	Rows     int64     `json:"rows,omitempty"`
	// GivenUpAt is since when it is tried no more, as a person decided.
	GivenUpAt time.Time `json:"given_up_at,omitzero"`
}

// Generation is one generation of a job, the oldest first in a Document.
type Generation struct {
	Generation  int32       `json:"generation"`
	State       job.State   `json:"state"`
	Waiting     job.Waiting `json:"waiting,omitempty"`
	Hold        job.Hold    `json:"hold,omitempty"`
	Reason      job.Reason  `json:"reason,omitempty"`
	Class       job.Class   `json:"class,omitempty"`
	Code        job.Code    `json:"code,omitempty"`
	Detail      string      `json:"detail,omitempty"`
	Fingerprint string      `json:"fingerprint,omitempty"`
	Attempts    int32       `json:"attempts"`
	MaxAttempts int32       `json:"max_attempts"`
	Fence       int64       `json:"fence"`
	Emission    int32       `json:"emission"`
	Worker      string      `json:"worker,omitempty"`
	Channel     string      `json:"channel,omitempty"`
	EffectKey   string      `json:"effect_key"`
	Destination string      `json:"destination,omitempty"`
	// Resolved is where its newest attempt was to go, of a kind whose destinations are asked
	// for right before one.
	Resolved        *Resolved       `json:"resolved,omitempty"`
	PayloadBytes    int             `json:"payload_bytes"`
	Payload         json.RawMessage `json:"payload,omitempty"`
	Receipt         *job.Receipt    `json:"receipt,omitempty"`
	Created         time.Time       `json:"created"`
	Due             time.Time       `json:"due"`
	Deadline        time.Time       `json:"deadline,omitzero"`
	DeadlineZone    string          `json:"deadline_zone,omitempty"`
	DeadlineLocal   string          `json:"deadline_local,omitempty"`
	FirstReady      time.Time       `json:"first_ready,omitzero"`
	WakeAt          time.Time       `json:"wake_at,omitzero"`
	LeasedAt        time.Time       `json:"leased_at,omitzero"`
	Ended           time.Time       `json:"ended,omitzero"`
	InDoubt         bool            `json:"in_doubt,omitempty"`
	DoubtSince      time.Time       `json:"doubt_since,omitzero"`
	NoCountsFrom    time.Time       `json:"no_counts_from,omitzero"`
	ClosesAt        time.Time       `json:"closes_at,omitzero"`
	Closed          bool            `json:"closed,omitempty"`
	Lookup          machine.Means   `json:"lookup,omitempty"`
	Asked           int32           `json:"asked,omitempty"`
	Said            job.Said        `json:"said,omitempty"`
	SaidDetail      string          `json:"said_detail,omitempty"`
	AskedAt         time.Time       `json:"asked_at,omitzero"`
	AskAt           time.Time       `json:"ask_at,omitzero"`
	CancelRequested bool            `json:"cancel_requested,omitempty"`
	Successor       int32           `json:"successor,omitempty"`
}

// Event is one thing that happened to a job, the oldest first in a Document.
type Event struct {
	At         time.Time    `json:"at"`
	Generation int32        `json:"generation"`
	Name       machine.Name `json:"event"`
	From       job.State    `json:"from,omitempty"`
	To         job.State    `json:"to"`
	Attempt    int32        `json:"attempt"`
	Fence      int64        `json:"fence"`
	Emission   int32        `json:"emission,omitempty"`
	Outcome    job.Outcome  `json:"outcome,omitempty"`
	Class      job.Class    `json:"class,omitempty"`
	Code       job.Code     `json:"code,omitempty"`
	Why        string       `json:"why,omitempty"`
	Detail     string       `json:"detail,omitempty"`
	WakeAt     time.Time    `json:"wake_at,omitzero"`
	EndsAt     time.Time    `json:"ends_at,omitzero"`
	Worker     string       `json:"worker,omitempty"`
	Version    string       `json:"worker_version,omitempty"`
	Classifier string       `json:"classifier,omitempty"`
	Policy     string       `json:"policy,omitempty"`
	Actor      string       `json:"actor,omitempty"`
	Receipt    *job.Receipt `json:"receipt,omitempty"`
	Late       bool         `json:"late,omitempty"`
}

// Redrive is one decision that opened a generation, the oldest first in a Document.
type Redrive struct {
	At          time.Time `json:"at"`
	RecoveryKey string    `json:"recovery_key"`
	Predecessor int32     `json:"predecessor"`
	Successor   int32     `json:"successor"`
	Approver    string    `json:"approver"`
	Actor       string    `json:"actor"`
	Reason      string    `json:"reason"`
	Forced      bool      `json:"forced,omitempty"`
	Evidence    string    `json:"evidence,omitempty"`
}

// Show makes the document of a job.
func Show(s machine.Story, p Private) Document {
	d := Document{
		Job: s.Job, Kind: s.Kind.Name, Key: s.Key, Lane: s.Kind.Lane, Subject: s.Subject, Period: s.Period,
		State: s.LastState, Removed: s.Removed, AsOf: s.Now.UTC(), Explanation: Of(s), EventsCut: s.EventsCut, Unsendable: s.Unsendable,
		Generations: []Generation{}, Events: []Event{},
	}
	if c := s.Cleanup; c != (machine.Cleanup{}) {
		d.Cleaned = !c.DoneAt.IsZero()
		d.Cleanup = &Cleanup{
			Generation: c.Generation, By: c.By, Accepted: c.Accepted, DueAt: utc(c.DueAt), NextAt: utc(c.NextAt), Tries: c.Tries,
			FailedAt: utc(c.FailedAt), Error: c.Error, ParkedAt: utc(c.ParkedAt), DoneAt: utc(c.DoneAt), Rows: c.Rows, GivenUpAt: utc(c.GivenUpAt),
		}
	}
	for _, g := range s.Generations {
		d.Generations = append(d.Generations, generation(s, g, p))
		d.State = g.State
	}
	for _, e := range s.Events {
		d.Events = append(d.Events, Event{
			At: e.At.UTC(), Generation: e.Generation, Name: e.Name, From: e.From, To: e.To, Attempt: e.Attempt, Fence: e.Fence, Emission: e.Emission,
			Outcome: e.Outcome, Class: e.Class, Code: e.Code, Why: e.Why, Detail: e.Detail, WakeAt: utc(e.WakeAt), EndsAt: utc(e.EndsAt),
			Worker: e.Worker, Version: e.Version, Classifier: e.Classifier, Policy: e.Policy, Actor: e.Actor, Receipt: receiptOf(e.Receipt, p), Late: e.Late,
		})
	}
	for _, r := range s.Redrives {
		d.Redrives = append(d.Redrives, Redrive{r.At.UTC(), r.RecoveryKey, r.Predecessor, r.Successor, r.Approver, r.Actor, r.Reason, r.Forced, r.Evidence})
	}
	return d
}

func generation(s machine.Story, g machine.Generation, p Private) Generation {
	channel := g.Channel
	if !g.Fixed {
		channel = g.Kind.Channel
	}
	shown := Generation{
		Generation: g.Generation, State: g.State, Waiting: g.Waiting, Hold: g.Hold, Reason: g.Reason, Class: g.LastClass, Code: g.LastCode,
		Detail: g.Detail, Fingerprint: g.Fingerprint, Attempts: g.Attempt, MaxAttempts: g.Kind.Policy.MaxAttempts, Fence: g.Fence, Emission: g.Emission,
		Worker: g.Worker, Channel: channel, EffectKey: job.WireEffectKey(s.Kind.Name, s.Key, g.Generation, channel),
		Destination: Mask(g.Destination), Resolved: resolved(g, p), PayloadBytes: len(g.Payload), Receipt: receiptOf(g.Receipt, p),
		Created: g.Created.UTC(), Due: g.Due.UTC(), Deadline: utc(g.Deadline), DeadlineZone: g.DeadlineZone, DeadlineLocal: g.DeadlineLocal,
		FirstReady: utc(g.FirstReady), WakeAt: utc(g.WakeAt), LeasedAt: utc(g.LeasedAt), Ended: utc(g.Ended),
		InDoubt: g.InDoubt(), DoubtSince: utc(g.DoubtSince), NoCountsFrom: utc(g.NoFrom()), ClosesAt: utc(g.ClosesAt()),
		Lookup: g.Asking.Means, Asked: g.Asking.Times, Said: g.Asking.Said, SaidDetail: g.Asking.Detail, AskedAt: utc(g.Asking.AskedAt), AskAt: utc(g.Asking.NextAt),
		Closed: g.Closed, CancelRequested: g.CancelRequested, Successor: g.Successor,
	}
	if p.Destination {
		shown.Destination = g.Destination
	}
	if p.Payload {
		shown.Payload = g.Payload
	}
	return shown
}

// utc is an instant in UTC; zero stays zero, so that it is left out.
func utc(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC()
}
