package kafkabus

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"duly.dev/duly/internal/bus"
)

const (
	// maxInflated is how large a batch of records may be once decompressed; ours have at
	// most maxBatch.
	maxInflated = 64 << 20
	// rawBytes is how much of a partition is read to find a batch that cannot be decoded. A
	// batch that is larger is read whole.
	rawBytes = 4 << 20
)

// spot names a partition.
type spot struct {
	topic string
	id    int32
}

// setAside deals with partitions that cannot go on: those whose batches the client could
// not decode, and now and then those that stand although there is more. Each gets past
// what is damaged, which is handed out in place of its records. Called by the goroutine
// that polls, before partitions can change hands. It returns those that go on.
func (s *session) setAside(fetches kgo.Fetches) map[spot]bool {
	suspects := map[spot]error{}
	fetches.EachError(func(topic string, id int32, err error) {
		if isDamage(err) {
			suspects[spot{topic, id}] = err
		}
		if large, ok := errors.AsType[*kgo.ErrDecompressTooLarge](err); ok {
			s.large[spot{topic, id}] = large.Offset // it is said once
		}
	})
	m := s.member
	ctx, cancel := context.WithTimeout(m.bus.ctx, apiTimeout)
	defer cancel()
	if now := time.Now(); now.Sub(s.lookedAt) >= m.bus.options.tune.look {
		s.lookedAt = now
		for _, at := range s.standing(ctx) {
			if suspects[at] == nil {
				suspects[at] = errStands
			}
		}
	}
	solved := map[spot]bool{}
	for at, cause := range suspects {
		done, err := s.pass(ctx, at, cause)
		if err != nil && ctx.Err() == nil {
			m.bus.options.Log.WarnContext(ctx, "cannot look at what cannot be decoded; trying again", "topic", m.label, "partition", at.id, "error", err)
		}
		if done {
			solved[at] = true
		}
	}
	return solved
}

// isDamage reports whether the error of a fetch is one of decoding: it is of the client and
// not of a broker, a connection or the group.
func isDamage(err error) bool {
	var (
		broker *kerr.Error
		loss   *kgo.ErrDataLoss
		group  *kgo.ErrGroupSession
	)
	return !errors.As(err, &broker) && !errors.As(err, &loss) && !errors.As(err, &group) &&
		!errors.Is(err, kgo.ErrClientClosed) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// errStands: a partition did not move although there is more in it.
var errStands = errors.New("its records could not be decoded")

// standing are the partitions of which nothing has come since the last look, although the
// brokers have more: the client says nothing of a batch that ends before its records do.
func (s *session) standing(ctx context.Context) []spot {
	m := s.member
	at := map[spot]int64{}
	m.mu.Lock()
	for _, p := range s.order {
		if p.phase == held && !p.paused && p.polled == p.looked {
			at[spot{p.topic, p.id}] = p.polled
		}
		p.looked = p.polled
	}
	m.mu.Unlock()
	if len(at) == 0 {
		return nil
	}
	ends, err := m.bus.admin.ListEndOffsets(ctx, namesOf(m.topics)...)
	if err != nil {
		return nil // the next look tells
	}
	var found []spot
	for where, polled := range at {
		if end, ok := ends.Lookup(where.topic, where.id); ok && end.Err == nil && end.Offset > max(polled, 0) {
			found = append(found, where)
		}
	}
	return found
}

// closeGaps looks at what is missing between the records of a poll, and puts in its place
// what could not be decoded: the client passes over a batch that ends before its records
// do, where others follow. Called by the goroutine that polls. What is missing for another
// reason, such as the end of a transaction, stays so.
func (s *session) closeGaps(fetches kgo.Fetches) {
	committed := s.client.CommittedOffsets()
	for i := range fetches {
		for j := range fetches[i].Topics {
			topic := &fetches[i].Topics[j]
			for k := range topic.Partitions {
				f := &topic.Partitions[k]
				if len(f.Records) == 0 {
					continue
				}
				where := spot{topic.Topic, f.Partition}
				from := s.reached(where)
				if from < 0 {
					from = max(f.LogStartOffset, committed[where.topic][where.id].Offset)
				}
				f.Records = s.closeGap(where, from, f.Records)
			}
		}
	}
}

// reached is the offset that the next record of a partition should have, -1 where that is
// not known.
func (s *session) reached(where spot) int64 {
	s.member.mu.Lock()
	defer s.member.mu.Unlock()
	if p := s.find(where.topic, where.id); p != nil {
		return p.polled
	}
	return -1
}

// closeGap returns the records with those between them that stand for what could not be
// decoded.
func (s *session) closeGap(where spot, from int64, records []*kgo.Record) []*kgo.Record {
	for i := 0; i < len(records); i++ {
		r := records[i]
		if r.Offset > from {
			ctx, cancel := context.WithTimeout(s.member.bus.ctx, apiTimeout)
			batch, next, err := s.damagedAt(ctx, where, from, errStands)
			cancel()
			switch {
			case err != nil:
				s.member.bus.options.Log.Warn("cannot look at what is missing; the ledger will", "topic", where.topic, "partition", where.id, "offset", from, "error", err)
			case batch != nil && next <= r.Offset:
				records = slices.Insert(records, i, s.standIn(where, from, next, batch, errStands))
				from = next
				continue
			}
		}
		from = r.Offset + 1
	}
	return records
}

// standIn is a record in the place of what could not be decoded, counted and told of.
func (s *session) standIn(where spot, at, next int64, batch []byte, cause error) *kgo.Record {
	m := s.member
	m.bus.metrics.damaged.WithLabelValues(m.label).Inc()
	m.bus.options.Log.Error("records that cannot be decoded are passed on as one message, to be set aside",
		"topic", where.topic, "partition", where.id, "from", at, "to", next-1, "bytes", len(batch), "error", cause)
	return &kgo.Record{
		Topic: where.topic, Partition: where.id, Offset: next - 1, LeaderEpoch: -1, Value: slices.Clone(batch),
		Headers: damagedHeaders, Timestamp: time.Now(),
	}
}

// pass looks at what is stored where the partition stands. Where that cannot be decoded, it
// is taken in as one message of the type bus.TypeDamaged, and the client goes on behind it.
func (s *session) pass(ctx context.Context, where spot, cause error) (bool, error) {
	m := s.member
	m.mu.Lock()
	p := s.find(where.topic, where.id)
	m.mu.Unlock()
	if p == nil {
		return false, nil
	}
	at, err := s.cursor(ctx, p)
	if err != nil {
		return false, err
	}
	batch, next, err := s.damagedAt(ctx, where, at, cause)
	if err != nil || batch == nil {
		return false, err
	}
	record := s.standIn(where, at, next, batch, cause)
	m.mu.Lock()
	taken := p.phase == held && p.add([]*kgo.Record{record})
	if taken {
		m.announce()
	}
	m.mu.Unlock()
	if !taken {
		return false, nil
	}
	s.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{p.topic: {p.id: {Epoch: -1, Offset: next}}})
	return true, nil
}

