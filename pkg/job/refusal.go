package job

import (
	"errors"
	"fmt"
)

// Rule names a reason to refuse a request. The table is the same behind every
// door: Go, SQL, HTTP, bus and file.
type Rule string

const (
	// RuleRequired: the field must be given.
	RuleRequired Rule = "required"
	// RuleUnknownKind: no kind of this name is configured.
	RuleUnknownKind Rule = "unknown_kind"
	// RuleName: a name is 1 to 64 of a-z, 0-9 and '-'.
	RuleName Rule = "name"
	// RuleUTF8: text must be valid UTF-8.
	RuleUTF8 Rule = "utf8"
	// RulePrintable: text must be printable.
	RulePrintable Rule = "printable"
	// RuleNFC: text must be in Unicode normalization form C.
	RuleNFC Rule = "nfc"
	// RuleSpace: text must not begin or end with a space.
	RuleSpace Rule = "no_outer_space"
	// RuleTooLong: the field is over its longest length.
	RuleTooLong Rule = "too_long"
	// RuleJSON: the payload must be exactly one valid JSON value.
	RuleJSON Rule = "json"
	// RuleTooLarge: the payload is over the limit.
	RuleTooLarge Rule = "too_large"
	// RuleDueBeforeDeadline: the due time must be before the deadline.
	RuleDueBeforeDeadline Rule = "due_before_deadline"
	// RuleDeadlinePast: the deadline has passed already.
	RuleDeadlinePast Rule = "deadline_past"
	// RuleYears: an instant must be in the years 2000 to 2200.
	RuleYears Rule = "years_2000_2200"
	// RuleUnknownZone: the zone is not an IANA time zone.
	RuleUnknownZone Rule = "unknown_zone"
	// RuleTime: the text is not a time in the form that the field takes.
	RuleTime Rule = "time"
	// RuleConflict: a job of this kind and key exists with another body.
	RuleConflict Rule = "conflict"
	// RuleDestination: the kind's channel cannot use the destination.
	RuleDestination Rule = "destination"
	// RuleField: the input has a field that nobody knows.
	RuleField Rule = "unknown_field"
	// RuleTwice: the field is given more than once.
	RuleTwice Rule = "given_twice"
	// RuleText: the value must be a JSON text.
	RuleText Rule = "text"
	// RuleColumns: a row of a file must have as many fields as its header.
	RuleColumns Rule = "columns"
	// RuleQuoting: quotes in a row of a file are not as CSV has them.
	RuleQuoting Rule = "quoting"
)

// rules says each rule in words that tell the user what to do.
var rules = map[Rule]string{
	RuleRequired:          "it must be given",
	RuleUnknownKind:       "no kind of this name is configured; add it to duly.yaml or correct the name",
	RuleName:              "a name is 1 to 64 characters of a-z, 0-9 and '-'",
	RuleUTF8:              "it must be valid UTF-8",
	RulePrintable:         "it must consist of printable characters",
	RuleNFC:               "it must be in Unicode normalization form C (NFC)",
	RuleSpace:             "it must not begin or end with a space",
	RuleTooLong:           "it is longer than allowed",
	RuleJSON:              "it must be exactly one valid JSON value",
	RuleTooLarge:          "it is larger than the payload limit",
	RuleDueBeforeDeadline: "the due time must be before the deadline",
	RuleDeadlinePast:      "the deadline has passed already",
	RuleYears:             "an instant must be in the years 2000 to 2200",
	RuleUnknownZone:       "it must be an IANA time zone such as Europe/Paris",
	RuleTime:              "it must be a time with an offset (2026-09-30T17:00:00+02:00), or a local time with a zone beside it",
	RuleConflict:          "a job with this kind and key exists with another body; use another key, or ask for replace before its first attempt",
	RuleDestination:       "the kind's channel cannot use this destination",
	RuleField:             "no such field is known",
	RuleTwice:             "it must be given once",
	RuleText:              "it must be a JSON text, in quotes",
	RuleColumns:           "a row must have as many fields as the header",
	RuleQuoting:           "quotes must enclose a whole field, and be doubled inside it",
}

// Rules lists every rule, in no order.
func Rules() []Rule {
	all := make([]Rule, 0, len(rules))
	for r := range rules {
		all = append(all, r)
	}
	return all
}

// Text says the rule in words.
func (r Rule) Text() string { return rules[r] }

// Refusal is one reason why a request was refused: the field, its value (cut, and
// empty where it is private) and the rule that it breaks.
type Refusal struct {
	Field string `json:"field"`
	Value string `json:"value,omitempty"`
	Rule  Rule   `json:"rule"`
	// More adds what the rule's text cannot know, such as a limit or a position.
	More string `json:"more,omitempty"`
}

// ErrRefused is what every Refusal matches with errors.Is.
var ErrRefused = errors.New("refused")

// Error names field, value and rule.
func (r *Refusal) Error() string {
	msg := r.Field
	if r.Value != "" {
		msg += fmt.Sprintf(" %q", r.Value)
	}
	msg += ": " + r.Rule.Text()
	if r.More != "" {
		msg += " (" + r.More + ")"
	}
	return msg
}

// Is makes every refusal match ErrRefused, and ErrConflict where it is one.
func (r *Refusal) Is(target error) bool {
	return target == ErrRefused || (target == ErrConflict && r.Rule == RuleConflict)
}

// Refuse makes a refusal; the value is made storable and cut to 80 bytes.
func Refuse(field, value string, rule Rule, more string) *Refusal {
	return &Refusal{Field: field, Value: Storable(value, 80), Rule: rule, More: more}
}

// Refusals collects every *Refusal in err, which may be joined or wrapped.
func Refusals(err error) []*Refusal {
	if err == nil {
		return nil
	}
	var all []*Refusal
	switch e := err.(type) { //nolint:errorlint // the tree of errors is walked here by hand
	case *Refusal:
		return []*Refusal{e}
	case interface{ Unwrap() []error }:
		for _, sub := range e.Unwrap() {
			all = append(all, Refusals(sub)...)
		}
	case interface{ Unwrap() error }:
		all = Refusals(e.Unwrap())
	}
	return all
}

// Sentinels that doors and tools answer with.
var (
	// ErrConflict: a job with the key exists, with another body.
	ErrConflict = errors.New("the key is taken by a job with another body")
	// ErrNotFound: there is no such job or generation.
	ErrNotFound = errors.New("no such job")
)
