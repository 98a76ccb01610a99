package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"duly.dev/duly/pkg/job"
)

// The columns of a file; package documentation says what each means.
const (
	columnKind        = "kind"
	columnKey         = "key"
	columnSubject     = "subject"
	columnPeriod      = "period"
	columnDestination = "destination"
	columnDue         = "due"
	columnDeadline    = "deadline"
	columnZone        = "zone"
	columnPayload     = "payload"
	// payloadMember begins the columns that each hold one member of the payload.
	payloadMember = "payload."
	// wholeRow stands for a column where the row itself is wrong.
	wholeRow = "row"
)

var known = []string{
	columnKind, columnKey, columnSubject, columnPeriod, columnDestination, columnDue, columnDeadline, columnZone, columnPayload,
}

// columns are the columns of a CSV file, in its order.
type columns struct{ names []string }

// newColumns checks a header and returns everything that is wrong with it, joined.
func newColumns(names []string) (columns, error) {
	var errs []error
	refuse := func(name string, rule job.Rule, more string) {
		errs = append(errs, job.Refuse("column", name, rule, more))
	}
	for i, name := range names {
		switch {
		case slices.Contains(names[:i], name):
			refuse(name, job.RuleTwice, "")
		case slices.Contains(known, name), strings.HasPrefix(name, payloadMember) && len(name) > len(payloadMember) && utf8.ValidString(name):
		default:
			refuse(name, job.RuleField, "known are "+strings.Join(known, ", ")+" and payload.NAME")
		}
	}
	for _, name := range []string{columnKind, columnKey} {
		if !slices.Contains(names, name) {
			refuse(name, job.RuleRequired, "")
		}
	}
	whole := slices.Contains(names, columnPayload)
	member := slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, payloadMember) })
	switch {
	case whole && member:
		refuse(columnPayload, job.RuleTwice, "there are columns payload.NAME too: use either")
	case !whole && !member:
		refuse(columnPayload, job.RuleRequired, "or columns payload.NAME")
	}
	if len(errs) > 0 {
		return columns{}, fmt.Errorf("the header is refused and nothing was imported:\n%w", errors.Join(errs...))
	}
	return columns{names}, nil
}

// plausible reports whether fields that came from several lines can be one row: there
// is one for each column, and the payload is JSON.
func (c columns) plausible(fields []string) bool {
	if len(fields) != len(c.names) {
		return false
	}
	payload := slices.Index(c.names, columnPayload)
	return payload < 0 || json.Valid([]byte(fields[payload]))
}

// record makes the record of a row, which has as many fields as there are columns.
func (c columns) record(number int, fields []string) record {
	r := record{line: number}
	var members map[string]string
	for i, name := range c.names {
		value := fields[i]
		if !utf8.ValidString(value) {
			r.refuse(name, shown(name, value), job.RuleUTF8, "")
			value = ""
		}
		switch member, isMember := strings.CutPrefix(name, payloadMember); {
		case isMember:
			if members == nil {
				members = make(map[string]string)
			}
			members[member] = value
		case name == columnPayload:
			r.payload = []byte(value)
		default:
			*r.text(name) = value
		}
	}
	if members != nil {
		r.payload = object(members)
	}
	return r
}

// object writes texts as a JSON object, in the order of their names.
func object(members map[string]string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(members); err != nil { // texts can always be encoded
		panic(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// shown is the value of a field as a refusal may show it: payloads are private.
func shown(name, value string) string {
	if strings.HasPrefix(name, columnPayload) {
		return ""
	}
	return value
}
