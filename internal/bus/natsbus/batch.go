package natsbus

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// An atomic batch is stored as a whole, or not at all, with one sync.
const (
	batchIDHeader       = "Nats-Batch-Id"
	batchSequenceHeader = "Nats-Batch-Sequence"
	batchCommitHeader   = "Nats-Batch-Commit"

	// maxAtomic is the most messages in one; the server takes 1,000 unless it is told
	// otherwise.
	maxAtomic = 500
)

// sendBatches sends what it can as atomic batches, and returns the rest: what stands
// alone in its stream, and batches that the server did not take, such as one with a
// message that it already has.
func (b *Bus) sendBatches(ctx context.Context, parcels []parcel, errs []error) (rest []parcel) {
	streams := map[string][]parcel{}
	for _, p := range parcels {
		streams[p.topic.stream] = append(streams[p.topic.stream], p)
	}
	for _, all := range streams {
		for chunk := range slices.Chunk(all, maxAtomic) {
			if len(chunk) == 1 || b.sendBatch(ctx, chunk) != nil {
				rest = append(rest, chunk...)
				continue
			}
			for _, p := range chunk {
				errs[p.index] = nil
			}
		}
	}
	return rest
}

// sendBatch sends one atomic batch. The server answers the last message for all.
func (b *Bus) sendBatch(ctx context.Context, parcels []parcel) error {
	id, last := nuid.Next(), len(parcels)-1
	for i, p := range parcels[:last] {
		if err := b.conn.PublishMsg(inBatch(p.msg, id, i+1)); err != nil {
			return err
		}
	}
	commit := inBatch(parcels[last].msg, id, last+1)
	commit.Header[batchCommitHeader] = []string{"1"}
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	_, err := b.js.PublishMsg(ctx, commit, jetstream.WithRetryAttempts(0))
	if err != nil {
		b.options.Log.DebugContext(ctx, "a batch was not taken; its messages are sent singly", "stream", parcels[0].topic.stream, "error", err)
	}
	return err
}

// inBatch is a copy of the message with its place in the batch.
func inBatch(msg *nats.Msg, id string, sequence int) *nats.Msg {
	header := make(nats.Header, len(msg.Header)+3)
	maps.Copy(header, msg.Header)
	header[batchIDHeader] = []string{id}
	header[batchSequenceHeader] = []string{strconv.Itoa(sequence)}
	return &nats.Msg{Subject: msg.Subject, Header: header, Data: msg.Data}
}
