package kafkabus

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/bus"
)

// TestC71UnsafeSettings: one that could drop unacknowledged work, or never take it, is
// refused by its name, with its value and what it must be.
func TestC71UnsafeSettings(t *testing.T) {
	t.Parallel()
	work, err := workTopic("duly", "mail")
	require.NoError(t, err)
	options, err := Options{}.withDefaults()
	require.NoError(t, err)
	for name, c := range map[string]struct {
		topic      topic
		replicas   int
		partitions int
		change     map[string]string
		says       string
	}{
		"as made":                    {work, 3, 12, nil, ""},
		"as made with one replica":   {work, 1, 12, nil, ""},
		"delays as made":             {delayTopics("duly")[0], 3, 1, nil, ""},
		"notices as made":            {deadTopic("duly"), 3, 1, nil, ""},
		"unknown to the broker":      {work, 3, 12, map[string]string{uncleanElection: "", "min.insync.replicas": ""}, ""},
		"compaction":                 {work, 3, 12, map[string]string{"cleanup.policy": "compact"}, "cleanup.policy is compact, must be delete"},
		"compaction as well":         {work, 3, 12, map[string]string{"cleanup.policy": "compact,delete"}, "cleanup.policy is compact,delete, must be delete"},
		"age":                        {work, 3, 12, map[string]string{"retention.ms": "604800000"}, "retention.ms is 604800000 (168h0m0s), must be -1"},
		"no age at all":              {work, 3, 12, map[string]string{"retention.ms": "0"}, "retention.ms is 0 (0s), must be -1"},
		"size":                       {work, 3, 12, map[string]string{"retention.bytes": "1000"}, "retention.bytes is 1000, must be -1"},
		"unclean elections":          {work, 3, 12, map[string]string{uncleanElection: "true"}, "unclean.leader.election.enable is true, must be false"},
		"one copy of three":          {work, 3, 12, map[string]string{"min.insync.replicas": "1"}, "min.insync.replicas is 1, must be 2 with 3 replicas"},
		"small messages":             {work, 3, 12, map[string]string{"max.message.bytes": "999999"}, "max.message.bytes is 999999, must be at least 1000000"},
		"delays out of order":        {delayTopics("duly")[3], 3, 2, nil, "partitions is 2, must be 1"},
		"notices that are compacted": {deadTopic("duly"), 3, 1, map[string]string{"cleanup.policy": "compact"}, "topic duly.dead: cleanup.policy"},
	} {
		configs := options.createConfigs(c.topic, c.replicas)
		maps.Copy(configs, c.change)
		err := checkTopic(c.topic, c.replicas, c.partitions, configs)
		if c.says == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorIs(t, err, bus.ErrUnsafe, name)
		require.ErrorContains(t, err, c.topic.name, name)
		require.ErrorContains(t, err, c.says, name)
	}
}
