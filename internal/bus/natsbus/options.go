package natsbus

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options are the settings of a connection. The zero value is valid.
type Options struct {
	// Prefix begins every subject and stream name; default "duly". Dot-separated words
	// of a–z, 0–9 and hyphen.
	Prefix string
	// Replicas of the streams that are created, 1 (default) or 3. Existing streams keep
	// theirs.
	Replicas int
	// AtomicBatches makes Publish send messages of one stream as atomic batches. Choose it
	// where the server has sync_interval: always: a batch then needs one sync, which
	// about doubles the rate. Elsewhere it is slower. Streams that are created allow it
	// from then on; one that exists must have allow_atomic, or messages go singly.
	AtomicBatches bool
	// AckWait is how long a delivery may go without a sign of life before the server
	// gives it to another worker; default 30 s, at least 1 s. It decides how soon the
	// messages of a worker that died come again. It is written into consumers that are
	// created; one that exists keeps its own.
	AckWait time.Duration
	// DuplicateWindow is how long the server remembers message ids; default 2 min, at
	// least 100 ms. Correctness never depends on it.
	DuplicateWindow time.Duration
	// DeadMaxAge is how long the stream of notices keeps them; default 30 days.
	DeadMaxAge time.Duration
	// CredsFile is a NATS credentials file (JWT and key); empty for none.
	CredsFile string
	// TLS configures TLS; nil leaves it to the URL (tls://) and the server.
	TLS *tls.Config
	// Name is shown to the server's operators; default "duly".
	Name string
	// Log gets what an operator should know; nil discards it.
	Log *slog.Logger
	// Metrics takes the metrics; nil drops them.
	Metrics prometheus.Registerer
}

const (
	minAckWait         = time.Second
	minDuplicateWindow = 100 * time.Millisecond // the server's own rule
)

var prefixRule = regexp.MustCompile(`^[a-z0-9-]{1,64}(\.[a-z0-9-]{1,64}){0,7}$`)

// withDefaults fills in the defaults and refuses what is wrong, all at once.
func (o Options) withDefaults() (Options, error) {
	if o.Prefix == "" {
		o.Prefix = "duly"
	}
	if o.Name == "" {
		o.Name = "duly"
	}
	if o.Replicas == 0 {
		o.Replicas = 1
	}
	if o.AckWait == 0 {
		o.AckWait = 30 * time.Second
	}
	if o.DuplicateWindow == 0 {
		o.DuplicateWindow = 2 * time.Minute
	}
	if o.DeadMaxAge == 0 {
		o.DeadMaxAge = 30 * 24 * time.Hour
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, o.check()
}

func (o Options) check() error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !prefixRule.MatchString(o.Prefix) {
		refuse("prefix %q: must be dot-separated words of a-z, 0-9 and hyphen", o.Prefix)
	}
	if o.Replicas != 1 && o.Replicas != 3 {
		refuse("replicas %d: must be 1 or 3", o.Replicas)
	}
	if o.AckWait < minAckWait {
		refuse("ack wait %s: must be at least %s", o.AckWait, minAckWait)
	}
	if o.DuplicateWindow < minDuplicateWindow {
		refuse("duplicate window %s: must be at least %s", o.DuplicateWindow, minDuplicateWindow)
	}
	if o.DeadMaxAge < o.DuplicateWindow {
		refuse("dead max age %s: must be at least the duplicate window, %s", o.DeadMaxAge, o.DuplicateWindow)
	}
	if o.CredsFile != "" {
		if _, err := os.Stat(o.CredsFile); err != nil {
			refuse("creds file: %w", err)
		}
	}
	return errors.Join(errs...)
}
