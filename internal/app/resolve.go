package app

import (
	"fmt"
	"time"

	"duly.dev/duly/internal/channel/httpchan"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

const (
	defaultResolveTimeout = 5 * time.Second
	maxResolveTimeout     = 10 * time.Second
)

// ResolveReceipt says what a receipt keeps of an address that was asked for.
type ResolveReceipt string

const (
	// ReceiptHash: job.ToHash of it.
	ReceiptHash ResolveReceipt = "hash"
	// ReceiptPlain: the address.
	ReceiptPlain ResolveReceipt = "plain"
)

// ResolveConfig is the `resolve` section of a kind: how the destinations of its jobs are
// asked for right before an attempt. Exactly one of SQL, HTTP and Go is set.
type ResolveConfig struct {
	// Timeout is the longest that one answer may take. Default 5 s.
	Timeout time.Duration `yaml:"timeout"`
	// Receipt says what the receipt keeps of the address. Default hash.
	Receipt ResolveReceipt          `yaml:"receipt"`
	SQL     *SQLResolve             `yaml:"sql"`
	HTTP    *httpchan.ResolveConfig `yaml:"http"`
	Go      *GoResolve              `yaml:"go"`
}

// SQLResolve asks a database.
type SQLResolve struct {
	// Statement is asked about many jobs at once; see ledger.Resolver.
	Statement string `yaml:"statement"`
	// Source is where it is asked: one of sources, or SourceLedger, the default.
	Source string `yaml:"source"`
}

// GoResolve asks a function beside the kind's handler.
type GoResolve struct{}

// means is how it asks; empty where there is no resolve.
func (r *ResolveConfig) means() machine.Means {
	switch {
	case r == nil:
		return ""
	case r.SQL != nil:
		return machine.MeansSQL
	case r.HTTP != nil:
		return machine.MeansHTTP
	default:
		return machine.MeansGo
	}
}

// resolve checks how a kind's destinations are asked for, and fills in what it leaves out.
func (c *checker) resolve(at string, k *Kind) {
	r := k.Resolve
	if r == nil {
		return
	}
	if !c.document.Has(at + ".timeout") {
		r.Timeout = defaultResolveTimeout
	}
	if !c.document.Has(at + ".receipt") {
		r.Receipt = ReceiptHash
	}
	given := 0
	for _, is := range []bool{r.SQL != nil, r.HTTP != nil, r.Go != nil} {
		if is {
			given++
		}
	}
	c.require(given == 1, at, "it must have exactly one of sql, http and go")
	c.require(r.Receipt == ReceiptHash || r.Receipt == ReceiptPlain, at+".receipt", "it must be hash or plain")
	c.require(r.Timeout > 0 && r.Timeout <= maxResolveTimeout, at+".timeout", "it must be above 0 and at most %s", text(maxResolveTimeout))
	w := c.file.Worker
	switch longest := w.LeaseTime - w.Heartbeat; {
	case longest <= 0 || r.Timeout <= 0 || r.Timeout > maxResolveTimeout:
	case k.Channel == ChannelGo:
		c.require(r.Timeout < longest/2, at+".timeout", "it must be shorter than half of worker.lease_time - worker.heartbeat (%s)", text(longest/2))
	case k.Policy.Limit < longest:
		c.require(r.Timeout+k.Policy.Limit < longest, at+".timeout",
			"together with limit (%s) it must be shorter than worker.lease_time - worker.heartbeat (%s), since an effect must fit into what the asking leaves of a lease", text(k.Policy.Limit), text(longest))
	}
	if r.SQL != nil {
		c.resolveBySQL(at+".sql", r.SQL)
	}
	if r.HTTP != nil {
		c.section(at+".http", r.HTTP.Validate())
	}
	c.require(r.Go == nil || k.Channel == ChannelGo, at+".go", "it is for kinds with channel go, whose workers are your own; this kind's channel is %q", k.Channel)
}

func (c *checker) resolveBySQL(at string, s *SQLResolve) {
	if err := ledger.CheckResolve(s.Statement); err != nil {
		c.refuse(at+".statement", "%v", err)
	}
	if s.Source == "" {
		s.Source = SourceLedger
	}
	c.require(job.ValidName(s.Source), at+".source", nameRule)
	c.declared(at+".source", s.Source)
}

// text says in words how a kind's destinations are asked for; empty where they are
// those that the jobs were given.
func (r *ResolveConfig) text() string {
	if r == nil {
		return ""
	}
	where := ""
	if r.SQL != nil {
		where = " (" + r.SQL.Source + ")"
	}
	return fmt.Sprintf("by %s%s within %s, receipt %s", r.means(), where, text(r.Timeout), r.Receipt)
}

// lateChecker is a kind's checker where destinations are asked for later: a job may be given
// none.
type lateChecker struct{ Checker }

// Check refuses a payload or a destination that the channel could not use.
func (c lateChecker) Check(destination string, payload []byte) *job.Refusal {
	if destination == "" {
		return nil
	}
	return c.Checker.Check(destination, payload)
}
