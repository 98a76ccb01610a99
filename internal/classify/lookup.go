package classify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"duly.dev/duly/pkg/job"
)

// LookupRule says what answers mean that a receiver gives when it is asked about an
// effect: those with one of the statuses, and, where there is a pointer, with such a value
// in their body.
type LookupRule struct {
	Status Statuses
	// Pointer names a value of a JSON body (RFC 6901); empty: the body does not matter.
	Pointer string
	// Equals are the values of which it must be one, as they are written in JSON, texts
	// without quotes. None: it must be there, and not be null.
	Equals []string
	Said   job.Said
}

// LookupTable is an ordered list of rules; the first that matches decides.
type LookupTable []LookupRule

// Classify returns what an answer says. What no rule matches says nothing. Nor does a body
// that a rule had to look into and that cannot be read: what it would have said may not be
// taken for what a later rule says without a look.
func (t LookupTable) Classify(status int, body Document) job.Said {
	for _, r := range t {
		switch {
		case !r.Status.Has(status):
		case r.Pointer != "" && !body.ok:
			return job.SaidNothing
		case r.matches(body):
			return r.Said
		}
	}
	return job.SaidNothing
}

func (r LookupRule) matches(body Document) bool {
	if r.Pointer == "" {
		return true
	}
	text, ok := body.Text(r.Pointer)
	return ok && (len(r.Equals) == 0 || slices.Contains(r.Equals, text))
}

// Statuses are HTTP statuses from one to another.
type Statuses struct{ From, To int }

// Has reports whether the status is one of them.
func (s Statuses) Has(status int) bool { return s.From <= status && status <= s.To }

// String writes them as ParseStatuses reads them.
func (s Statuses) String() string {
	if s.From == s.To {
		return strconv.Itoa(s.From)
	}
	return fmt.Sprintf("%d-%d", s.From, s.To)
}

var statuses = regexp.MustCompile(`^([1-5])(?:(xx)|(\d\d)(?:-([1-5]\d\d))?)$`)

// ParseStatuses reads "404", "2xx" or "200-204".
func ParseStatuses(text string) (Statuses, error) {
	m := statuses.FindStringSubmatch(text)
	if m == nil {
		return Statuses{}, errors.New("it must be a status (404), a class (2xx) or a range (200-204)")
	}
	first := int(m[1][0]-'0') * 100
	if m[2] != "" {
		return Statuses{first, first + 99}, nil
	}
	s := Statuses{From: first + number(m[3])}
	if s.To = s.From; m[4] != "" {
		s.To = number(m[4])
	}
	if s.To < s.From {
		return Statuses{}, fmt.Errorf("the range %s ends before it begins", text)
	}
	return s, nil
}

// number reads digits that an expression has matched.
func number(digits string) (n int) {
	for _, d := range digits {
		n = n*10 + int(d-'0')
	}
	return n
}

// evasive are the statuses that speak of the request, the way or the moment, and never of
// the effect that was asked about.
var evasive = []Statuses{{100, 199}, {300, 399}, {401, 401}, {403, 403}, {407, 408}, {421, 421}, {425, 425}, {429, 429}, {500, 599}}

// Evasive returns a status among these that cannot mean "it did not happen", whatever a
// receiver promises: proxies, overload, broken servers and expired credentials answer so.
func (s Statuses) Evasive() (status int, is bool) {
	for _, e := range evasive {
		if s.From <= e.To && e.From <= s.To {
			return max(s.From, e.From), true
		}
	}
	return 0, false
}

// Document is a JSON body; the zero Document has no value.
type Document struct {
	root any
	ok   bool
}

// ParseDocument reads a body, which must be one JSON value and nothing behind it.
func ParseDocument(body []byte) Document {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var doc Document
	if err := d.Decode(&doc.root); err != nil {
		return Document{}
	}
	_, err := d.Token()
	doc.ok = errors.Is(err, io.EOF)
	return doc
}

// Text returns the value that the pointer (RFC 6901) names, as it is written in JSON,
// texts without quotes. It is false where there is none, where it is null, and for objects
// and lists.
func (d Document) Text(pointer string) (string, bool) {
	if !d.ok {
		return "", false
	}
	at := d.root
	for _, step := range steps(pointer) {
		switch v := at.(type) {
		case map[string]any:
			next, there := v[step]
			if !there {
				return "", false
			}
			at = next
		case []any:
			n, ok := index(step)
			if !ok || n >= len(v) {
				return "", false
			}
			at = v[n]
		default:
			return "", false
		}
	}
	switch v := at.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}

// CheckPointer says what is wrong with a JSON pointer; nil where nothing is.
func CheckPointer(pointer string) error {
	if !strings.HasPrefix(pointer, "/") {
		return errors.New("it must be a JSON pointer (RFC 6901), such as /data/0/state")
	}
	for _, part := range strings.Split(pointer, "~")[1:] {
		if part == "" || part[0] != '0' && part[0] != '1' {
			return errors.New("in a JSON pointer '~' is written ~0, and '/' within a name ~1")
		}
	}
	return nil
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

func steps(pointer string) []string {
	all := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i := range all {
		all[i] = unescape.Replace(all[i])
	}
	return all
}

// index reads a place in a list: digits, without a leading zero.
func index(step string) (int, bool) {
	n, err := strconv.ParseUint(step, 10, 31)
	return int(n), err == nil && strconv.FormatUint(n, 10) == step
}
