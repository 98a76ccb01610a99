package kafkabus

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/pkg/job"
)

// purpose is what a topic is for, which decides its settings.
type purpose int

const (
	forWork  purpose = iota // the references of one lane
	forDelay                // references of every lane that wait one tier's delay
	forDead                 // notices, copies of what the ledger keeps
)

// topic is one topic of Duly's.
type topic struct {
	purpose purpose
	label   string // "work.<lane>", "retry" or "dead", for metrics and logs
	name    string
	delay   time.Duration // of a delay topic
}

func workTopic(prefix, lane string) (topic, error) {
	if !job.ValidName(lane) {
		return topic{}, fmt.Errorf("lane %q: must be 1 to 64 of a-z, 0-9 and hyphen", job.Storable(lane, 80))
	}
	return topic{purpose: forWork, label: "work." + lane, name: prefix + ".work." + lane}, nil
}

func deadTopic(prefix string) topic {
	return topic{purpose: forDead, label: "dead", name: prefix + ".dead"}
}

// The tiers double from the shortest to the longest. Below the shortest the mover
// itself waits; beyond the longest a message goes round in it.
const (
	shortestTier = time.Second
	longestTier  = 4096 * time.Second
)

// delayTopics are the delay topics, from the shortest tier to the longest.
func delayTopics(prefix string) []topic {
	var tiers []topic
	for d := shortestTier; d <= longestTier; d *= 2 {
		tiers = append(tiers, topic{
			purpose: forDelay, label: "retry", delay: d,
			name: fmt.Sprintf("%s.retry.%ds", prefix, int(d/time.Second)),
		})
	}
	return tiers
}

// tierFor is the delay topic in which a message waits that has so long to go: that of
// the largest tier which is not longer, or the shortest.
func tierFor(tiers []topic, remains time.Duration) topic {
	best := tiers[0]
	for _, t := range tiers {
		if t.delay <= remains {
			best = t
		}
	}
	return best
}

// route is where a message goes at the given time.
func (b *Bus) route(m bus.Message, now time.Time) (topic, error) {
	switch m.Type {
	case bus.TypeWork, bus.TypeMark:
		t, err := workTopic(b.options.Prefix, m.Lane)
		if err == nil && m.Type == bus.TypeWork && m.At.After(now) {
			t = tierFor(b.tiers, m.At.Sub(now))
		}
		return t, err
	case bus.TypeDead:
		return deadTopic(b.options.Prefix), nil
	default:
		return topic{}, fmt.Errorf("type %q is not one that Duly sends", job.Storable(string(m.Type), 80))
	}
}

// groupName is the consumer group of the topics. It carries their ids, so that what is
// committed for a topic that was deleted means nothing to one that has its name.
func groupName(base string, topics []topic, ids map[string]kadm.TopicID) string {
	if len(topics) == 1 {
		id := ids[topics[0].name]
		return base + "." + base64.RawURLEncoding.EncodeToString(id[:])
	}
	h := sha256.New()
	for _, t := range topics {
		id := ids[t.name]
		h.Write(id[:])
	}
	return base + "." + base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16])
}

func namesOf(topics []topic) []string {
	names := make([]string, len(topics))
	for i, t := range topics {
		names[i] = t.name
	}
	return names
}
