package calendar

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// KeyTemplate makes the operation keys of a run's jobs: a text in which {period} stands
// for the run's period and {column} for a column of the selection, as in
// "digest:{period}:{customer}".
type KeyTemplate struct {
	text  string
	parts []keyPart
}

// keyPart is a text, and behind it a column; the last part has none.
type keyPart struct{ text, column string }

// periodPart is the placeholder of the period.
const periodPart = "period"

const columnRule = "1 to 63 characters of a-z, 0-9 and '_', a letter first"

var column = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

func validColumn(name string) bool { return column.MatchString(name) }

// ErrNoValue is what Expand's error matches where a column has no value.
var ErrNoValue = errors.New("it is null in this row (or no column of the selection any more)")

// ParseKeyTemplate reads a template. It must name the period, so that the jobs of two
// runs never share a key, and what it names besides must be able to be columns. All that
// is wrong is told at once, as *FieldError of the field "key".
func ParseKeyTemplate(text string) (KeyTemplate, error) {
	t := KeyTemplate{text: text}
	var r refusals
	rest := text
	for {
		before, behind, opened := strings.Cut(rest, "{")
		if strings.Contains(before, "}") {
			r.add("key", text, "a '}' closes nothing; placeholders are {period} and {column}")
		}
		if !opened {
			t.parts = append(t.parts, keyPart{text: before})
			break
		}
		name, after, closed := strings.Cut(behind, "}")
		switch {
		case !closed:
			r.add("key", text, "a '{' is not closed; placeholders are {period} and {column}")
		case !validColumn(name):
			r.add("key", text, "{%s} names no column: a column has %s", short(name), columnRule)
		}
		if before == "" && len(t.parts) > 0 {
			r.add("key", text, "a text must stand before {%s}, or other values of the two could make the same key", short(name))
		}
		t.parts = append(t.parts, keyPart{before, name})
		rest = after
	}
	if len(r) == 0 && !t.names(periodPart) {
		r.add("key", text, "it must contain {period}, or the jobs of the next run would be taken for copies of this one's")
	}
	return t, r.join()
}

func (t KeyTemplate) names(name string) bool {
	return slices.ContainsFunc(t.parts, func(p keyPart) bool { return p.column == name })
}

// String is the template as it was written.
func (t KeyTemplate) String() string { return t.text }

// Columns are the columns that it names, each once, in order of appearance.
func (t KeyTemplate) Columns() []string {
	columns := []string{}
	for _, p := range t.parts {
		if p.column != "" && p.column != periodPart && !slices.Contains(columns, p.column) {
			columns = append(columns, p.column)
		}
	}
	return columns
}

// Expand makes a key. The values of columns are taken as they are; whether the key is
// one, job.Spec.Validate says.
func (t KeyTemplate) Expand(period string, value func(column string) (string, bool)) (string, error) {
	var key strings.Builder
	for _, p := range t.parts {
		key.WriteString(p.text)
		switch p.column {
		case "":
		case periodPart:
			key.WriteString(period)
		default:
			v, ok := value(p.column)
			if !ok {
				return "", fmt.Errorf("column %s: %w", p.column, ErrNoValue)
			}
			key.WriteString(v)
		}
	}
	return key.String(), nil
}
