package smtpchan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	htmltemplate "html/template"
	"io"
	"strings"
	texttemplate "text/template"
	"time"
	"unicode"
)

const (
	// maxSubject is the longest rendered subject, in bytes.
	maxSubject = 500
	// maxBody is the largest rendered text or HTML, in bytes.
	maxBody = 10 << 20
	// hole is what text/template prints where there is no value.
	hole = "<no value>"
)

// Fields are what the templates of subject, text and HTML are given.
type Fields struct {
	// Kind, Key, Subject, Period and Destination are the job's.
	Kind, Key, Subject, Period, Destination string
	// Deadline is the job's deadline in its zone (UTC without one), for Format and
	// In; a zero time where there is none.
	Deadline time.Time
	// DeadlineLocal and DeadlineZone are how the producer put the deadline; empty
	// where it did not.
	DeadlineLocal, DeadlineZone string
	// Payload is the decoded payload. Numbers are as exact as they were sent; {{int
	// .Payload.n}} makes one that can be compared. A key that is missing or null is
	// an error, except when it is asked for with index: {{with index .Payload "name"}}.
	Payload any
}

// templates are the compiled templates; text and html may be nil.
type templates struct {
	subject, text *texttemplate.Template
	html          *htmltemplate.Template
}

// content is what they give for one mail; text and html may be empty.
type content struct{ subject, text, html string }

var functions = map[string]any{"int": toInt}

// toInt makes a number of the payload one that eq, lt and gt take. Its error does
// not show the value, which may be private.
func toInt(v any) (int64, error) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, errors.New("int: the value is not a number")
	}
	i, err := n.Int64()
	if err != nil {
		return 0, errors.New("int: the number is not whole or too large")
	}
	return i, nil
}

// parseTemplates compiles the templates of a configuration and returns all that is
// wrong with them, joined, each naming its field.
func parseTemplates(c *Config) (templates, error) {
	var t templates
	var errs []error
	if c.Subject == "" {
		errs = append(errs, errors.New("subject: it must be given"))
	}
	if c.Text == "" && c.HTML == "" {
		errs = append(errs, errors.New("text, html: at least one must be given"))
	}
	compile := func(field, source string) *texttemplate.Template {
		if source == "" {
			return nil
		}
		compiled, err := compileText(field, source)
		errs = append(errs, err)
		return compiled
	}
	t.subject, t.text = compile("subject", c.Subject), compile("text", c.Text)
	if c.HTML != "" {
		var err error
		t.html, err = compileHTML(c.HTML)
		errs = append(errs, err)
	}
	return t, errors.Join(errs...)
}

func compileText(field, source string) (*texttemplate.Template, error) {
	t, err := texttemplate.New(field).Option("missingkey=error").Funcs(functions).Parse(source)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	trial, err := t.Clone()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	if err := trial.Option("missingkey=zero").Execute(io.Discard, trialFields()); unknownField(err) {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return t, nil
}

// compileHTML also runs the template once, since html/template looks for mistakes
// in the HTML only then.
func compileHTML(source string) (*htmltemplate.Template, error) {
	t, err := htmltemplate.New("html").Option("missingkey=error").Funcs(functions).Parse(source)
	if err != nil {
		return nil, fmt.Errorf("html: %w", err)
	}
	trial, err := t.Clone()
	if err != nil {
		return nil, fmt.Errorf("html: %w", err)
	}
	err = trial.Option("missingkey=zero").Execute(io.Discard, trialFields())
	var badHTML *htmltemplate.Error
	if errors.As(err, &badHTML) || unknownField(err) {
		return nil, fmt.Errorf("html: %w", err)
	}
	return t, nil
}

func trialFields() Fields { return Fields{Payload: map[string]any{}} }

// unknownField recognises a field that Fields does not have. Other errors of a
// trial only say that it had no payload.
func unknownField(err error) bool {
	return err != nil && strings.Contains(err.Error(), "in type smtpchan.Fields")
}

// render gives the content of one mail. Its errors name the template and the place
// in it, not the payload's values.
func (t templates) render(f Fields) (content, error) {
	var c content
	var err error
	if c.subject, err = renderText(t.subject, f); err != nil {
		return content{}, err
	}
	c.subject = strings.TrimSpace(c.subject)
	if err := checkSubject(c.subject); err != nil {
		return content{}, err
	}
	if t.text != nil {
		if c.text, err = renderText(t.text, f); err != nil {
			return content{}, err
		}
	}
	if t.html != nil {
		var out capped
		if err := t.html.Execute(&out, f); err != nil {
			return content{}, fmt.Errorf("the html cannot be made: %w", err)
		}
		c.html = out.String()
	}
	return c, nil
}

func renderText(t *texttemplate.Template, f Fields) (string, error) {
	var out capped
	if err := t.Execute(&out, f); err != nil {
		return "", fmt.Errorf("the %s cannot be made: %w", t.Name(), err)
	}
	if strings.Contains(out.String(), hole) {
		return "", fmt.Errorf("the %s cannot be made: it prints something that the payload does not have", t.Name())
	}
	return out.String(), nil
}

func checkSubject(s string) error {
	switch {
	case s == "":
		return errors.New("the subject is empty")
	case len(s) > maxSubject:
		return fmt.Errorf("the subject is longer than %d bytes", maxSubject)
	case strings.ContainsFunc(s, unicode.IsControl):
		return errors.New("the subject is not one line of printable text")
	}
	return nil
}

// capped is a buffer that refuses to grow over maxBody.
type capped struct{ bytes.Buffer }

// Write appends p, or fails where that is too much.
func (c *capped) Write(p []byte) (int, error) {
	if c.Len()+len(p) > maxBody {
		return 0, fmt.Errorf("it is larger than %d bytes", maxBody)
	}
	return c.Buffer.Write(p)
}

// decodePayload decodes a payload for the templates: numbers stay as they were
// written, and keys that are null are left out, so that they count as missing.
func decodePayload(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, errors.New("the payload is not JSON")
	}
	return withoutNulls(v), nil
}

func withoutNulls(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if value == nil {
				delete(v, key)
				continue
			}
			v[key] = withoutNulls(value)
		}
	case []any:
		for i := range v {
			v[i] = withoutNulls(v[i])
		}
	}
	return v
}
