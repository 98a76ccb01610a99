package natsbus

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/nats-io/nats.go"

	"duly.dev/duly/internal/bus"
)

// attributePrefix begins the header of a CloudEvents attribute in binary mode.
const attributePrefix = "ce-"

// headerAllowance is what MaxMessage keeps free for headers: the attributes of a
// message with the longest id, lane, kind and schedule subject.
const headerAllowance = 2048

// encodeHeader writes the message's CloudEvents attributes as headers.
func encodeHeader(m bus.Message, source, id string) nats.Header {
	attributes := m.Attributes(source, id)
	h := make(nats.Header, len(attributes)+4)
	for _, a := range attributes {
		h[attributePrefix+a.Name] = []string{encodeValue(a.Value)}
	}
	return h
}

// decodeMessage reads what a consumer received, whoever sent it.
func decodeMessage(msg *nats.Msg) bus.Message {
	return bus.FromAttributes(func(name string) string {
		return decodeValue(msg.Header.Get(attributePrefix + name))
	}, msg.Data)
}

// encodeValue percent-encodes what the CloudEvents bindings ask for: space, double quote,
// percent, and all that is not printable ASCII.
func encodeValue(s string) string {
	encode := func(c byte) bool { return c <= ' ' || c >= 0x7f || c == '"' || c == '%' }
	i := 0
	for i < len(s) && !encode(s[i]) {
		i++
	}
	if i == len(s) {
		return s
	}
	var b strings.Builder
	b.WriteString(s[:i])
	for ; i < len(s); i++ {
		if encode(s[i]) {
			fmt.Fprintf(&b, "%%%02X", s[i])
		} else {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// decodeValue undoes encodeValue; what is not well encoded is taken as it is.
func decodeValue(s string) string {
	if decoded, err := url.PathUnescape(s); err == nil {
		return decoded
	}
	return s
}

// wireSize is what the headers and body of a message take of the server's
// max_payload.
func wireSize(msg *nats.Msg) int {
	size := len("NATS/1.0\r\n\r\n") + len(msg.Data)
	for name, values := range msg.Header {
		for _, v := range values {
			size += len(name) + len(v) + len(": \r\n")
		}
	}
	return size
}
