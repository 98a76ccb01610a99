package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	// MaxName is the longest name of a kind, lane or schedule, in bytes.
	MaxName = 64
	// MaxKey is the longest operation key, in bytes.
	MaxKey = 512
	// MaxSubject is the longest subject, in bytes.
	MaxSubject = 512
	// MaxPeriod is the longest period key, in bytes.
	MaxPeriod = 64
	// MaxLocal is the longest zone and the longest local time, in bytes.
	MaxLocal = 64
	// MaxDestination is the longest destination, in bytes.
	MaxDestination = 2048
	// DefaultMaxPayload is the payload limit unless configured otherwise, in bytes.
	DefaultMaxPayload = 256 << 10
)

// earliest and latest bound every instant that Duly takes.
var (
	earliest = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(2201, 1, 1, 0, 0, 0, 0, time.UTC)
)

// Limits are what a door checks a spec against besides the rules themselves.
type Limits struct {
	// MaxPayload in bytes; 0 means DefaultMaxPayload.
	MaxPayload int
	// KnownKind reports whether a kind is configured; nil skips the check, which
	// the ledger then makes.
	KnownKind func(kind string) bool
	// KnownZone reports whether a zone is one; nil skips the check.
	KnownZone func(zone string) bool
}

// Validate checks the spec against the table of refusals at the instant now and
// returns all reasons to refuse it, joined, or nil. It changes nothing.
func (s Spec) Validate(now time.Time, limits Limits) error {
	var all []error
	add := func(r *Refusal) {
		if r != nil {
			all = append(all, r)
		}
	}
	add(checkKind(s.Kind, limits.KnownKind))
	add(checkText("key", s.Key, MaxKey, true))
	add(checkText("subject", s.Subject, MaxSubject, false))
	add(checkText("period", s.Period, MaxPeriod, false))
	add(checkText("destination", s.Destination, MaxDestination, false))
	add(checkPayload(s.Payload, limits.MaxPayload))
	add(checkYears("due", s.Due))
	add(checkYears("deadline", s.Deadline))
	add(checkDeadline(s, now))
	add(checkZone(s.DeadlineZone, limits.KnownZone))
	add(checkText("deadline_local", s.DeadlineLocal, MaxLocal, false))
	return errors.Join(all...)
}

// ValidName reports whether s is a name: 1 to 64 characters of a-z, 0-9 and '-'.
func ValidName(s string) bool {
	if s == "" || len(s) > MaxName {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

func checkKind(kind string, known func(string) bool) *Refusal {
	switch {
	case kind == "":
		return Refuse("kind", "", RuleRequired, "")
	case !ValidName(kind):
		return Refuse("kind", kind, RuleName, "")
	case known != nil && !known(kind):
		return Refuse("kind", kind, RuleUnknownKind, "")
	}
	return nil
}

func checkZone(zone string, known func(string) bool) *Refusal {
	if zone != "" && known != nil && !known(zone) {
		return Refuse("deadline_zone", zone, RuleUnknownZone, "")
	}
	return checkText("deadline_zone", zone, MaxLocal, false)
}

// CheckText checks one text by the rules of keys: valid UTF-8, printable, NFC, no space
// at either end, at most max bytes. An empty text is refused where it is required.
func CheckText(field, text string, max int, required bool) error {
	if r := checkText(field, text, max, required); r != nil {
		return r
	}
	return nil
}

func checkText(field, s string, max int, required bool) *Refusal {
	switch {
	case s == "" && required:
		return Refuse(field, "", RuleRequired, "")
	case s == "":
		return nil
	case len(s) > max:
		return Refuse(field, s, RuleTooLong, "at most "+strconv.Itoa(max)+" bytes, it has "+strconv.Itoa(len(s)))
	case !utf8.ValidString(s):
		return Refuse(field, s, RuleUTF8, "")
	case strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }):
		return Refuse(field, s, RulePrintable, "")
	case strings.TrimSpace(s) != s:
		return Refuse(field, s, RuleSpace, "")
	case !norm.NFC.IsNormalString(s):
		return Refuse(field, s, RuleNFC, "")
	}
	return nil
}

// checkPayload never shows the payload: it may be private.
func checkPayload(p []byte, max int) *Refusal {
	if max == 0 {
		max = DefaultMaxPayload
	}
	switch {
	case len(p) == 0:
		return Refuse("payload", "", RuleRequired, "")
	case len(p) > max:
		return Refuse("payload", "", RuleTooLarge, "at most "+strconv.Itoa(max)+" bytes, it has "+strconv.Itoa(len(p)))
	case !utf8.Valid(p):
		return Refuse("payload", "", RuleUTF8, "")
	case !json.Valid(p):
		return Refuse("payload", "", RuleJSON, whereNotJSON(p))
	}
	return nil
}

func whereNotJSON(p []byte) string {
	var v any
	err := json.NewDecoder(bytes.NewReader(p)).Decode(&v)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return "at byte " + strconv.FormatInt(syntax.Offset, 10)
	}
	if err == nil {
		return "something follows the value"
	}
	return "it ends too early"
}

func checkYears(field string, t time.Time) *Refusal {
	if t.IsZero() || (!t.Before(earliest) && t.Before(latest)) {
		return nil
	}
	return Refuse(field, t.UTC().Format(time.RFC3339), RuleYears, "")
}

func checkDeadline(s Spec, now time.Time) *Refusal {
	if s.Deadline.IsZero() {
		return nil
	}
	value := s.Deadline.UTC().Format(time.RFC3339)
	switch {
	case !s.Deadline.After(now):
		return Refuse("deadline", value, RuleDeadlinePast, "")
	case !s.Due.IsZero() && !s.Due.Before(s.Deadline):
		return Refuse("due", s.Due.UTC().Format(time.RFC3339), RuleDueBeforeDeadline, "deadline "+value)
	}
	return nil
}
