package kafkabus

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
)

// Options are the settings of a connection. The zero value is valid. What the URL says
// wins over them.
type Options struct {
	// Prefix begins the name of every topic and consumer group; default "duly".
	// Dot-separated words of a–z, 0–9 and hyphen.
	Prefix string
	// Partitions of the lanes' topics that are created, 1 to 1000; default 12. As many
	// workers can share a lane; a topic that exists keeps its own.
	Partitions int
	// Replicas of the topics that are created, 1 to 9; default 3, or as many as there
	// are brokers. Topics that exist keep theirs.
	Replicas int
	// SessionTimeout is how long a consumer may go without a sign of life before its
	// partitions are given to others; default 30 s, at least 1 s. It decides how soon the
	// messages of a worker that died come again. Brokers allow 6 s to 30 min unless told
	// otherwise.
	SessionTimeout time.Duration
	// DeadMaxAge is how long the topic of notices keeps them; default 30 days, at least
	// 1 h. A topic that exists keeps its own.
	DeadMaxAge time.Duration
	// TLS configures TLS; nil leaves it to the URL.
	TLS *tls.Config
	// Name is shown to the brokers' operators; default "duly".
	Name string
	// Log gets what an operator should know; nil discards it.
	Log *slog.Logger
	// Metrics takes the metrics; nil drops them.
	Metrics prometheus.Registerer

	sasl sasl.Mechanism // of the URL
	tune tuning
}

// tuning is what only tests change.
type tuning struct {
	look     time.Duration // how often topics and partitions are looked at without a reason
	truncate time.Duration // how often acknowledged messages are removed
	drain    time.Duration // how long a revocation waits for what is in hand
	backlog  int           // messages of a partition that wait here, above which it is paused
	extra    []kgo.Opt     // for every client
}

// ErrSettings: the URL or the options can never work.
var ErrSettings = errors.New("wrong settings")

const (
	minSessionTimeout = time.Second
	maxPartitions     = 1000
	maxReplicas       = 9
)

var prefixRule = regexp.MustCompile(`^[a-z0-9-]{1,64}(\.[a-z0-9-]{1,64}){0,7}$`)

// withDefaults fills in the defaults and refuses what is wrong, all at once.
func (o Options) withDefaults() (Options, error) {
	set(&o.Prefix, "duly")
	set(&o.Name, "duly")
	set(&o.Partitions, 12)
	set(&o.SessionTimeout, 30*time.Second)
	set(&o.DeadMaxAge, 30*24*time.Hour)
	set(&o.Log, slog.New(slog.DiscardHandler))
	set(&o.tune.look, 30*time.Second)
	set(&o.tune.truncate, time.Minute)
	set(&o.tune.drain, min(3*time.Second, o.SessionTimeout/3))
	set(&o.tune.backlog, 512)
	return o, o.check()
}

// set gives a setting its default.
func set[T comparable](setting *T, value T) {
	var zero T
	if *setting == zero {
		*setting = value
	}
}

func (o Options) check() error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !prefixRule.MatchString(o.Prefix) {
		refuse("prefix %q: must be dot-separated words of a-z, 0-9 and hyphen", o.Prefix)
	}
	if o.Partitions < 1 || o.Partitions > maxPartitions {
		refuse("partitions %d: must be 1 to %d", o.Partitions, maxPartitions)
	}
	if o.Replicas < 0 || o.Replicas > maxReplicas {
		refuse("replicas %d: must be 1 to %d", o.Replicas, maxReplicas)
	}
	if o.SessionTimeout < minSessionTimeout {
		refuse("session timeout %s: must be at least %s", o.SessionTimeout, minSessionTimeout)
	}
	if o.DeadMaxAge < time.Hour {
		refuse("dead max age %s: must be at least 1h", o.DeadMaxAge)
	}
	return errors.Join(errs...)
}
