package app

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"duly.dev/duly/internal/app/strictyaml"
	"duly.dev/duly/internal/channel/httpchan"
	"duly.dev/duly/internal/channel/secret"
	"duly.dev/duly/internal/channel/smtpchan"
	"duly.dev/duly/internal/machine"
)

// DefaultLane is the lane of a kind that names none; it need not be declared.
const DefaultLane = "default"

// The channels that a kind can have.
const (
	ChannelHTTP = "http"
	ChannelSMTP = "smtp"
	ChannelGo   = "go"
)

// Config is a configuration that was checked, with every default filled in. It is
// not changed after LoadConfig.
type Config struct {
	// File is where it came from.
	File string
	// Prefix begins the names of the bus's topics and streams.
	Prefix string
	// Lanes are the lanes that have kinds or were declared, by name.
	Lanes []Lane
	// Worker is how workers lease and drain.
	Worker WorkerConfig
	// MaxPayload is the largest payload, in bytes.
	MaxPayload int
	// Retention is how long a job, and what happened to it, is kept after its end.
	Retention time.Duration

	kinds     []Kind
	schedules []Schedule
	sources   map[string]*secret.Ref
	warnings  []string
}

// Lane is a named stream of kinds.
type Lane struct {
	Name string `json:"name"`
	// Pack is the most references that one message carries.
	Pack int `json:"pack"`
	// Kinds are the names of its kinds.
	Kinds []string `json:"kinds"`
}

// Kind is a kind with what its channel is configured with.
type Kind struct {
	machine.Kind
	// HTTP is set where the channel is http, SMTP where it is smtp.
	HTTP *httpchan.Config
	SMTP *smtpchan.Config
	// Lookup is how its receiver can be asked what became of an effect; nil: it cannot.
	Lookup *LookupConfig
	// Gate is how it is cleaned up behind its jobs; nil: it is not.
	Gate *CleanupConfig
	// Resolve is how the destinations of its jobs are asked for right before an attempt; nil:
	// they are those that the jobs were given.
	Resolve *ResolveConfig
}

// LoadConfig reads and checks a configuration. The error joins every problem that
// was found (see Problems), each naming file, line, field, value and rule.
func LoadConfig(path string) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w (name the file with --config or DULY_CONFIG)", err)
	}
	return ParseConfig(path, data)
}

// ParseConfig checks a configuration that is in memory; file names it in problems.
func ParseConfig(file string, data []byte) (*Config, error) {
	document, err := strictyaml.Parse(file, data)
	if err != nil {
		return nil, err
	}
	written := defaultFile()
	decoding := document.Decode(&written)
	check := &checker{path: file, document: document, file: &written}
	config := check.config(file)
	if problems := join(Problems(decoding), check.problems); len(problems) > 0 {
		return nil, joined(problems)
	}
	return config, nil
}

// Kinds returns every kind, by name.
func (c *Config) Kinds() []machine.Kind {
	kinds := make([]machine.Kind, len(c.kinds))
	for i, k := range c.kinds {
		kinds[i] = k.Kind
	}
	return kinds
}

// Kind returns a kind with its channel's configuration; false where there is none of
// this name.
func (c *Config) Kind(name string) (Kind, bool) {
	i := slices.IndexFunc(c.kinds, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{}, false
	}
	return c.kinds[i], true
}

// LaneNames are the names of the lanes, in order.
func (c *Config) LaneNames() []string {
	names := make([]string, len(c.Lanes))
	for i, l := range c.Lanes {
		names[i] = l.Name
	}
	return names
}

// Packs is the pack of every lane, by its name.
func (c *Config) Packs() map[string]int {
	packs := map[string]int{}
	for _, l := range c.Lanes {
		packs[l.Name] = l.Pack
	}
	return packs
}

// Warnings are what is allowed and yet worth a thought, in words.
func (c *Config) Warnings() []string { return c.warnings }

// Problems returns the problems that an error of LoadConfig joins; none where it is
// another error, such as a file that cannot be read.
func Problems(err error) []*strictyaml.Problem {
	if err == nil {
		return nil
	}
	var one *strictyaml.Problem
	var many interface{ Unwrap() []error }
	switch {
	case errors.As(err, &many):
		var all []*strictyaml.Problem
		for _, sub := range many.Unwrap() {
			all = append(all, Problems(sub)...)
		}
		return all
	case errors.As(err, &one):
		return []*strictyaml.Problem{one}
	}
	return nil
}

// join merges what decoding and checking found, in the order of each file. A field
// that could not be decoded is not complained about twice.
func join(decoding, checking []*strictyaml.Problem) []*strictyaml.Problem {
	all := decoding
	for _, p := range checking {
		known := slices.ContainsFunc(decoding, func(d *strictyaml.Problem) bool { return d.Field == p.Field && d.Line == p.Line })
		if !known {
			all = append(all, p)
		}
	}
	slices.SortStableFunc(all, func(a, b *strictyaml.Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return all
}

func joined(problems []*strictyaml.Problem) error {
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = p
	}
	return errors.Join(errs...)
}
