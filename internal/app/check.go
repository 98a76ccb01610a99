package app

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"duly.dev/duly/internal/app/strictyaml"
	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/channel/httpchan"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

const (
	defaultPack = 32
	slowLimit   = 10 * time.Second // a kind over it makes its lane pack one by one
	maxSlots    = 100_000
	minPayload  = 1 << 10
	maxPayload  = 16 << 20

	minRetention = time.Hour
)

// checker turns what was written into a Config and collects what is wrong with it.
type checker struct {
	path     string // of the file, which other names are relative to
	document *strictyaml.Document
	file     *configFile
	problems []*strictyaml.Problem
	warnings []string
}

func (c *checker) refuse(field, rule string, args ...any) {
	c.problems = append(c.problems, c.document.Problem(field, fmt.Sprintf(rule, args...)))
}

func (c *checker) warn(text string, args ...any) {
	c.warnings = append(c.warnings, fmt.Sprintf(text, args...))
}

// require refuses a field unless ok.
func (c *checker) require(ok bool, field, rule string, args ...any) {
	if !ok {
		c.refuse(field, rule, args...)
	}
}

const nameRule = "a name is 1 to 64 characters of a-z, 0-9 and '-'"

func (c *checker) config(file string) *Config {
	f := c.file
	c.require(job.ValidName(f.Prefix), "prefix", nameRule)
	c.require(f.Limits.MaxPayload >= minPayload && f.Limits.MaxPayload <= maxPayload, "limits.max_payload",
		"it must be between %s and %s", strictyaml.Size(minPayload), strictyaml.Size(maxPayload))
	c.worker(f.Worker)
	c.require(len(f.Kinds) > 0, "kinds", "at least one kind must be described")
	var kinds []Kind
	for _, name := range slices.Sorted(maps.Keys(f.Kinds)) {
		if written := f.Kinds[name]; written != nil { // nil where it had no value, which decoding has told
			kinds = append(kinds, c.kind(name, written))
		}
	}
	lanes := c.lanes(kinds)
	c.drain(kinds)
	c.retention(kinds)
	c.sources()
	schedules := c.schedules(kinds)
	return &Config{
		File: file, Prefix: f.Prefix, Lanes: lanes, Worker: f.Worker, MaxPayload: int(f.Limits.MaxPayload), Retention: f.Retention,
		kinds: kinds, schedules: schedules, sources: f.Sources, warnings: c.warnings,
	}
}

func (c *checker) worker(w WorkerConfig) {
	c.require(w.Slots >= 1 && w.Slots <= maxSlots, "worker.slots", "it must be between 1 and %d", maxSlots)
	c.require(w.Heartbeat >= 100*time.Millisecond, "worker.heartbeat", "it must be at least 100ms")
	c.require(w.LeaseTime >= 3*w.Heartbeat, "worker.lease_time",
		"it must be at least 3 heartbeats (%s), or a worker that lives loses its leases", text(3*w.Heartbeat))
	c.require(w.Drain > 0, "worker.drain", "it must be positive")
	c.require(w.PauseBound > 0, "worker.pause_bound", "it must be positive")
}

// lanes resolves the declared lanes and the default one.
func (c *checker) lanes(kinds []Kind) []Lane {
	byLane := map[string][]Kind{}
	for _, k := range kinds {
		byLane[k.Lane] = append(byLane[k.Lane], k)
	}
	names := map[string]bool{}
	for name := range c.file.Lanes {
		c.require(job.ValidName(name), "lanes."+name, nameRule)
		names[name] = true
	}
	if len(byLane[DefaultLane]) > 0 {
		names[DefaultLane] = true
	}
	var lanes []Lane
	for _, name := range slices.Sorted(maps.Keys(names)) {
		lanes = append(lanes, c.lane(name, byLane[name]))
	}
	return lanes
}

