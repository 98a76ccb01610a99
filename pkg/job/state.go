package job

// State is where a generation of a job stands. There are seven states; the
// transitions between them are decided in one place (internal/machine) and are
// drawn in docs/states.md.
type State string

const (
	// Scheduled waits for an instant: to become due, to be retried, or because
	// it is held. Waiting says which.
	Scheduled State = "scheduled"
	// Ready is announced on the bus by an emission and may be leased by it.
	Ready State = "ready"
	// Leased is being tried by a worker under a fence.
	Leased State = "leased"
	// Delivered happened, and is known to have happened. Terminal.
	Delivered State = "delivered"
	// Quarantined will not be tried again by the machine and, as far as anyone
	// could know, did not happen. Terminal until a person redrives it.
	Quarantined State = "quarantined"
	// Cancelled was withdrawn before it could happen. Terminal; it changes no more.
	Cancelled State = "cancelled"
	// Unknown may have happened; a lookup or a person must say. Terminal once closed.
	Unknown State = "unknown"
)

// States lists every state in the order in which documents and tables show them.
func States() []State {
	return []State{Scheduled, Ready, Leased, Delivered, Quarantined, Cancelled, Unknown}
}

// Valid reports whether s is one of the seven states.
func (s State) Valid() bool {
	switch s {
	case Scheduled, Ready, Leased, Delivered, Quarantined, Cancelled, Unknown:
		return true
	}
	return false
}

// Pending reports whether the machine will still move the generation by itself:
// scheduled, ready or leased.
func (s State) Pending() bool { return s == Scheduled || s == Ready || s == Leased }

// Waiting is why a scheduled generation waits.
type Waiting string

const (
	// WaitingDue is not yet due.
	WaitingDue Waiting = "due"
	// WaitingRetry was tried and will be tried again.
	WaitingRetry Waiting = "retry"
	// WaitingHeld may not run now; Hold says why.
	WaitingHeld Waiting = "held"
)

// Hold is why a job that is due may not run now. A hold costs no attempt.
type Hold string

const (
	// HoldPaused: its kind, lane or endpoint was paused by a person.
	HoldPaused Hold = "paused"
	// HoldRate: the rate limit of its kind, lane or endpoint is used up.
	HoldRate Hold = "rate"
	// HoldConcurrency: as many as allowed are being tried already.
	HoldConcurrency Hold = "concurrency"
	// HoldBreaker: its endpoint fails and is given a rest.
	HoldBreaker Hold = "breaker"
	// HoldUnknownKind: the worker that received it does not know its kind.
	HoldUnknownKind Hold = "unknown_kind"
	// HoldVersion: the kind's version guard excludes the worker's version.
	HoldVersion Hold = "version"
	// HoldSlots: the worker that received it had no free slot.
	HoldSlots Hold = "slots"
)

// Holds lists every reason to hold a job.
func Holds() []Hold {
	return []Hold{HoldPaused, HoldRate, HoldConcurrency, HoldBreaker, HoldUnknownKind, HoldVersion, HoldSlots}
}

// Reason is why a generation was quarantined, or the note of an unknown one that
// would have been quarantined had it not been in doubt. The set is closed.
type Reason string

const (
	// ReasonPermanent: the same input would fail again.
	ReasonPermanent Reason = "permanent"
	// ReasonUnclassified: no rule matched, as often as unclassified_cap allows.
	ReasonUnclassified Reason = "unclassified"
	// ReasonAttempts: max_attempts of this generation are used up.
	ReasonAttempts Reason = "attempts_exhausted"
	// ReasonTooOld: max_age of the generation or max_lifetime of the job is over.
	ReasonTooOld Reason = "too_old"
	// ReasonDeadline: the deadline has passed, or a receiver asked to wait beyond it.
	ReasonDeadline Reason = "deadline_passed"
)

// Reasons lists every quarantine reason.
func Reasons() []Reason {
	return []Reason{ReasonPermanent, ReasonUnclassified, ReasonAttempts, ReasonTooOld, ReasonDeadline}
}
