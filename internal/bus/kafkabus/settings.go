package kafkabus

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"duly.dev/duly/internal/bus"
)

const (
	// maxBatch is the largest batch of records that is sent, in bytes, before compression.
	maxBatch = 1_000_000
	// maxMessageBytes is what a topic that is created takes: Kafka's own default.
	maxMessageBytes = 1_048_588
	// segmentBytes is the size at which a topic that is created begins a new file. Only
	// whole files are removed: it bounds what acknowledged messages still occupy.
	segmentBytes = 64 << 20
	// uncleanElection is whether a replica that missed messages may become the leader.
	uncleanElection = "unclean.leader.election.enable"
)

// createConfigs are the settings of a topic that is created, as Kafka's tools write them.
func (o Options) createConfigs(t topic, replicas int) map[string]string {
	configs := map[string]string{
		"cleanup.policy":      "delete",
		"retention.ms":        "-1",
		"retention.bytes":     "-1",
		uncleanElection:       "false",
		"min.insync.replicas": "1",
		"max.message.bytes":   strconv.Itoa(maxMessageBytes),
		"segment.bytes":       strconv.Itoa(segmentBytes),
	}
	if replicas >= 3 {
		configs["min.insync.replicas"] = "2"
	}
	if t.purpose == forDead {
		configs["retention.ms"] = strconv.FormatInt(o.DeadMaxAge.Milliseconds(), 10)
	}
	return configs
}

// setting is one setting of a topic that must not be what it is.
type setting struct {
	name  string // as the brokers and their tools write it
	value string
	bad   bool
	must  string // what it must be, and why
}

// refuse reports all bad settings of a topic at once.
func refuse(t topic, settings []setting) error {
	var errs []error
	for _, s := range settings {
		if s.bad {
			errs = append(errs, fmt.Errorf("%w: topic %s: %s is %s, %s", bus.ErrUnsafe, t.name, s.name, s.value, s.must))
		}
	}
	return errors.Join(errs...)
}

// checkTopic refuses a topic that could drop unacknowledged work, or never take it. The
// configs are those in force, defaults of the broker included.
func checkTopic(t topic, replicas, partitions int, configs map[string]string) error {
	at := func(name string) string { return configs[name] }
	number := func(name string) int64 {
		n, err := strconv.ParseInt(at(name), 10, 64)
		if err != nil {
			return -1
		}
		return n
	}
	settings := []setting{
		{
			"cleanup.policy", at("cleanup.policy"), at("cleanup.policy") != "" && at("cleanup.policy") != "delete",
			"must be delete: compaction keeps one message of many and takes none without a key",
		},
		{
			uncleanElection, at(uncleanElection), at(uncleanElection) == "true",
			"must be false: a broker that missed messages could become the leader, and they would be gone",
		},
		{
			"min.insync.replicas", at("min.insync.replicas"), replicas >= 3 && at("min.insync.replicas") != "" && number("min.insync.replicas") < 2,
			fmt.Sprintf("must be 2 with %d replicas: a message would be acknowledged that one broker alone has", replicas),
		},
		{
			"max.message.bytes", at("max.message.bytes"), at("max.message.bytes") != "" && number("max.message.bytes") < maxBatch,
			fmt.Sprintf("must be at least %d, the size of the batches that are sent: whole batches would be refused", maxBatch),
		},
	}
	if t.purpose != forDead {
		settings = append(settings, retention(at, number)...)
	}
	if t.purpose == forDelay {
		settings = append(settings, setting{
			"partitions", strconv.Itoa(partitions), partitions != 1,
			"must be 1: a delay topic is one queue, in the order in which its messages come due",
		})
	}
	return refuse(t, settings)
}

// retention refuses limits that cannot tell acknowledged messages from others.
func retention(at func(string) string, number func(string) int64) []setting {
	drops := "must be -1: at the limit unacknowledged work is dropped; what is acknowledged is removed by the dispatchers"
	return []setting{
		{"retention.ms", age(number("retention.ms")), number("retention.ms") >= 0, drops},
		{"retention.bytes", at("retention.bytes"), number("retention.bytes") >= 0, drops},
	}
}

// age shows a time in milliseconds as the setting has it and as people read it.
func age(ms int64) string {
	return fmt.Sprintf("%d (%s)", ms, time.Duration(ms)*time.Millisecond)
}
