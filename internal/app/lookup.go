package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"duly.dev/duly/internal/channel"
	"duly.dev/duly/internal/channel/httpchan"
	refs "duly.dev/duly/internal/channel/secret"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/machine"
)

// The bounds of what one answer of a receiver may take, and of how many are asked about at
// once.
const (
	defaultLookupTimeout = 10 * time.Second
	maxLookupTimeout     = 30 * time.Second
	defaultLookupAtOnce  = 8
	maxLookupAtOnce      = 1000
	maxSQLLookupAtOnce   = 16 // each has a connection
)

// LookupConfig is the `lookup` section of a kind's promises: how its receiver is asked
// what became of an effect. Exactly one of HTTP, SQL and Go is set.
type LookupConfig struct {
	// Timeout is the longest that one answer may take. Default 10 s.
	Timeout time.Duration `yaml:"timeout"`
	// AtOnce is how many one process asks about at the same time, by SQL at most 16.
	// Default 8.
	AtOnce int                    `yaml:"at_once"`
	HTTP   *httpchan.LookupConfig `yaml:"http"`
	SQL    *SQLLookup             `yaml:"sql"`
	Go     *GoLookup              `yaml:"go"`
}

// SQLLookup asks a database.
type SQLLookup struct {
	// Statement takes the effect key as $1; see ledger.Lookup.
	Statement string `yaml:"statement"`
	// DSN is where the database is. Default: it is the ledger's own.
	DSN *refs.Ref `yaml:"dsn"`
}

// GoLookup asks a function beside the kind's handler.
type GoLookup struct{}

// means is how it asks; empty where there is no lookup.
func (l *LookupConfig) means() machine.Means {
	switch {
	case l == nil:
		return ""
	case l.HTTP != nil:
		return machine.MeansHTTP
	case l.SQL != nil:
		return machine.MeansSQL
	default:
		return machine.MeansGo
	}
}

// lookup checks how a kind's receiver is asked, and fills in what it leaves out.
func (c *checker) lookup(at string, k *Kind) {
	l := k.Lookup
	if l == nil {
		return
	}
	if !c.document.Has(at + ".timeout") {
		l.Timeout = defaultLookupTimeout
	}
	if !c.document.Has(at + ".at_once") {
		l.AtOnce = defaultLookupAtOnce
	}
	c.require(l.Timeout > 0 && l.Timeout <= maxLookupTimeout, at+".timeout", "it must be above 0 and at most %s", text(maxLookupTimeout))
	most := maxLookupAtOnce
	if l.SQL != nil {
		most = maxSQLLookupAtOnce
	}
	c.require(l.AtOnce >= 1 && l.AtOnce <= most, at+".at_once", "it must be between 1 and %d", most)
	given := 0
	for _, is := range []bool{l.HTTP != nil, l.SQL != nil, l.Go != nil} {
		if is {
			given++
		}
	}
	c.require(given == 1, at, "it must have exactly one of http, sql and go")
	if l.HTTP != nil {
		c.section(at+".http", l.HTTP.Validate())
		if !l.HTTP.KnowsNo() {
			c.warn("kind %s: no answer of its lookup means no: what did not happen stays unknown until it is closed or a person says so", k.Name)
		}
	}
	if l.SQL != nil {
		c.section(at+".sql", l.SQL.validate())
	}
	c.require(l.Go == nil || k.Channel == ChannelGo, at+".go", "it is for kinds with channel go, whose workers are your own; this kind's channel is %q", k.Channel)
}

func (s *SQLLookup) validate() error {
	var errs []error
	if err := ledger.CheckLookup(s.Statement); err != nil {
		errs = append(errs, fmt.Errorf("statement: %w", err))
	}
	if s.DSN != nil {
		errs = append(errs, s.DSN.Validate("dsn"))
	}
	return errors.Join(errs...)
}

// OpenHTTPLookups opens the lookups by HTTP of every kind that has one, by the kind's
// name, and pushes each teardown on the stack. It reads the secrets and files that the
// configuration refers to; what is wrong with them ends a program with ExitUsage.
func (c *Config) OpenHTTPLookups(stack *Stack) (map[string]channel.Lookup, error) {
	lookups := map[string]channel.Lookup{}
	for _, k := range c.kinds {
		if k.Lookup == nil || k.Lookup.HTTP == nil {
			continue
		}
		opened, err := httpchan.NewLookup(*k.Lookup.HTTP)
		if err != nil {
			return nil, Exit(ExitUsage, fmt.Errorf("opening the lookup of kind %s: promises.lookup.http.%w", k.Name, err))
		}
		stack.Push("lookup of kind "+k.Name, channelBound, func(context.Context) error { return opened.Close() })
		lookups[k.Name] = opened
	}
	return lookups, nil
}
