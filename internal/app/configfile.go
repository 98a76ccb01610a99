package app

import (
	"time"

	"duly.dev/duly/internal/app/strictyaml"
	"duly.dev/duly/internal/channel/httpchan"
	"duly.dev/duly/internal/channel/secret"
	"duly.dev/duly/internal/channel/smtpchan"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// configFile is duly.yaml as it is written. Pointers are values whose default
// depends on others. docs/configuration.md documents every key.
type configFile struct {
	Prefix string               `yaml:"prefix"`
	Lanes  map[string]*laneFile `yaml:"lanes"`
	Kinds  map[string]*kindFile `yaml:"kinds"`
	Worker WorkerConfig         `yaml:"worker"`
	Limits limitsFile           `yaml:"limits"`
	// Schedules fire runs, on the business days of Holidays.
	Schedules map[string]*scheduleFile `yaml:"schedules"`
	Holidays  map[string]*holidaysFile `yaml:"holidays"`
	// Sources are databases that selections are asked of, besides the ledger's own.
	Sources map[string]*secret.Ref `yaml:"sources"`
	// Retention is how long jobs are kept after their end.
	Retention time.Duration `yaml:"retention"`
}

type laneFile struct {
	Pack *int `yaml:"pack"`
}

type kindFile struct {
	Lane            string           `yaml:"lane"`
	Channel         string           `yaml:"channel"`
	Limit           *time.Duration   `yaml:"limit"`
	MaxAttempts     *int32           `yaml:"max_attempts"`
	MaxAge          *time.Duration   `yaml:"max_age"`
	MaxLifetime     *time.Duration   `yaml:"max_lifetime"`
	Base            *time.Duration   `yaml:"base"`
	Cap             *time.Duration   `yaml:"cap"`
	Jitter          *float64         `yaml:"jitter"`
	UnclassifiedCap *int32           `yaml:"unclassified_cap"`
	MaxHold         *time.Duration   `yaml:"max_hold"`
	Promises        promisesFile     `yaml:"promises"`
	Codes           []job.Code       `yaml:"codes"`
	RedriveBy       machine.Role     `yaml:"redrive_by"`
	Cleanup         *CleanupConfig   `yaml:"cleanup"`
	Resolve         *ResolveConfig   `yaml:"resolve"`
	HTTP            *httpchan.Config `yaml:"http"`
	SMTP            *smtpchan.Config `yaml:"smtp"`
}

type promisesFile struct {
	Window        *time.Duration `yaml:"window"`
	Settle        *time.Duration `yaml:"settle"`
	ResolveWithin *time.Duration `yaml:"resolve_within"`
	Lookup        *LookupConfig  `yaml:"lookup"`
}

type limitsFile struct {
	MaxPayload strictyaml.Size `yaml:"max_payload"`
}

// WorkerConfig is how workers lease and drain.
type WorkerConfig struct {
	// Slots is how many effects a worker performs at once. Default 100.
	Slots int `yaml:"slots"`
	// LeaseTime: a worker unheard of for this long is dead. Default 30 s.
	LeaseTime time.Duration `yaml:"lease_time"`
	// Heartbeat is how often a worker renews its leases. Default 5 s.
	Heartbeat time.Duration `yaml:"heartbeat"`
	// Drain is what a worker has to finish its effects once it is told to stop.
	// Default 30 s.
	Drain time.Duration `yaml:"drain"`
	// PauseBound is the longest that a process may be paused between its last check
	// and its last byte. Default 5 s.
	PauseBound time.Duration `yaml:"pause_bound"`
}

// defaultFile is what an absent key means.
func defaultFile() configFile {
	policy := machine.DefaultPolicy()
	return configFile{
		Prefix: "duly",
		Worker: WorkerConfig{
			Slots:      100,
			LeaseTime:  policy.LeaseTime,
			Heartbeat:  5 * time.Second,
			Drain:      30 * time.Second,
			PauseBound: policy.PauseBound,
		},
		Limits:    limitsFile{MaxPayload: job.DefaultMaxPayload},
		Retention: 30 * 24 * time.Hour,
	}
}

// set replaces a default where the file says something.
func set[T any](target, given *T) {
	if given != nil {
		*target = *given
	}
}

// policy is the kind's policy with its defaults filled in.
func (k *kindFile) policy(w WorkerConfig) machine.Policy {
	p := machine.DefaultPolicy()
	p.LeaseTime, p.PauseBound = w.LeaseTime, w.PauseBound
	set(&p.Limit, k.Limit)
	set(&p.MaxAttempts, k.MaxAttempts)
	set(&p.MaxAge, k.MaxAge)
	set(&p.MaxLifetime, k.MaxLifetime)
	set(&p.Base, k.Base)
	set(&p.Cap, k.Cap)
	set(&p.Jitter, k.Jitter)
	set(&p.UnclassifiedCap, k.UnclassifiedCap)
	set(&p.MaxHold, k.MaxHold)
	return p
}

// promises are the kind's promises with their defaults filled in.
func (k *kindFile) promises(limit time.Duration) machine.Promises {
	p := machine.DefaultPromises(limit)
	set(&p.Window, k.Promises.Window)
	set(&p.Settle, k.Promises.Settle)
	set(&p.ResolveWithin, k.Promises.ResolveWithin)
	p.Lookup, p.Resolve = k.Promises.Lookup.means(), k.Resolve.means()
	return p
}