// damagedAt finds what cannot be decoded at or behind an offset, and the offset behind it; nil
// where there is nothing of the kind.
func (s *session) damagedAt(ctx context.Context, where spot, at int64, cause error) (batch []byte, next int64, err error) {
	raw, end, err := s.read(ctx, where, at)
	if errors.Is(err, kerr.CorruptMessage) && errors.Is(cause, errStands) {
		if next, err = s.readable(ctx, where, at); err != nil {
			return nil, 0, err
		}
		return fmt.Appendf(nil, "offsets %d to %d of partition %d of topic %s, which the broker cannot read", at, next-1, where.id, where.topic), next, nil
	}
	if err != nil {
		return nil, 0, err
	}
	large, ok := s.large[where]
	if !ok {
		large = -1
	}
	if batch, next, found := firstDamaged(raw, where, at, end, large); found {
		return batch, next, nil
	}
	return nil, 0, nil
}

// readable finds the first offset behind one that the broker cannot read, so that it can
// read there: by steps that double, and then between the last two.
func (s *session) readable(ctx context.Context, where spot, at int64) (int64, error) {
	reads := func(at int64) (bool, error) {
		_, _, err := s.read(ctx, where, at)
		if errors.Is(err, kerr.CorruptMessage) {
			return false, nil
		}
		return err == nil, err
	}
	bad, good, step := at, at, int64(1)
	for ok := false; !ok; step *= 2 {
		var err error
		if ok, err = reads(at + step); err != nil { // such as that the log ends before
			return 0, err
		}
		if good = at + step; !ok {
			bad = good
		}
	}
	for good-bad > 1 {
		middle := bad + (good-bad)/2
		ok, err := reads(middle)
		if err != nil {
			return 0, err
		}
		if ok {
			good = middle
		} else {
			bad = middle
		}
	}
	return good, nil
}

// damagedHeaders are those of a record that stands for what cannot be decoded.
var damagedHeaders = func() []kgo.RecordHeader {
	r := encodeRecord(bus.Message{Type: bus.TypeDamaged}, topic{}, "kafkabus", "damaged")
	return slices.DeleteFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == attributePrefix+"id" })
}()

