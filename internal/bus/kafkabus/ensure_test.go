package kafkabus_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/bus/kafkabus"
)

const workTopic = "duly.work." + lane

// make makes a topic as an operator would.
func makeTopic(t testing.TB, s *fake, name string, partitions int32, configs map[string]string) {
	t.Helper()
	require.NoError(t, s.cluster.CreateTopic(name, partitions, configs))
}

func TestTopicsAreMadeSafe(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	b := ready(t, s, kafkabus.Options{Partitions: 5})
	topics, err := admin(t, s.address).ListTopics(t.Context())
	require.NoError(t, err)
	require.Len(t, topics[workTopic].Partitions, 5)
	require.Len(t, topics["duly.dead"].Partitions, 1)
	require.Len(t, topics["duly.retry.1s"].Partitions, 1)
	require.Len(t, topics["duly.retry.4096s"].Partitions, 1)
	require.Len(t, topics, 1+1+13, "and no others")
	for name, want := range map[string]map[string]string{
		workTopic:       {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"},
		"duly.retry.2s": {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"},
		"duly.dead":     {"cleanup.policy": "delete", "retention.ms": "2592000000", "retention.bytes": "-1"},
	} {
		got := configsOf(t, s, name)
		want["min.insync.replicas"] = "1"
		want["max.message.bytes"] = "1048588"
		for key, value := range want {
			require.Equal(t, value, got[key], "%s: %s", name, key)
		}
	}
	require.NoError(t, b.Ensure(t.Context(), []string{lane}))
}

func configsOf(t testing.TB, s *fake, name string) map[string]string {
	t.Helper()
	all, err := admin(t, s.address).DescribeTopicConfigs(t.Context(), name)
	require.NoError(t, err)
	configs := map[string]string{}
	r, err := all.On(name, nil)
	require.NoError(t, err)
	for _, c := range r.Configs {
		configs[c.Key] = c.MaybeValue()
	}
	return configs
}

// TestUnsafeTopicsAreRefused: each with the topic, the setting, its value and what it must
// be, all at once.
func TestUnsafeTopicsAreRefused(t *testing.T) {
	t.Parallel()
	safe := map[string]string{"retention.ms": "-1"}
	with := func(key, value string) map[string]string {
		return map[string]string{"retention.ms": "-1", key: value}
	}
	for name, c := range map[string]struct {
		topic      string
		partitions int32
		configs    map[string]string
		says       []string
	}{
		"safe":                 {workTopic, 3, safe, nil},
		"compaction":           {workTopic, 3, with("cleanup.policy", "compact"), []string{workTopic, "cleanup.policy is compact", "must be delete"}},
		"compaction too":       {workTopic, 3, with("cleanup.policy", "compact,delete"), []string{"cleanup.policy is compact,delete"}},
		"retention by time":    {workTopic, 3, with("retention.ms", "604800000"), []string{workTopic, "retention.ms is 604800000 (168h0m0s)", "must be -1"}},
		"retention by size":    {workTopic, 3, with("retention.bytes", "1000000"), []string{"retention.bytes is 1000000", "must be -1"}},
		"of a delay topic":     {"duly.retry.4s", 1, with("retention.bytes", "1000000"), []string{"duly.retry.4s", "retention.bytes"}},
		"partitions of delays": {"duly.retry.4s", 2, safe, []string{"duly.retry.4s", "partitions is 2, must be 1"}},
		"small messages":       {workTopic, 3, with("max.message.bytes", "10000"), []string{"max.message.bytes is 10000", "must be at least 1000000"}},
		"notices may age":      {"duly.dead", 1, map[string]string{"retention.ms": "1000"}, nil},
		"notices compacted":    {"duly.dead", 1, with("cleanup.policy", "compact"), []string{"duly.dead", "cleanup.policy"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startFake(t)
			makeTopic(t, s, c.topic, c.partitions, c.configs)
			err := connect(t, s.url(), kafkabus.Options{}).Ensure(t.Context(), []string{lane})
			if len(c.says) == 0 {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, bus.ErrUnsafe)
			for _, text := range c.says {
				require.ErrorContains(t, err, text)
			}
		})
	}
}

func TestAllThatIsUnsafeIsToldAtOnce(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	makeTopic(t, s, workTopic, 3, map[string]string{"retention.ms": "1000", "cleanup.policy": "compact"})
	makeTopic(t, s, "duly.retry.1s", 1, map[string]string{"retention.ms": "1000"})
	err := connect(t, s.url(), kafkabus.Options{}).Ensure(t.Context(), []string{lane, "Not A Lane"})
	for _, text := range []string{workTopic + ": retention.ms", workTopic + ": cleanup.policy", "duly.retry.1s: retention.ms", "Not A Lane"} {
		require.ErrorContains(t, err, text)
	}
}

// TestTopicOfOtherWorkIsNotTouched: Ensure changes nothing that exists.
func TestExistingTopicKeepsItsPartitions(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	makeTopic(t, s, workTopic, 7, map[string]string{"retention.ms": "-1"})
	b := ready(t, s, kafkabus.Options{Partitions: 3})
	partitions, err := b.Partitions(t.Context(), lane)
	require.NoError(t, err)
	require.Equal(t, []int32{0, 1, 2, 3, 4, 5, 6}, partitions)
}

// TestPartitionsThatAreAddedAreSeen by who publishes, who marks and who receives.
func TestPartitionsThatAreAddedAreSeen(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	b := ready(t, s, kafkabus.Options{Partitions: 2}.Looking(100*time.Millisecond))
	c := consume(t, b)
	publish(t, b, 1, 2)
	ack(t, receive(t, c, 2)...)
	added, err := admin(t, s.address).UpdatePartitions(t.Context(), 4, workTopic)
	require.NoError(t, err)
	require.NoError(t, added.Error())
	partitions, err := b.Partitions(t.Context(), lane)
	require.NoError(t, err)
	require.Equal(t, []int32{0, 1, 2, 3}, partitions)
	requireStored(t, b.Publish(t.Context(), []bus.Message{markOf(t, 1, 3)}))
	got := receive(t, c, 1)[0]
	require.EqualValues(t, 3, got.Message().Partition)
	ack(t, got)
	seen := map[int32]bool{}
	require.Eventually(t, func() bool {
		publish(t, b, 1, 4)
		for _, d := range receive(t, c, 4) {
			seen[d.Message().Partition] = true
			ack(t, d)
		}
		return len(seen) == 4
	}, patience, 10*time.Millisecond, "work goes to all of them")
}

func TestWorkIsSpreadEvenly(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	b := ready(t, s, kafkabus.Options{Partitions: 4})
	publish(t, b, 1, 400)
	ends, err := admin(t, s.address).ListEndOffsets(t.Context(), workTopic)
	require.NoError(t, err)
	ends.Each(func(o kadm.ListedOffset) { require.EqualValues(t, 100, o.Offset, "partition %d", o.Partition) })
}

func TestMarkToAPartitionThatIsNotThereFails(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	b := ready(t, s, kafkabus.Options{Partitions: 2})
	errs := b.Publish(t.Context(), []bus.Message{markOf(t, 1, 2), markOf(t, 1, 1)})
	require.Error(t, errs[0])
	require.NotErrorIs(t, errs[0], bus.ErrUnsendable)
	require.NoError(t, errs[1])
}

// TestBatchThatIsTooLargeHurtsNoMessage: the topic's limit may be lowered behind our back.
func TestBatchThatIsTooLargeHurtsNoMessage(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	b := ready(t, s, kafkabus.Options{Partitions: 1})
	set, err := admin(t, s.address).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: new("1000")}}, workTopic)
	require.NoError(t, err)
	for _, r := range set {
		require.NoError(t, r.Err)
	}
	var messages []bus.Message
	for id := range int64(20) {
		messages = append(messages, workOf(id+1, time.Time{}))
	}
	messages[7].Body = make([]byte, 5000)
	for i := range messages[7].Body {
		messages[7].Body[i] = byte(i*i*31 + i/7) // that does not compress
	}
	for i, err := range b.Publish(t.Context(), messages) {
		if i == 7 {
			require.ErrorIs(t, err, bus.ErrUnsendable)
			continue
		}
		require.NoError(t, err, "message %d", i)
	}
}
