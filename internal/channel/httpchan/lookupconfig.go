package httpchan

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"duly.dev/duly/internal/channel/secret"
	"duly.dev/duly/internal/classify"
	"duly.dev/duly/pkg/job"
)

// LookupConfig is the `http` section of a kind's lookup: the request that asks a receiver
// what became of an effect, and how its answer is read.
type LookupConfig struct {
	// URL is a template of the address: {{.EffectKey}}, {{.Kind}}, {{.Key}}, {{.Subject}},
	// {{.Period}} and {{.Generation}}, each escaped for a path or a query, and of the
	// destination {{.Origin}} ("https://host:port") and {{.Host}}. It must name the effect
	// key or the key. A question that lacks what the template names is not asked.
	URL string `yaml:"url"`
	// Method is GET (default) or HEAD.
	Method string `yaml:"method"`
	// Headers and SecretHeaders are sent with every request, as those of Config.
	Headers       map[string]string      `yaml:"headers"`
	SecretHeaders map[string]*secret.Ref `yaml:"secret_headers"`
	// Answers say what an answer means. The first that matches counts; what none matches
	// says nothing, and it is asked again later. At least one must mean yes.
	Answers []LookupAnswer `yaml:"answers"`
	// ReceiptHeader or ReceiptPointer is where a "yes" has the receiver's own id of the
	// effect: a header of the response, or a value of its JSON body.
	ReceiptHeader  string `yaml:"receipt_header"`
	ReceiptPointer string `yaml:"receipt_pointer"`
	// AllowNetworks, MaxResponse and TLS are as in Config. A body that is longer than
	// MaxResponse matches no rule with a pointer.
	AllowNetworks []string  `yaml:"allow_networks"`
	MaxResponse   int       `yaml:"max_response"`
	TLS           TLSConfig `yaml:"tls"`
}

// LookupAnswer says what some answers mean.
type LookupAnswer struct {
	// Status is a status (404), a class (2xx) or a range (200-204).
	Status LookupStatus `yaml:"status"`
	// Pointer names a value of the JSON body (RFC 6901), and Equals the values of which it
	// must be one; without them it must be there and not be null.
	Pointer string         `yaml:"pointer"`
	Equals  []LookupScalar `yaml:"equals"`
	// Means is yes (it happened), no (it did not) or working (the receiver still works on it).
	Means LookupScalar `yaml:"means"`
}

// LookupStatus is a status as it is configured, a number perhaps.
type LookupStatus struct {
	classify.Statuses

	given bool
}

// UnmarshalText reads it.
func (s *LookupStatus) UnmarshalText(text []byte) (err error) {
	s.Statuses, err = classify.ParseStatuses(string(text))
	s.given = err == nil
	return err
}

// LookupScalar is a single value as it is written: a text, a number, true or false.
type LookupScalar string

// UnmarshalText reads it.
func (s *LookupScalar) UnmarshalText(text []byte) error {
	*s = LookupScalar(text)
	return nil
}

// Validate returns every mistake of the configuration, joined, each naming its field. It
// reads no file and no secret.
func (c *LookupConfig) Validate() error {
	errs := []error{c.validateURL(), c.validateMethod()}
	// What both sections have is checked alike.
	alike := Config{
		Headers: c.Headers, SecretHeaders: c.SecretHeaders, ReceiptHeader: c.ReceiptHeader,
		AllowNetworks: c.AllowNetworks, MaxResponse: c.MaxResponse, TLS: c.TLS,
	}
	errs = append(errs, alike.Validate(), c.validateReceipt())
	for i := range c.Answers {
		errs = append(errs, c.validateAnswer(fmt.Sprintf("answers[%d]", i), c.Answers[i]))
	}
	if !c.means(job.SaidYes) {
		errs = append(errs, errors.New("answers: at least one must mean yes, or nothing could ever be known to have happened"))
	}
	return errors.Join(errs...)
}

func (c *LookupConfig) validateMethod() error {
	switch c.Method {
	case "", http.MethodGet, http.MethodHead:
		return nil
	}
	return fmt.Errorf("method %q: it must be GET or HEAD: asking must change nothing", c.Method)
}

func (c *LookupConfig) validateReceipt() error {
	switch {
	case c.ReceiptPointer == "":
		return nil
	case c.ReceiptHeader != "":
		return errors.New("receipt_pointer: there is a receipt_header too; the id is in one place")
	case c.Method == http.MethodHead:
		return errors.New("receipt_pointer: an answer to HEAD has no body; use receipt_header, or GET")
	}
	if err := classify.CheckPointer(c.ReceiptPointer); err != nil {
		return fmt.Errorf("receipt_pointer %q: %w", c.ReceiptPointer, err)
	}
	return nil
}

func (c *LookupConfig) validateAnswer(field string, a LookupAnswer) error {
	var errs []error
	refuse := func(key, rule string, args ...any) {
		errs = append(errs, fmt.Errorf(field+"."+key+": "+rule, args...))
	}
	if !a.Status.given {
		refuse("status", "it must be given: a status (404), a class (2xx) or a range (200-204)")
	}
	if a.Pointer != "" {
		if err := classify.CheckPointer(a.Pointer); err != nil {
			refuse("pointer", "%w", err)
		}
		if c.Method == http.MethodHead {
			refuse("pointer", "an answer to HEAD has no body; use GET")
		}
	} else if len(a.Equals) > 0 {
		refuse("equals", "it needs a pointer, which says what must be equal")
	}
	switch job.Said(a.Means) {
	case job.SaidYes, job.SaidWorking:
	case job.SaidNo:
		if status, is := a.Status.Evasive(); a.Status.given && is {
			refuse("means", "it must not be no for status %d, which says nothing about the effect: what \"did not happen\" is tried again", status)
		}
	default:
		refuse("means", "it must be yes, no or working")
	}
	return errors.Join(errs...)
}

// means reports whether some answer means it.
func (c *LookupConfig) means(said job.Said) bool {
	return slices.ContainsFunc(c.Answers, func(a LookupAnswer) bool { return job.Said(a.Means) == said })
}

// KnowsNo reports whether some answer means "it did not happen".
func (c *LookupConfig) KnowsNo() bool { return c.means(job.SaidNo) }

// table are the answers as rules.
func (c *LookupConfig) table() classify.LookupTable {
	var t classify.LookupTable
	for _, a := range c.Answers {
		rule := classify.LookupRule{Status: a.Status.Statuses, Pointer: a.Pointer, Said: job.Said(a.Means)}
		for _, v := range a.Equals {
			rule.Equals = append(rule.Equals, string(v))
		}
		t = append(t, rule)
	}
	return t
}

// readsBody reports whether anything is looked for in a body.
func (c *LookupConfig) readsBody() bool {
	return c.ReceiptPointer != "" || slices.ContainsFunc(c.Answers, func(a LookupAnswer) bool { return a.Pointer != "" })
}

// headers are those of a request, secrets among them.
func (c *LookupConfig) headers() (http.Header, error) {
	h, err := loadHeaders(Config{Headers: maps.Clone(c.Headers), SecretHeaders: c.SecretHeaders})
	if err != nil {
		return nil, err
	}
	if _, given := c.Headers["Content-Type"]; !given { // there is no content
		h.Del("Content-Type")
	}
	if h.Get("Accept") == "" && c.readsBody() {
		h.Set("Accept", "application/json")
	}
	// What a cache remembers is older than the question.
	h.Set("Cache-Control", "no-cache")
	return h, nil
}
