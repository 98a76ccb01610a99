package natsbus

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/pkg/job"
)

// topic is what one stream carries: the work of a lane, or the notices.
type topic struct {
	label    string // "work.<lane>" or "dead", for metrics and logs
	stream   string
	subject  string   // what is consumed
	subjects []string // what the stream holds
	dead     bool
	retry    string // beginning of the subjects on which schedules wait
}

func workTopic(prefix, lane string) (topic, error) {
	if !job.ValidName(lane) {
		return topic{}, fmt.Errorf("lane %q: must be 1 to 64 of a-z, 0-9 and hyphen", job.Storable(lane, 80))
	}
	t := topic{
		label:   "work." + lane,
		stream:  streamPrefix(prefix) + "_work_" + lane,
		subject: prefix + ".work." + lane,
		retry:   prefix + ".retry." + lane + ".",
	}
	t.subjects = []string{t.subject, t.retry + "*"}
	return t, nil
}

func deadTopic(prefix string) topic {
	subject := prefix + ".dead"
	return topic{
		label: "dead", stream: streamPrefix(prefix) + "_dead",
		subject: subject, subjects: []string{subject}, dead: true,
	}
}

// topicOf is where a message belongs.
func topicOf(prefix string, m bus.Message) (topic, error) {
	switch m.Type {
	case bus.TypeWork, bus.TypeMark:
		return workTopic(prefix, m.Lane)
	case bus.TypeDead:
		return deadTopic(prefix), nil
	default:
		return topic{}, fmt.Errorf("type %q is not one that Duly sends", job.Storable(string(m.Type), 80))
	}
}

// streamPrefix is the prefix without dots, which stream names must not have; no
// two prefixes give the same, since they have no underscores.
func streamPrefix(prefix string) string { return strings.ReplaceAll(prefix, ".", "_") }

var tokenRule = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// scheduleSubject is the subject of its own on which the delayed message id waits:
// the same for a true copy, which replaces it.
func (t topic) scheduleSubject(id string) string {
	if !tokenRule.MatchString(id) {
		sum := sha256.Sum256([]byte(id))
		id = base64.RawURLEncoding.EncodeToString(sum[:18])
	}
	return t.retry + id
}

// consumerPrefix begins the names of Duly's consumers.
const consumerPrefix = "duly-"

// consumerName carries the stream's creation time, so that no acknowledgement of an
// earlier stream of the same name reaches it. Floor is set where a consumer takes the
// place of one that was ahead of its stream.
func consumerName(created time.Time, floor uint64) string {
	name := consumerPrefix + strconv.FormatInt(created.UnixNano(), 36)
	if floor > 0 {
		name += "-" + strconv.FormatUint(floor, 36)
	}
	return name
}
