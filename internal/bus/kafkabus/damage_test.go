package kafkabus_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"hash/crc32"
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/bus/kafkabus"
)

// rot is what is changed on its way from a broker by connections of dialRotting, as by a
// disk that fails.
var rot, rotten = []byte("as it was stored"), []byte("as it was sto\x00ed")

// rotting is a body that arrives changed, however it is cut into pieces.
func rotting() []byte { return bytes.Repeat(rot, 8) }

func dialRotting(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return rottingConn{conn}, nil
}

type rottingConn struct{ net.Conn }

func (c rottingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if bytes.Contains(b[:n], rot) {
		copy(b, bytes.ReplaceAll(b[:n], rot, rotten))
	}
	return n, err
}

// batchOf is a batch of one record with the right checksum, after change has had its way.
func batchOf(body string, change func(*kmsg.RecordBatch)) []byte {
	record := kmsg.Record{Value: []byte(body)}
	record.Length = int32(len(record.AppendTo(nil)) - 1)
	batch := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: 1,
		FirstTimestamp: time.Now().UnixMilli(), MaxTimestamp: time.Now().UnixMilli(), Records: record.AppendTo(nil),
	}
	change(&batch)
	raw := batch.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// store has a broker store a batch as it is.
func store(t *testing.T, address, topic string, batch []byte) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	require.NoError(t, err)
	defer client.Close()
	topics, err := admin(t, address).ListTopics(t.Context(), topic)
	require.NoError(t, err)
	part := kmsg.NewProduceRequestTopicPartition()
	part.Records = batch
	one := kmsg.NewProduceRequestTopic()
	one.Topic, one.TopicID, one.Partitions = topic, topics[topic].ID, []kmsg.ProduceRequestTopicPartition{part}
	request := kmsg.NewPtrProduceRequest()
	request.Acks, request.TimeoutMillis, request.Topics = -1, 5000, []kmsg.ProduceRequestTopic{one}
	answer, err := request.RequestWith(t.Context(), client.Broker(int(topics[topic].Partitions[0].Leader)))
	require.NoError(t, err)
	require.Zero(t, answer.Topics[0].Partitions[0].ErrorCode)
}

// TestWhatCannotBeDecodedIsHandedOutAsDamaged: whatever is wrong with a batch, also where
// the client library says nothing of it.
func TestWhatCannotBeDecodedIsHandedOutAsDamaged(t *testing.T) {
	t.Parallel()
	bomb := func() []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		for range 70 {
			_, _ = w.Write(make([]byte, 1<<20)) // to memory
		}
		_ = w.Close()
		return b.Bytes()
	}()
	for name, c := range map[string]struct {
		change func(*kmsg.RecordBatch)
		before int // records of it that can be decoded come before
	}{
		"not compressed as it says":      {func(b *kmsg.RecordBatch) { b.Attributes = 1 }, 0},
		"ends before its record does":    {func(b *kmsg.RecordBatch) { b.Records = b.Records[:len(b.Records)-3] }, 0},
		"has fewer records than it says": {func(b *kmsg.RecordBatch) { b.NumRecords, b.LastOffsetDelta = 3, 2 }, 1},
		"has no record at all":           {func(b *kmsg.RecordBatch) { b.Records = nil }, 0},
		"becomes too large":              {func(b *kmsg.RecordBatch) { b.Attributes, b.Records = 1, bomb }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startFake(t)
			registry := prometheus.NewRegistry()
			b := ready(t, s, kafkabus.Options{Partitions: 1, Metrics: registry, SessionTimeout: patience})
			publish(t, b, 1, 3)
			damaged := batchOf("damaged", c.change)
			store(t, s.address, workTopic, damaged)
			requireStored(t, b.Publish(t.Context(), []bus.Message{markOf(t, 7, 0)}))
			publish(t, b, 4, 3)
			got := receive(t, consume(t, b), 8+c.before)
			require.Equal(t, []int64{1, 2, 3, 4, 5, 6}, jobsOf(t, got))
			came := got[3+c.before].Message()
			require.Equal(t, bus.TypeDamaged, came.Type)
			require.Empty(t, came.ID)
			require.Equal(t, damaged[17:], came.Body[17:], "as it is stored, behind what the broker writes itself")
			require.Equal(t, bus.TypeMark, got[4+c.before].Message().Type, "in its turn")
			ack(t, got...)
			require.InDelta(t, 1, total(t, registry, "duly_bus_damaged_batches_total"), 0)
			end := offsetOf(t, s, workTopic, (*kadm.Client).ListEndOffsets)
			requireCommitted(t, s, b, 0, end)
		})
	}
}