// cursor is the offset that the client asks for next.
func (s *session) cursor(ctx context.Context, p *partition) (int64, error) {
	m := s.member
	m.mu.Lock()
	polled := p.polled
	m.mu.Unlock()
	if polled >= 0 {
		return polled, nil
	}
	begins, err := m.bus.admin.ListStartOffsets(ctx, p.topic)
	if err != nil {
		return 0, fmt.Errorf("asking where topic %s begins: %w", p.topic, err)
	}
	at := int64(0)
	if begin, ok := begins.Lookup(p.topic, p.id); ok && begin.Err == nil {
		at = begin.Offset
	}
	group := groupName(m.group, m.topics, s.ids)
	committed, err := m.bus.admin.FetchOffsets(ctx, group)
	if err != nil {
		return 0, fmt.Errorf("asking for the offsets of group %s: %w", group, err)
	}
	if o, ok := committed.Lookup(p.topic, p.id); ok && o.Err == nil {
		at = max(at, o.At)
	}
	return at, nil
}

// read reads what a partition has at an offset, as it is stored, and where it ends.
func (s *session) read(ctx context.Context, where spot, at int64) (raw []byte, end int64, err error) {
	b := s.member.bus
	details, err := b.describe(ctx, s.member.topics)
	if err != nil {
		return nil, 0, err
	}
	leader, ok := details[where.topic].Partitions[where.id]
	if !ok || leader.Err != nil {
		return nil, 0, fmt.Errorf("partition %d of topic %s has no leader: %w", where.id, where.topic, errors.Join(errNotThere, leader.Err))
	}
	part := kmsg.NewFetchRequestTopicPartition()
	part.Partition, part.FetchOffset, part.PartitionMaxBytes = where.id, at, rawBytes
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = where.topic, s.ids[where.topic]
	topic.Partitions = append(topic.Partitions, part)
	request := kmsg.NewPtrFetchRequest()
	request.MaxBytes = rawBytes
	request.Topics = append(request.Topics, topic)
	answer, err := request.RequestWith(ctx, b.client.Broker(int(leader.Leader)))
	if err != nil {
		return nil, 0, fmt.Errorf("reading partition %d of topic %s: %w", where.id, where.topic, err)
	}
	if len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 {
		return nil, 0, fmt.Errorf("reading partition %d of topic %s: %w", where.id, where.topic, errors.Join(errNotThere, kerr.ErrorForCode(answer.ErrorCode)))
	}
	got := answer.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(got.ErrorCode); err != nil {
		return nil, 0, fmt.Errorf("reading partition %d of topic %s: %w", where.id, where.topic, err)
	}
	return got.RecordBatches, got.HighWatermark, nil
}

// How a batch begins: the offset of its first record, its length behind that, the epoch of
// its leader, the version of its format. Then, in all that Kafka has written since 0.11, a
// checksum, attributes and the distance of its last offset from the first.
const (
	batchLengthAt, batchBodyAt, batchMagicAt, batchSpanAt = 8, 12, 16, 23
	batchHeader                                           = 27
)

// firstDamaged finds the first batch with records from the offset on that cannot be decoded,
// and the offset behind it, which is at most the end of the log. Where another batch
// follows, that one says where it begins; what a damaged one says of itself counts for
// less. The batch that begins at the offset large is known to be too large, and not
// decompressed to find out.
func firstDamaged(raw []byte, where spot, at, end, large int64) (batch []byte, next int64, found bool) {
	for first := true; len(raw) >= batchHeader; first = false {
		base := int64(binary.BigEndian.Uint64(raw))                                      //nolint:gosec // as it is written
		size := batchBodyAt + int64(int32(binary.BigEndian.Uint32(raw[batchLengthAt:]))) //nolint:gosec // as it is written
		if size < batchHeader || size > int64(len(raw)) {
			return raw, at + 1, first // not the first: the answer ends here
		}
		batch, raw = raw[:size], raw[size:]
		next = base + 1
		if batch[batchMagicAt] == 2 {
			next += int64(int32(binary.BigEndian.Uint32(batch[batchSpanAt:]))) //nolint:gosec // as it is written
		}
		if next <= at || base != large && decodes(batch, where, at, next) {
			continue
		}
		next = min(next, end)
		if len(raw) >= batchLengthAt {
			if follows := int64(binary.BigEndian.Uint64(raw)); follows > base { //nolint:gosec // as it is written
				next = follows
			}
		}
		return batch, max(next, at+1), true
	}
	return nil, 0, false
}

// decodes reports whether the client can decode a batch from an offset up to next.
func decodes(batch []byte, where spot, at, next int64) bool {
	answer := kmsg.NewFetchResponseTopicPartition()
	answer.Partition, answer.RecordBatches = where.id, batch
	options := kgo.ProcessFetchPartitionOpts{Topic: where.topic, Partition: where.id, Offset: at, KeepControlRecords: true}
	fetched, reached := kgo.ProcessFetchPartition(options, &answer, kgo.DefaultDecompressor(), nil)
	return fetched.Err == nil && reached >= next
}
