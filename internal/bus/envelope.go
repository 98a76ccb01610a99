package bus

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"duly.dev/duly/pkg/job"
)

// MaxRefs is the most references that one envelope carries.
const MaxRefs = 1024

// Envelope is what a work message carries: references of one kind and lane.
type Envelope struct {
	Kind, Lane string
	Refs       []job.Ref
	// Outbox are the ids of the outbox rows that were packed into it.
	Outbox []int64
	// At delays its delivery; zero means now.
	At          time.Time
	TraceParent string
}

// envelopeJSON is the body on the wire: short, and readable for a person.
type envelopeJSON struct {
	Kind   string     `json:"kind"`
	Lane   string     `json:"lane"`
	Refs   [][3]int64 `json:"refs"`   // job, generation, emission
	Outbox int64      `json:"outbox"` // the largest outbox id
}

// Message encodes the envelope. Its id is a hash of its outbox ids and
// references, so that the broker's dedupe window can swallow only a true copy.
func (e Envelope) Message() Message {
	return Message{
		Type: TypeWork, Lane: e.Lane, Kind: e.Kind, TraceParent: e.TraceParent,
		ID: e.id(), At: e.At, Body: e.body(),
	}
}

func (e Envelope) id() string {
	h := sha256.New()
	var b [8]byte
	put := func(v int64) {
		binary.BigEndian.PutUint64(b[:], uint64(v)) //nolint:gosec // a hash takes any bits
		h.Write(b[:])
	}
	put(int64(len(e.Outbox)))
	for _, id := range e.Outbox {
		put(id)
	}
	for _, r := range e.Refs {
		put(r.Job)
		put(int64(r.Generation))
		put(int64(r.Emission))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:18])
}

func (e Envelope) body() []byte {
	b := make([]byte, 0, 64+24*len(e.Refs))
	b = append(b, `{"kind":`...)
	b = strconv.AppendQuote(b, e.Kind)
	b = append(b, `,"lane":`...)
	b = strconv.AppendQuote(b, e.Lane)
	b = append(b, `,"refs":[`...)
	for i, r := range e.Refs {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '[')
		b = strconv.AppendInt(b, r.Job, 10)
		b = append(b, ',')
		b = strconv.AppendInt(b, int64(r.Generation), 10)
		b = append(b, ',')
		b = strconv.AppendInt(b, int64(r.Emission), 10)
		b = append(b, ']')
	}
	b = append(b, `],"outbox":`...)
	var largest int64
	for _, id := range e.Outbox {
		largest = max(largest, id)
	}
	b = strconv.AppendInt(b, largest, 10)
	return append(b, '}')
}

// Received is a decoded work message.
type Received struct {
	Kind, Lane string
	Refs       []job.Ref
	// Outbox is the largest outbox id that was packed into the message.
	Outbox int64
}

// DecodeEnvelope decodes the body of a work message; the error says what is wrong
// with it. What cannot be decoded is set aside by the caller, never retried.
func DecodeEnvelope(body []byte) (Received, error) {
	in, own := decodeOwn(body)
	if !own {
		in = envelopeJSON{}
		if err := json.Unmarshal(body, &in); err != nil {
			return Received{}, fmt.Errorf("decoding an envelope of %d bytes: %w", len(body), err)
		}
	}
	if !job.ValidName(in.Kind) || !job.ValidName(in.Lane) {
		return Received{}, fmt.Errorf("decoding an envelope: kind %q or lane %q is not a name", job.Storable(in.Kind, 80), job.Storable(in.Lane, 80))
	}
	if len(in.Refs) == 0 || len(in.Refs) > MaxRefs {
		return Received{}, fmt.Errorf("decoding an envelope: it has %d references, 1 to %d are allowed", len(in.Refs), MaxRefs)
	}
	out := Received{Kind: in.Kind, Lane: in.Lane, Outbox: in.Outbox, Refs: make([]job.Ref, len(in.Refs))}
	for i, r := range in.Refs {
		if r[0] < 1 || r[1] < 1 || r[1] > 1<<31-1 || r[2] < 1 || r[2] > 1<<31-1 {
			return Received{}, fmt.Errorf("decoding an envelope: reference %d is out of range", i)
		}
		out.Refs[i] = job.Ref{Job: r[0], Generation: int32(r[1]), Emission: int32(r[2])} //nolint:gosec // the range was checked above
	}
	return out, nil
}

// Mark is a message that the dispatcher sends behind all that it relayed on a
// lane. Where it has passed, what went before it was delivered or lost.
type Mark struct {
	Lane string `json:"lane"`
	// Number was drawn from the outbox sequence and is known to the ledger.
	Number int64 `json:"mark"`
}

// Message encodes the mark for one partition.
func (m Mark) Message(partition int32) (Message, error) {
	body, err := json.Marshal(m)
	if err != nil {
		return Message{}, fmt.Errorf("encoding mark %d: %w", m.Number, err)
	}
	return Message{Type: TypeMark, Lane: m.Lane, Partition: partition, Body: body}, nil
}

// DecodeMark decodes the body of a mark.
func DecodeMark(body []byte) (Mark, error) {
	var m Mark
	if err := json.Unmarshal(body, &m); err != nil {
		return Mark{}, fmt.Errorf("decoding a mark: %w", err)
	}
	if m.Number < 1 || !job.ValidName(m.Lane) {
		return Mark{}, fmt.Errorf("decoding a mark: number %d or lane %q is out of range", m.Number, job.Storable(m.Lane, 80))
	}
	return m, nil
}
