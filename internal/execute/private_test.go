package execute

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/channel"
	"duly.dev/duly/pkg/job"
)

// logbook is what a worker has logged.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logbook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Whatever becomes of an attempt, its line in the log names the job and shows nothing of
// what was to be sent, or to whom.
func TestG13NoLogLineShowsAPayloadOrADestination(t *testing.T) {
	t.Parallel()
	const payload, destination = "confidential-payload", "confidential-destination"
	var log logbook
	results := map[string]job.Result{
		"delivered": job.Done(nil), "failed": job.NotDone(job.ClassPermanent, job.CodeRejected, "no"),
		"unknown": job.MayBeDone(job.CodeTimeout, "no answer"), "later": job.NotDone(job.ClassTransient, job.CodeReceiverBusy, "busy"),
	}
	inBubble(t, func(r *rig) {
		r.options.Log = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		r.performer.do = func(ctx context.Context, e channel.Effect) job.Result {
			if e.Key == "panics" {
				_ = e.Begin()
				panic("a panic that says nothing")
			}
			return script(results)(ctx, e)
		}
	}, func(t *testing.T, r *rig) {
		for _, key := range []string{"delivered", "failed", "unknown", "later", "panics"} {
			spec := r.spec(key)
			spec.Payload, spec.Destination = []byte(`"`+payload+`"`), destination
			r.books.enqueue(spec)
			r.books.relay()
		}
		r.pass(time.Second)
	})
	text := log.String()
	for key := range results {
		require.Contains(t, text, `"key":"`+key+`"`)
	}
	require.NotContains(t, text, payload)
	require.NotContains(t, text, destination)
}
