package httpchan

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"text/template"

	"duly.dev/duly/internal/channel"
	"duly.dev/duly/pkg/job"
)

// lookupURL makes the address at which a receiver is asked about an effect.
type lookupURL struct{ template *template.Template }

func newLookupURL(text string) (lookupURL, error) {
	t, err := template.New("url").Option("missingkey=error").Parse(text)
	return lookupURL{t}, err
}

// of makes the address of a question. What is in the way is an error without anything
// private.
func (l lookupURL) of(q channel.Inquiry) (*url.URL, error) {
	var text strings.Builder
	if err := l.template.Execute(&text, lookupValues{q}); err != nil {
		if lacks, ok := errors.AsType[*lackError](err); ok {
			return nil, lacks
		}
		return nil, errors.New("the URL's template failed")
	}
	u, err := url.Parse(text.String())
	if err != nil {
		return nil, errors.New("the URL's template makes no URL")
	}
	switch {
	case u.User != nil:
		return nil, errors.New("the URL must not carry a user or a password; use secret_headers")
	case strings.Contains(text.String(), "#"):
		return nil, errors.New("the URL must not have a fragment")
	}
	if why := whyNot(u); why != "" {
		return nil, errors.New("of the URL: " + why)
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		if segment == "." || segment == ".." { // servers and proxies take them for another address
			return nil, errors.New("the URL would have a path segment of dots alone")
		}
	}
	return u, nil
}

// lackError says that a question lacks what the template names.
type lackError struct{ field string }

func (e *lackError) Error() string { return "the URL names the " + e.field + ", and the job has none" }

// lookupValues are what a template may name. Without a value nothing is asked: an address
// that lacks a part is another address, whose answer is about something else.
type lookupValues struct{ q channel.Inquiry }

// escaped makes a value fit for a segment of a path and for a query.
func escaped(field, value string) (string, error) {
	if value == "" {
		return "", &lackError{field}
	}
	return strings.ReplaceAll(url.QueryEscape(value), "+", "%20"), nil
}

// EffectKey is what the receiver knows the effect by.
func (v lookupValues) EffectKey() (string, error) { return escaped("effect key", v.q.EffectKey) }

// Kind is the kind's name.
func (v lookupValues) Kind() (string, error) { return escaped("kind", v.q.Kind) }

// Key is the operation key.
func (v lookupValues) Key() (string, error) { return escaped("key", v.q.Key) }

// Subject is whom the job is about.
func (v lookupValues) Subject() (string, error) { return escaped("subject", v.q.Subject) }

// Period is the occurrence that the job belongs to.
func (v lookupValues) Period() (string, error) { return escaped("period", v.q.Period) }

// Generation counts the redrives.
func (v lookupValues) Generation() string { return strconv.Itoa(int(v.q.Generation)) }

// Host is the destination's host, with its port where it has one.
func (v lookupValues) Host() (string, error) {
	u, err := v.destination()
	if err != nil {
		return "", err
	}
	return u.Host, nil
}

// Origin is the destination's scheme and host.
func (v lookupValues) Origin() (string, error) {
	u, err := v.destination()
	if err != nil {
		return "", err
	}
	return u.Scheme + "://" + u.Host, nil
}

func (v lookupValues) destination() (*url.URL, error) {
	u, err := url.Parse(v.q.Destination)
	if err != nil || whyNot(u) != "" {
		return nil, &lackError{"destination's host"}
	}
	return u, nil
}

// samples are two questions that differ in their effect.
func samples() (one, other channel.Inquiry) {
	one = channel.Inquiry{
		Kind: "kind", Key: "one", Subject: "subject", Period: "2026-W42", Destination: "https://receiver.example.com/path",
		Generation: 1, EffectKey: job.WireEffectKey("kind", "one", 1, Name),
	}
	other = one
	other.Key, other.EffectKey = "other", job.WireEffectKey("kind", "other", 1, Name)
	return one, other
}

func (c *LookupConfig) validateURL() error {
	if c.URL == "" {
		return errors.New("url: it must be given, such as https://receiver.example.com/effects/{{.EffectKey}}")
	}
	l, err := newLookupURL(c.URL)
	if err != nil {
		return fmt.Errorf("url: it is no template: %w", err)
	}
	one, other := samples()
	a, err := l.of(one)
	if err != nil {
		return fmt.Errorf("url: it must be a template that names EffectKey, Kind, Key, Subject, Period, Generation, Origin or Host alone: %w", err)
	}
	b, err := l.of(other)
	if err != nil {
		return fmt.Errorf("url: %w", err)
	}
	if a.String() == b.String() {
		return errors.New("url: it must name {{.EffectKey}} or {{.Key}}, or every effect would be asked about in the same words")
	}
	return nil
}