func (c *checker) lane(name string, kinds []Kind) Lane {
	l := Lane{Name: name, Pack: defaultPack, Kinds: []string{}}
	var slow, fast []string
	for _, k := range kinds {
		l.Kinds = append(l.Kinds, k.Name)
		if k.Policy.Limit > slowLimit {
			slow = append(slow, k.Name)
		} else {
			fast = append(fast, k.Name)
		}
	}
	if len(slow) > 0 {
		l.Pack = 1
	}
	if declared := c.file.Lanes[name]; declared != nil && declared.Pack != nil {
		l.Pack = *declared.Pack
		c.require(l.Pack >= 1 && l.Pack <= bus.MaxRefs, "lanes."+name+".pack", "it must be between 1 and %d", bus.MaxRefs)
	}
	switch {
	case len(kinds) == 0:
		c.warn("lane %s has no kind", name)
	case len(slow) > 0 && len(fast) > 0:
		c.warn("lane %s mixes kinds with a limit over %s (%s) with faster ones (%s), which wait behind them: give the slow ones a lane of their own",
			name, text(slowLimit), strings.Join(slow, ", "), strings.Join(fast, ", "))
	}
	if l.Pack > c.file.Worker.Slots {
		c.warn("lane %s packs up to %d references into a message, but a worker has %d slots: what does not fit is held and comes again; lower lanes.%s.pack or raise worker.slots",
			name, l.Pack, c.file.Worker.Slots, name)
	}
	return l
}

// drain names the kinds that a deploy may cut (G14).
func (c *checker) drain(kinds []Kind) {
	for _, k := range kinds {
		if k.Policy.Limit > c.file.Worker.Drain {
			c.warn("kind %s may take %s, longer than a worker drains (%s): a deploy can end its attempts, burn them and leave their outcome unknown; raise worker.drain and the time that the platform waits before it kills",
				k.Name, text(k.Policy.Limit), text(c.file.Worker.Drain))
		}
	}
}

// retention names the kinds whose jobs leave while a person could still redrive them.
func (c *checker) retention(kinds []Kind) {
	kept := c.file.Retention
	c.require(kept >= minRetention, "retention", "it must be at least %s", text(minRetention))
	for _, k := range kinds {
		if kept >= minRetention && k.Policy.MaxLifetime > kept {
			c.warn("jobs of kind %s are removed %s after their end, within the %s in which they could still be redriven: raise retention or lower kinds.%s.max_lifetime",
				k.Name, text(kept), text(k.Policy.MaxLifetime), k.Name)
		}
	}
}

// kind resolves one kind.
func (c *checker) kind(name string, f *kindFile) Kind {
	at := "kinds." + name
	policy := f.policy(c.file.Worker)
	k := Kind{
		Kind: machine.Kind{
			Name: name, Lane: f.Lane, Channel: f.Channel, Policy: policy,
			Promises: f.promises(policy.Limit), Codes: f.Codes, RedriveBy: f.RedriveBy,
		},
		HTTP: f.HTTP, SMTP: f.SMTP, Lookup: f.Promises.Lookup, Gate: f.Cleanup, Resolve: f.Resolve,
	}
	if k.Lane == "" {
		k.Lane = DefaultLane
	}
	if k.RedriveBy == "" {
		k.RedriveBy = machine.RoleOperator
	}
	c.require(job.ValidName(name), at, nameRule)
	if _, declared := c.file.Lanes[k.Lane]; !declared && k.Lane != DefaultLane {
		c.refuse(at+".lane", "there is no such lane; declare it as lanes.%s: {}", k.Lane)
	}
	c.require(k.RedriveBy == machine.RoleOperator || k.RedriveBy == machine.RoleApprover, at+".redrive_by", "it must be operator or approver")
	c.codes(at, k.Codes)
	c.policy(at, k)
	c.promises(at, k)
	c.lookup(at+".promises.lookup", &k)
	c.cleanup(at+".cleanup", &k)
	c.resolve(at+".resolve", &k)
	c.channel(at, &k)
	return k
}

