package bus

import (
	"time"
)

// MaxID is the longest message id, in bytes, so that the headers of a message have
// a size that MaxMessage can allow for.
const MaxID = 128

// Attribute is one CloudEvents attribute, by its name without the transport's
// prefix. A transport writes it as a header of its own ("binary mode").
type Attribute struct{ Name, Value string }

// The attributes that Duly writes: those that CloudEvents 1.0 requires, and its
// own extensions. They are for people, tracing and other consumers; what Duly
// acts on is in the body, which the ledger confirms.
const (
	attrSpecVersion = "specversion"
	attrID          = "id"
	attrSource      = "source"
	attrType        = "type"
	attrContentType = "datacontenttype"
	attrTraceParent = "traceparent"
	attrLane        = "dulylane"
	attrKind        = "dulykind"
	attrAt          = "dulyat"

	specVersion = "1.0"
	contentType = "application/json"
)

// Attributes are the CloudEvents attributes of the message. Source names the
// sender, such as the prefix of the topics; id stands in for the message's own id
// where it has none (CloudEvents requires one).
func (m Message) Attributes(source, id string) []Attribute {
	if m.ID != "" {
		id = m.ID
	}
	out := []Attribute{
		{attrSpecVersion, specVersion},
		{attrID, id},
		{attrSource, source},
		{attrType, string(m.Type)},
		{attrContentType, contentType},
	}
	add := func(name, value string) {
		if value != "" {
			out = append(out, Attribute{name, value})
		}
	}
	add(attrLane, m.Lane)
	add(attrKind, m.Kind)
	add(attrTraceParent, m.TraceParent)
	if !m.At.IsZero() {
		add(attrAt, m.At.UTC().Format(time.RFC3339Nano))
	}
	return out
}

// FromAttributes is the message that a transport received: value returns an
// attribute by name, or "". A message that is not a CloudEvent of version 1.0 has
// no Type, and nothing of what a foreign one claims is checked here.
func FromAttributes(value func(name string) string, body []byte) Message {
	m := Message{Body: body}
	if value(attrSpecVersion) != specVersion {
		return m
	}
	m.Type = Type(value(attrType))
	m.Lane, m.Kind = value(attrLane), value(attrKind)
	m.TraceParent = value(attrTraceParent)
	if m.Type != TypeMark {
		m.ID = value(attrID)
	}
	if at, err := time.Parse(time.RFC3339Nano, value(attrAt)); err == nil {
		m.At = at.UTC()
	}
	return m
}
