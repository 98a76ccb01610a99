package app

import (
	"fmt"
	"time"

	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/machine"
)

const (
	defaultCleanupTimeout = 10 * time.Second
	maxCleanupTimeout     = 30 * time.Second
	maxCleanupTries       = 1000
)

// CleanupConfig is the `cleanup` section of a kind: how, and from when on, the rows that
// were generated for its jobs are removed. Exactly one of Statement and Go is set.
type CleanupConfig struct {
	// Statement takes the operation key as $1, in the ledger's database; see
	// ledger.CheckCleanup.
	Statement string `yaml:"statement"`
	// Go asks the function beside the kind's handler.
	Go *GoCleanup `yaml:"go"`
	// When, From, After, MaxTries and MaxAge are the gate; see machine.CleanupRule.
	When     machine.CleanupWhen `yaml:"when"`
	From     time.Duration       `yaml:"from"`
	After    time.Duration       `yaml:"after"`
	MaxTries int32               `yaml:"max_tries"`
	MaxAge   time.Duration       `yaml:"max_age"`
	// Timeout is the longest that one cleanup may take. Default 10 s.
	Timeout time.Duration `yaml:"timeout"`
}

// GoCleanup cleans up by a function beside the kind's handler.
type GoCleanup struct{}

// cleanup checks how a kind is cleaned up behind, and fills in what it leaves out.
func (c *checker) cleanup(at string, k *Kind) {
	g := k.Gate
	if g == nil {
		return
	}
	rule := machine.DefaultCleanup()
	absent := func(key string) bool { return !c.document.Has(at + "." + key) }
	if absent("when") {
		g.When = rule.When
	}
	if absent("after") {
		g.After = max(rule.After, k.Policy.MaxLifetime)
	}
	if absent("max_tries") {
		g.MaxTries = rule.MaxTries
	}
	if absent("max_age") {
		g.MaxAge = rule.MaxAge
	}
	if absent("timeout") {
		g.Timeout = defaultCleanupTimeout
	}
	byGo := g.Go != nil
	c.require(byGo == absent("statement"), at, "it must have exactly one of statement and go")
	if !byGo && !absent("statement") {
		if err := ledger.CheckCleanup(g.Statement); err != nil {
			c.refuse(at+".statement", "%s", err)
		}
	}
	c.require(!byGo || k.Channel == ChannelGo, at+".go", "it is for kinds with channel go, whose workers are your own; this kind's channel is %q", k.Channel)
	c.require(g.When == machine.CleanupDelivered || g.When == machine.CleanupReceipt, at+".when", "it must be delivered or receipt")
	c.require(g.From >= 0, at+".from", "it must not be negative")
	c.require(g.After >= k.Policy.MaxLifetime, at+".after", "it must not be shorter than max_lifetime (%s), within which a job that ended badly can be redriven and needs its rows", text(k.Policy.MaxLifetime))
	c.require(g.MaxTries >= 1 && g.MaxTries <= maxCleanupTries, at+".max_tries", "it must be between 1 and %d", maxCleanupTries)
	c.require(g.MaxAge > 0, at+".max_age", "it must be positive")
	c.require(g.Timeout > 0 && g.Timeout <= maxCleanupTimeout, at+".timeout", "it must be above 0 and at most %s", text(maxCleanupTimeout))
	rule = machine.CleanupRule{By: machine.MeansSQL, When: g.When, From: g.From, After: g.After, MaxTries: g.MaxTries, MaxAge: g.MaxAge}
	if byGo {
		rule.By = machine.MeansGo
	}
	k.Cleanup = &rule
	if longest := max(g.From, g.After); longest > c.file.Retention {
		c.warn("kind %s is cleaned up behind its jobs up to %s after their end, longer than retention (%s): they are kept until their cleanup is done", k.Name, text(longest), text(c.file.Retention))
	}
}

// cleanupText says a kind's gate in words; empty where it has none.
func cleanupText(r *machine.CleanupRule) string {
	if r == nil {
		return ""
	}
	what := map[machine.CleanupWhen]string{machine.CleanupDelivered: "a delivery", machine.CleanupReceipt: "a receipt"}[r.When]
	return fmt.Sprintf("by %s, %s after %s, %s after any other end", r.By, text(r.From), what, text(r.After))
}