// TestDamageWithNothingBehindItIsFound: the client says nothing, and nothing comes that shows
// a gap.
func TestDamageWithNothingBehindItIsFound(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	b := ready(t, s, kafkabus.Options{Partitions: 1, SessionTimeout: patience}.Looking(300*time.Millisecond))
	store(t, s.address, workTopic, batchOf("damaged", func(b *kmsg.RecordBatch) { b.Records = b.Records[:len(b.Records)-3] }))
	c := consume(t, b)
	got := receive(t, c, 1)
	require.Equal(t, bus.TypeDamaged, got[0].Message().Type)
	ack(t, got...)
	requireCommitted(t, s, b, 0, 1)
	publish(t, b, 1, 1)
	require.Equal(t, []int64{1}, jobsOf(t, receive(t, c, 1)))
}

// TestDamagedDelayIsPassedOver: a batch that cannot be decoded does not stop the delays behind
// it.
func TestDamagedDelayIsPassedOver(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	registry := prometheus.NewRegistry()
	b := ready(t, s, kafkabus.Options{Partitions: 1, Metrics: registry}.Looking(300*time.Millisecond))
	store(t, s.address, "duly.retry.1s", batchOf("damaged", func(b *kmsg.RecordBatch) { b.Attributes = 1 }))
	requireStored(t, b.Publish(t.Context(), []bus.Message{workOf(1, time.Now().Add(1500*time.Millisecond))}))
	move(t, b)
	require.Equal(t, []int64{1}, jobsOf(t, receive(t, consume(t, b), 1)))
	require.Eventually(t, func() bool { return total(t, registry, "duly_bus_unmovable_messages_total") == 1 }, patience, 10*time.Millisecond)
}

// TestWhatTheBrokerCannotReadIsPassed: it finds damage itself, and says so of every offset in
// there.
func TestWhatTheBrokerCannotReadIsPassed(t *testing.T) {
	t.Parallel()
	s := startFake(t)
	b := ready(t, s, kafkabus.Options{Partitions: 1}.Looking(300*time.Millisecond))
	for id := range int64(20) {
		publish(t, b, id+1, 1)
	}
	s.cluster.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		s.cluster.KeepControl()
		request := r.(*kmsg.FetchRequest)
		answer := request.ResponseKind().(*kmsg.FetchResponse)
		for _, topic := range request.Topics {
			for _, p := range topic.Partitions {
				if p.FetchOffset < 5 || p.FetchOffset >= 12 {
					continue
				}
				one := kmsg.NewFetchResponseTopicPartition()
				one.Partition, one.ErrorCode = p.Partition, kerr.CorruptMessage.Code
				part := kmsg.NewFetchResponseTopic()
				part.Topic, part.TopicID, part.Partitions = topic.Topic, topic.TopicID, []kmsg.FetchResponseTopicPartition{one}
				answer.Topics = append(answer.Topics, part)
			}
		}
		return answer, nil, len(answer.Topics) > 0
	})
	commit(t, s, group(t, b), 5) // all that comes before was done
	got := receive(t, consume(t, b), 9)
	require.Equal(t, bus.TypeDamaged, got[0].Message().Type)
	require.Contains(t, string(got[0].Message().Body), "offsets 5 to 11 of partition 0 of topic "+workTopic)
	require.Equal(t, numbers(13, 8), jobsOf(t, got))
}

func group(t *testing.T, b *kafkabus.Bus) string {
	t.Helper()
	name, err := b.Group(t.Context(), lane)
	require.NoError(t, err)
	return name
}