var codePattern = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`)

func (c *checker) codes(at string, codes []job.Code) {
	for i, code := range codes {
		field := fmt.Sprintf("%s.codes[%d]", at, i)
		switch {
		case !codePattern.MatchString(string(code)):
			c.refuse(field, "a code is 1 to 64 characters of A-Z, 0-9 and '_', a letter first")
		case code.Known():
			c.refuse(field, "it is one of Duly's own codes, which every kind has")
		case slices.Contains(codes[:i], code):
			c.refuse(field, "it is listed twice")
		}
	}
}

// policy checks a kind's policy for values that contradict each other.
func (c *checker) policy(at string, k Kind) {
	p, w := k.Policy, c.file.Worker
	for _, d := range []struct {
		key string
		v   time.Duration
	}{{"limit", p.Limit}, {"max_age", p.MaxAge}, {"max_lifetime", p.MaxLifetime}, {"base", p.Base}, {"cap", p.Cap}, {"max_hold", p.MaxHold}} {
		c.require(d.v > 0, at+"."+d.key, "it must be positive")
	}
	c.require(p.MaxAttempts >= 1 && p.MaxAttempts <= 1000, at+".max_attempts", "it must be between 1 and 1000")
	c.require(p.UnclassifiedCap >= 1, at+".unclassified_cap", "it must be at least 1")
	c.require(p.Jitter >= 0 && p.Jitter <= 1, at+".jitter", "it must be between 0 and 1")
	c.require(p.Cap >= p.Base, at+".cap", "it must not be shorter than base (%s)", text(p.Base))
	c.require(p.MaxLifetime >= p.MaxAge, at+".max_lifetime", "it must not be shorter than max_age (%s)", text(p.MaxAge))
	c.require(p.MaxAge >= p.Limit, at+".max_age", "it must not be shorter than limit (%s)", text(p.Limit))
	if longest := w.LeaseTime - w.Heartbeat; k.Channel != ChannelGo && p.Limit >= longest && longest > 0 {
		c.refuse(at+".limit", "it must be shorter than worker.lease_time - worker.heartbeat (%s), since an effect must fit into a lease", text(longest))
	}
}

// promises checks what a kind says about its receiver.
func (c *checker) promises(at string, k Kind) {
	p, w := k.Policy, c.file.Worker
	field := at + ".promises."
	c.require(k.Promises.Settle >= 0, field+"settle", "it must not be negative")
	// A lease ends at the latest one lease time after the limit (section 4 of the
	// design); the last byte may come a pause later.
	first := p.Limit + w.LeaseTime + p.PauseBound
	if least := first + k.Promises.Settle; k.Promises.ResolveWithin <= least {
		c.refuse(field+"resolve_within", "it must be longer than limit + lease_time + pause_bound + settle (%s), or no answer \"it did not happen\" could ever count", text(least))
	}
	if !c.document.Has(field + "window") {
		return
	}
	again := p.Limit + p.PauseBound
	if least := first + again + k.Promises.Settle; k.Promises.Window <= least {
		c.refuse(field+"window", "it must be longer than a first attempt (limit + lease_time + pause_bound), one repeat (limit + pause_bound) and settle together (%s), or nothing could be repeated inside it", text(least))
	}
}

// channel checks that a kind has exactly one channel, and that it could work.
func (c *checker) channel(at string, k *Kind) {
	sections := []struct {
		channel string
		given   bool
	}{{ChannelHTTP, k.HTTP != nil}, {ChannelSMTP, k.SMTP != nil}}
	for _, s := range sections {
		if s.given && s.channel != k.Channel {
			c.refuse(at+"."+s.channel, "the kind's channel is %q; a kind has exactly one channel, two channels are two kinds", k.Channel)
		}
	}
	switch k.Channel {
	case ChannelHTTP:
		if k.HTTP == nil {
			k.HTTP = &httpchan.Config{}
		}
		c.section(at+".http", k.HTTP.Validate())
	case ChannelSMTP:
		if k.SMTP == nil {
			c.refuse(at+".smtp", "a kind with channel smtp must say here which server takes its mail, and what the mail says")
			return
		}
		c.section(at+".smtp", k.SMTP.Validate())
		if k.Promises.Window > 0 {
			c.warn("kind %s promises a window, but mail servers do not dedupe: unless this one does, a mail whose outcome is unknown is sent twice; remove %s.promises.window", k.Name, at)
		}
	case ChannelGo:
	case "":
		c.refuse(at+".channel", "it must be given: http, smtp or go")
	default:
		c.refuse(at+".channel", "it must be http, smtp or go")
	}
}

// leadingField finds the field that a channel's error begins with, and the value
// after it, where there is one: `tls.min_version "1": it must be …`.
var leadingField = regexp.MustCompile(`^([a-z][a-z0-9_]*(?:[.\[][^\s:]*)?)(?: (?:"(?:[^"\\]|\\.)*"|\S+))?: `)

// section tells each problem of a channel's section with the line of its field.
func (c *checker) section(at string, err error) {
	for _, one := range leaves(err) {
		message := one.Error()
		if m := leadingField.FindStringSubmatch(message); m != nil {
			c.refuse(at+"."+m[1], "%s", message[len(m[0]):])
			continue
		}
		c.refuse(at, "%s", message)
	}
}

// leaves are the errors that a joined error joins.
func leaves(err error) []error {
	var many interface{ Unwrap() []error }
	if err == nil {
		return nil
	}
	if !errors.As(err, &many) {
		return []error{err}
	}
	var all []error
	for _, sub := range many.Unwrap() {
		all = append(all, leaves(sub)...)
	}
	return all
}

// text writes a duration for people.
func text(d time.Duration) string { return strictyaml.FormatDuration(d) }
