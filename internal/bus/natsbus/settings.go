package natsbus

import (
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"duly.dev/duly/internal/bus"
)

// setting is one setting of a stream or consumer that must not be what it is.
type setting struct {
	name  string // as the server's API and tools write it
	value any
	bad   bool
	must  string // what it must be, and why
}

// refuse reports all bad settings of a thing at once.
func refuse(thing string, settings []setting) error {
	var errs []error
	for _, s := range settings {
		if s.bad {
			errs = append(errs, fmt.Errorf("%w: %s: %s is %v, %s", bus.ErrUnsafe, thing, s.name, s.value, s.must))
		}
	}
	return errors.Join(errs...)
}

// checkStream refuses a stream that could drop or never deliver unacknowledged work.
func checkStream(t topic, c jetstream.StreamConfig) error {
	settings := []setting{
		{"subjects", c.Subjects, !sameSubjects(c.Subjects, t.subjects), fmt.Sprintf("must be %v", t.subjects)},
		{"storage", c.Storage, c.Storage != jetstream.FileStorage, "must be file: a restart would lose what is in memory"},
		{"no_ack", c.NoAck, c.NoAck, "must be false: nobody would know what was stored"},
		{"sealed", c.Sealed, c.Sealed, "must be false: nothing could be published"},
		{"persist_mode", c.PersistMode, c.PersistMode == jetstream.AsyncPersistMode, "must be default: messages would be acknowledged before they are stored"},
		{"mirror", c.Mirror != nil, c.Mirror != nil, "must be absent: nothing could be published"},
		{"subject_transform", c.SubjectTransform != nil, c.SubjectTransform != nil, "must be absent: messages would not arrive on the subject that is consumed"},
	}
	if !t.dead {
		settings = append(settings, workSettings(c)...)
	}
	return refuse("stream "+c.Name, settings)
}

func workSettings(c jetstream.StreamConfig) []setting {
	drops := "must be unlimited: at the limit unacknowledged work is dropped, or delayed work refused; bound the account or the server instead"
	return []setting{
		{"retention", c.Retention, c.Retention != jetstream.WorkQueuePolicy, "must be workqueue: work stays until it is acknowledged, and no longer"},
		{"max_age", c.MaxAge, c.MaxAge != 0, drops},
		{"max_msgs", c.MaxMsgs, c.MaxMsgs > 0, drops},
		{"max_bytes", c.MaxBytes, c.MaxBytes > 0, drops},
		{"max_msgs_per_subject", c.MaxMsgsPerSubject, c.MaxMsgsPerSubject > 0, drops},
		{"allow_msg_schedules", c.AllowMsgSchedules, !c.AllowMsgSchedules, "must be true (with discard: old, which drops nothing without a limit): retries wait as message schedules"},
	}
}

func sameSubjects(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// checkConsumer refuses a consumer that could drop or withhold work.
func checkConsumer(name string, c jetstream.ConsumerConfig) error {
	return refuse("consumer "+name, []setting{
		{"ack_policy", c.AckPolicy, c.AckPolicy != jetstream.AckExplicitPolicy, "must be explicit: work would count as done when it is delivered"},
		{"max_deliver", c.MaxDeliver, c.MaxDeliver > 0, "must be -1: work would be given up after so many deliveries"},
		{"max_ack_pending", c.MaxAckPending, c.MaxAckPending > 0, "must be -1: work in hand would block what is behind it"},
		{"backoff", c.BackOff, len(c.BackOff) > 0, "must be absent: signs of life are timed by ack_wait"},
		{"headers_only", c.HeadersOnly, c.HeadersOnly, "must be false: references would not be delivered"},
		{"replay_policy", c.ReplayPolicy, c.ReplayPolicy != jetstream.ReplayInstantPolicy, "must be instant: work would be withheld"},
		{"deliver_subject", c.DeliverSubject, c.DeliverSubject != "", "must be absent: workers ask for what they can start"},
	})
}
