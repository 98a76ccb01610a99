package kafkabus

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"duly.dev/duly/internal/bus"
)

// The headers of a CloudEvent in binary mode, as the Kafka binding of CloudEvents 1.0
// names them: an attribute is ce_<name>, the type of the data is content-type.
const (
	attributePrefix   = "ce_"
	contentTypeHeader = "content-type"
	contentTypeName   = "datacontenttype"
	typeHeader        = attributePrefix + "type"
)

// headerAllowance is what MaxMessage keeps free for headers, the attributes of a message
// with the longest id, lane and kind, and for the frame of a batch.
const headerAllowance = 4096

// frame is what a record and its batch take besides key, headers and body, at most.
const frame = 200

// encodeRecord makes the record of a message.
func encodeRecord(m bus.Message, t topic, source, id string) *kgo.Record {
	attributes := m.Attributes(source, id)
	r := &kgo.Record{Topic: t.name, Partition: anyPartition, Value: m.Body, Headers: make([]kgo.RecordHeader, len(attributes))}
	for i, a := range attributes {
		name := attributePrefix + a.Name
		if a.Name == contentTypeName {
			name = contentTypeHeader
		}
		r.Headers[i] = kgo.RecordHeader{Key: name, Value: []byte(a.Value)}
	}
	if m.Type == bus.TypeMark {
		r.Partition = m.Partition
	}
	return r
}

// decodeRecord reads what a consumer received, whoever sent it.
func decodeRecord(r *kgo.Record) bus.Message {
	m := bus.FromAttributes(func(name string) string {
		key := attributePrefix + name
		if name == contentTypeName {
			key = contentTypeHeader
		}
		for _, h := range r.Headers {
			if h.Key == key {
				return string(h.Value)
			}
		}
		return ""
	}, r.Value)
	m.Partition = r.Partition
	return m
}

// wireSize is what a record takes of a batch, before compression, at most.
func wireSize(r *kgo.Record) int {
	size := frame + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		size += len(h.Key) + len(h.Value) + 10
	}
	return size
}

// standIn is an id for a message without one, which CloudEvents requires.
func standIn(m bus.Message, now time.Time, n uint64) string {
	return fmt.Sprintf("%s-%d-%d", m.Type, now.UnixNano(), n)
}
