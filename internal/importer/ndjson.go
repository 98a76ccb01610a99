package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"

	"duly.dev/duly/pkg/job"
)

// jsonSource reads a file that has a JSON object on each line.
type jsonSource struct{ lines *lines }

func (s *jsonSource) next() (record, error) {
	for {
		l, err := s.lines.next()
		switch {
		case err != nil:
			return record{}, err
		case l.blank():
			continue
		}
		r := record{line: l.number}
		switch {
		case l.tooLong:
			r.refuse(wholeRow, "", job.RuleTooLong, "at most "+strconv.Itoa(s.lines.max)+" bytes")
		case !utf8.Valid(l.text):
			r.refuse(wholeRow, "", job.RuleUTF8, "")
		default:
			r.read(l.text)
		}
		return r, nil
	}
}

// read fills the record from the text of an object, and refuses what is wrong with it.
func (r *record) read(text []byte) {
	d := json.NewDecoder(bytes.NewReader(text))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		r.refuse(wholeRow, "", job.RuleJSON, "it must be an object")
		return
	}
	var seen []string
	for d.More() {
		token, err := d.Token()
		name, isName := token.(string)
		var value json.RawMessage
		if err == nil && isName {
			err = d.Decode(&value)
		}
		if err != nil || !isName {
			r.refuse(wholeRow, "", job.RuleJSON, position(d, err))
			return
		}
		if slices.Contains(seen, name) {
			r.refuse(name, "", job.RuleTwice, "")
			continue
		}
		seen = append(seen, name)
		r.set(name, value)
	}
	if _, err := d.Token(); err != nil { // the closing brace
		r.refuse(wholeRow, "", job.RuleJSON, position(d, err))
		return
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		r.refuse(wholeRow, "", job.RuleJSON, "something follows the object")
	}
}

// set gives a field its value; null is the same as leaving it out.
func (r *record) set(name string, value json.RawMessage) {
	if name == columnPayload {
		r.payload = slices.Clone(value)
		return
	}
	field := r.text(name)
	if field == nil {
		r.refuse(name, "", job.RuleField, "")
		return
	}
	if string(value) == "null" {
		return
	}
	if err := json.Unmarshal(value, field); err != nil {
		r.refuse(name, string(value), job.RuleText, "")
	}
}

// position says where in a line the JSON breaks.
func position(d *json.Decoder, err error) string {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return "at byte " + strconv.FormatInt(syntax.Offset, 10)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it ends too early"
	}
	return "at byte " + strconv.FormatInt(d.InputOffset(), 10)
}
