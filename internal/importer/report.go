package importer

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"strconv"

	"duly.dev/duly/pkg/job"
)

// Refused is one reason why a row was refused. A row may have several.
type Refused struct {
	// Line is where the row begins, from 1.
	Line int `json:"line"`
	// Kind and Key are the row's, where it could be read.
	Kind string `json:"kind,omitempty"`
	Key  string `json:"key,omitempty"`
	// Field is the column, or "row" for the row as a whole.
	Field string `json:"field"`
	// Value is what was given, cut; empty for payloads, which are private.
	Value string   `json:"value,omitempty"`
	Rule  job.Rule `json:"rule"`
	// Text says the rule in words.
	Text string `json:"text"`
}

func refusedRow(r row, why *job.Refusal) Refused {
	text := why.Rule.Text()
	if why.More != "" {
		text += " (" + why.More + ")"
	}
	return Refused{
		Line: r.line, Kind: job.Storable(r.spec.Kind, job.MaxName), Key: job.Storable(r.spec.Key, job.MaxKey),
		Field: why.Field, Value: why.Value, Rule: why.Rule, Text: text,
	}
}

// Report writes refused rows to a file, one reason a line.
type Report struct {
	csv  *csv.Writer
	json *json.Encoder
}

// NewReport writes a report in the format to w: NDJSON, or CSV with a header.
func NewReport(w io.Writer, format Format) (*Report, error) {
	if format == NDJSON {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		return &Report{json: e}, nil
	}
	r := &Report{csv: csv.NewWriter(w)}
	return r, r.csv.Write([]string{"line", "kind", "key", "field", "value", "rule", "text"})
}

// Add writes one reason.
func (r *Report) Add(refused Refused) error {
	if r.json != nil {
		return r.json.Encode(refused)
	}
	return r.csv.Write([]string{
		strconv.Itoa(refused.Line), refused.Kind, refused.Key, refused.Field, refused.Value, string(refused.Rule), refused.Text,
	})
}

// Flush writes what is buffered.
func (r *Report) Flush() error {
	if r.csv == nil {
		return nil
	}
	r.csv.Flush()
	return r.csv.Error()
}
