package machine

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"duly.dev/duly/pkg/job"
)

// Policy says how attempts of a kind are made and repeated. It takes effect per
// attempt: a changed policy governs the next decision.
type Policy struct {
	// Limit is the longest that one effect may take; of a Go handler, the whole
	// handler. Default 10 s.
	Limit time.Duration `json:"limit"`
	// MaxAttempts bounds the attempts of a generation. Default 8.
	MaxAttempts int32 `json:"max_attempts"`
	// MaxAge bounds a generation from its first ready. Default 24 h.
	MaxAge time.Duration `json:"max_age"`
	// MaxLifetime bounds a job over all redrives, from its first ready. Default 7 d.
	MaxLifetime time.Duration `json:"max_lifetime"`
	// Base is the delay before the second attempt; it doubles up to Cap. Default 30 s.
	Base time.Duration `json:"base"`
	// Cap is the longest delay. Default 30 min.
	Cap time.Duration `json:"cap"`
	// Jitter is the share of a delay that is left to chance, 0 to 1. Default 0.5.
	Jitter float64 `json:"jitter"`
	// UnclassifiedCap bounds the unclassified failures of a generation. Default 1.
	UnclassifiedCap int32 `json:"unclassified_cap"`
	// MaxHold is the longest that a receiver's Retry-After holds an endpoint. Default 24 h.
	MaxHold time.Duration `json:"max_hold"`
	// LeaseTime: a worker unheard of for this long is dead. Default 30 s.
	LeaseTime time.Duration `json:"lease_time"`
	// PauseBound is how long a process may write after the end of its lease at the
	// worst. Default 5 s.
	PauseBound time.Duration `json:"pause_bound"`
}

// DefaultPolicy is the policy of a kind that says nothing.
func DefaultPolicy() Policy {
	return Policy{
		Limit:           10 * time.Second,
		MaxAttempts:     8,
		MaxAge:          24 * time.Hour,
		MaxLifetime:     7 * 24 * time.Hour,
		Base:            30 * time.Second,
		Cap:             30 * time.Minute,
		Jitter:          0.5,
		UnclassifiedCap: 1,
		MaxHold:         24 * time.Hour,
		LeaseTime:       30 * time.Second,
		PauseBound:      5 * time.Second,
	}
}

// Promises are what a kind states about its receiver. They decide what an unknown
// outcome allows, and are fixed in a generation at its first attempt.
type Promises struct {
	// Window: the receiver dedupes on the effect key for at least this long after it
	// acted. Zero: it does not dedupe.
	Window time.Duration `json:"window,omitempty"`
	// Lookup: the receiver can be asked about an effect key, by these means.
	Lookup Means `json:"lookup,omitempty"`
	// Settle is how long the receiver may go on working on a request. Default 2 × limit.
	Settle time.Duration `json:"settle"`
	// ResolveWithin is how long an unknown outcome is worth asking about, from the
	// lease of the first doubtful attempt. Default 7 d.
	ResolveWithin time.Duration `json:"resolve_within"`
	// Resolve: the destination is asked for right before an attempt, by these means. Empty:
	// it is the one that the job was given. It is no promise, and stands here because it is
	// fixed with them.
	Resolve Means `json:"resolve,omitempty"`
}

// DefaultPromises promise nothing about a receiver whose effects take at most limit.
func DefaultPromises(limit time.Duration) Promises {
	return Promises{Settle: 2 * limit, ResolveWithin: 7 * 24 * time.Hour}
}

// Role says who may do what an operator's tool offers.
type Role string

const (
	// RoleOperator may redrive kinds that allow it, resolve, hold and cancel.
	RoleOperator Role = "operator"
	// RoleApprover may also redrive the kinds that ask for an approver.
	RoleApprover Role = "approver"
)

// Kind is a named type of work with its one policy, as the ledger keeps it.
type Kind struct {
	Name     string     `json:"name"`
	Lane     string     `json:"lane"`
	Channel  string     `json:"channel"`
	Policy   Policy     `json:"policy"`
	Promises Promises   `json:"promises"`
	Codes    []job.Code `json:"codes,omitempty"`
	// RedriveBy is the role that may redrive jobs of the kind. Default operator.
	RedriveBy Role `json:"redrive_by"`
	// Cleanup is the kind's cleanup gate; nil: nothing is cleaned up.
	Cleanup *CleanupRule `json:"cleanup,omitempty"`
}

// Hash names the kind's policy and promises in 12 hexadecimal digits, so that an
// event can say under which policy it was decided.
func (k Kind) Hash() string {
	b, err := json.Marshal(k)
	if err != nil { // a Kind holds nothing that cannot be encoded
		panic(err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:6])
}
