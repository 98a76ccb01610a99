package bus

import (
	"bytes"

	"duly.dev/duly/pkg/job"
)

// A worker decodes every envelope, and nearly all were written by Envelope.Message. What
// is byte for byte of that form is read here, in one pass; anything else, also what other
// versions may write, is left to encoding/json, which decides what it means.

// scanner reads the form that Envelope.Message writes. Once something else was met, ok
// is false and stays so.
type scanner struct {
	rest []byte
	ok   bool
}

// expect passes over the text.
func (s *scanner) expect(text string) {
	if s.ok = s.ok && len(s.rest) >= len(text) && string(s.rest[:len(text)]) == text; s.ok {
		s.rest = s.rest[len(text):]
	}
}

// name reads a name up to its closing quote. It holds nothing that JSON would escape.
func (s *scanner) name() string {
	end := bytes.IndexByte(s.rest, '"')
	if !s.ok || end < 0 {
		s.ok = false
		return ""
	}
	name := string(s.rest[:end])
	s.rest = s.rest[end+1:]
	s.ok = job.ValidName(name)
	return name
}

// maxDigits is how many digits fit into an int64, whatever they are.
const maxDigits = 18

// number reads digits, without a sign or a leading zero.
func (s *scanner) number() int64 {
	n, i := int64(0), 0
	for ; i < len(s.rest) && i <= maxDigits && s.rest[i] >= '0' && s.rest[i] <= '9'; i++ {
		n = 10*n + int64(s.rest[i]-'0')
	}
	s.ok = s.ok && i > 0 && i <= maxDigits && (i == 1 || s.rest[0] != '0')
	s.rest = s.rest[i:]
	return n
}

// comma passes over a comma, and reports whether there was one.
func (s *scanner) comma() bool {
	if s.ok && len(s.rest) > 0 && s.rest[0] == ',' {
		s.rest = s.rest[1:]
		return true
	}
	return false
}

// decodeOwn decodes a body of the form that Envelope.Message writes; false means that it
// has another, and nothing about it.
func decodeOwn(body []byte) (envelopeJSON, bool) {
	s := scanner{body, true}
	var e envelopeJSON
	s.expect(`{"kind":"`)
	e.Kind = s.name()
	s.expect(`,"lane":"`)
	e.Lane = s.name()
	s.expect(`,"refs":[`)
	if s.ok {
		e.Refs = make([][3]int64, 0, min(bytes.Count(s.rest, []byte{'['}), MaxRefs))
	}
	for more := true; s.ok && more; more = s.comma() {
		var ref [3]int64
		s.expect("[")
		ref[0] = s.number()
		s.expect(",")
		ref[1] = s.number()
		s.expect(",")
		ref[2] = s.number()
		s.expect("]")
		e.Refs = append(e.Refs, ref)
	}
	s.expect(`],"outbox":`)
	e.Outbox = s.number()
	s.expect("}")
	return e, s.ok && len(s.rest) == 0
}
