package httpchan

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"duly.dev/duly/internal/channel"
	"duly.dev/duly/internal/channel/secret"
	"duly.dev/duly/internal/classify"
	"duly.dev/duly/pkg/job"
)

// ResolveConfig is the `http` section of a kind's resolve: the request that asks where
// effects go now. It is a POST of all jobs that are asked about:
//
//	{"kind": "digest", "jobs": [{"key": "digest:2026-W42:1842", "subject": "1842", "period": "2026-W42", "destination": "old@example.com", "generation": 1}]}
//
// Only a 2xx answers, with one entry at most for each key; a job without one, or with an
// empty or null destination, has no address:
//
//	{"destinations": [{"key": "digest:2026-W42:1842", "destination": "new@example.com"}]}
type ResolveConfig struct {
	// URL is where it is asked.
	URL string `yaml:"url"`
	// Headers and SecretHeaders are sent with every request, as those of Config.
	Headers       map[string]string      `yaml:"headers"`
	SecretHeaders map[string]*secret.Ref `yaml:"secret_headers"`
	// AllowNetworks and TLS are as in Config. MaxResponse is the largest answer in bytes;
	// default 4 MiB. A longer one answers nothing.
	AllowNetworks []string  `yaml:"allow_networks"`
	MaxResponse   int       `yaml:"max_response"`
	TLS           TLSConfig `yaml:"tls"`
}

// defaultResolveResponse is ResolveConfig.MaxResponse where it is 0.
const defaultResolveResponse = 4 << 20

// Validate returns every mistake of the configuration, joined, each naming its field. It
// reads no file and no secret.
func (c *ResolveConfig) Validate() error {
	errs := []error{c.validateURL()}
	// What both sections have is checked alike.
	alike := Config{Headers: c.Headers, SecretHeaders: c.SecretHeaders, AllowNetworks: c.AllowNetworks, MaxResponse: c.MaxResponse, TLS: c.TLS}
	return errors.Join(append(errs, alike.Validate())...)
}

func (c *ResolveConfig) validateURL() error {
	if c.URL == "" {
		return errors.New("url: it must be given, such as https://crm.example.com/addresses")
	}
	u, err := url.Parse(c.URL)
	if err != nil {
		return errors.New("url: it is not a URL")
	}
	switch why := whyNot(u); {
	case why != "":
		return fmt.Errorf("url: %s", why)
	case u.User != nil:
		return errors.New("url: it must not carry a user or a password; use secret_headers")
	case u.Fragment != "":
		return errors.New("url: it must not have a fragment")
	}
	return nil
}

// Resolver asks by HTTP where effects go. Asking changes nothing, so that a request may be
// sent twice.
type Resolver struct {
	url       string
	headers   http.Header
	most      int64
	transport *http.Transport
}

var _ channel.Resolver = (*Resolver)(nil)

// NewResolver makes the resolver of one kind. It reads the secrets and files that the
// configuration refers to.
func NewResolver(cfg ResolveConfig) (*Resolver, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	headers, err := loadHeaders(Config{Headers: maps.Clone(cfg.Headers), SecretHeaders: cfg.SecretHeaders})
	if err != nil {
		return nil, err
	}
	headers.Set("Accept", "application/json")
	headers.Set("Cache-Control", "no-cache") // what a cache remembers is not where somebody is now
	r := &Resolver{url: cfg.URL, headers: headers, most: int64(cfg.MaxResponse)}
	if r.most == 0 {
		r.most = defaultResolveResponse
	}
	r.transport, err = asking(cfg.AllowNetworks, cfg.TLS)
	return r, err
}

// Close ends the connections that are not in use.
func (r *Resolver) Close() error {
	r.transport.CloseIdleConnections()
	return nil
}

// resolveRequest and resolveAnswer are what is sent and what is answered.
type resolveRequest struct {
	Kind string       `json:"kind"`
	Jobs []resolveJob `json:"jobs"`
}

type resolveJob struct {
	Key         string `json:"key"`
	Subject     string `json:"subject,omitempty"`
	Period      string `json:"period,omitempty"`
	Destination string `json:"destination,omitempty"`
	Generation  int32  `json:"generation"`
}

type resolveAnswer struct {
	Destinations []struct {
		Key         string  `json:"key"`
		Destination *string `json:"destination"`
	} `json:"destinations"`
}

// Resolve makes one request about all jobs. Redirects are not followed.
func (r *Resolver) Resolve(ctx context.Context, jobs []channel.Addressee) []channel.Address {
	answer, why := r.ask(ctx, jobs)
	if why.Outcome != "" {
		return channel.Unresolved(len(jobs), why)
	}
	at := make(map[string]int, len(jobs))
	all := make([]channel.Address, len(jobs))
	for i, j := range jobs {
		at[j.Key], all[i] = i, channel.NoAddress("the answer has nothing about it")
	}
	said := make(map[string]bool, len(jobs))
	for _, d := range answer.Destinations {
		i, asked := at[d.Key]
		switch {
		case !asked:
			return channel.Unresolved(len(jobs), transient(job.CodeMisconfigured, "the answer has a key that was not asked for"))
		case said[d.Key]:
			all[i] = channel.NoAddress("the answer has it more than once, and nobody knows which one is meant")
		case d.Destination == nil || *d.Destination == "":
			all[i] = channel.NoAddress("the answer has no destination for it")
		default:
			all[i] = channel.Address{Destination: *d.Destination}
		}
		said[d.Key] = true
	}
	return all
}

func transient(code job.Code, why string) job.Result {
	return job.NotDone(job.ClassTransient, code, why)
}

// ask makes the request; a result says why there is no answer.
func (r *Resolver) ask(ctx context.Context, jobs []channel.Addressee) (answer resolveAnswer, why job.Result) {
	question := resolveRequest{Jobs: make([]resolveJob, len(jobs))}
	for i, j := range jobs {
		question.Kind = j.Kind
		question.Jobs[i] = resolveJob{j.Key, j.Subject, j.Period, j.Destination, j.Generation}
	}
	body, err := json.Marshal(question)
	if err != nil { // texts and numbers
		return answer, transient(job.CodeMisconfigured, "the question cannot be written")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, bytes.NewReader(body))
	if err != nil {
		return answer, transient(job.CodeMisconfigured, "the url is none")
	}
	req.Header = r.headers.Clone()
	resp, err := r.transport.RoundTrip(req)
	if err != nil {
		code := job.CodeUnreachable
		if ctx.Err() != nil {
			code = job.CodeTimeout
		}
		return answer, transient(code, unasked(ctx, err))
	}
	defer func() { _ = resp.Body.Close() }()
	content, err := io.ReadAll(io.LimitReader(resp.Body, r.most+1))
	if refused := refusedToResolve(resp); refused.Outcome != "" {
		return answer, refused
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return answer, transient(job.CodeTimeout, "no whole answer in time")
	case err != nil:
		return answer, transient(job.CodeUnreachable, "the answer broke off")
	case int64(len(content)) > r.most:
		return answer, transient(job.CodeMisconfigured, "the answer is longer than max_response, "+strconv.FormatInt(r.most, 10)+" bytes")
	case json.Unmarshal(content, &answer) != nil:
		return answer, transient(job.CodeMisconfigured, "the answer is not JSON of the form that is asked for")
	case answer.Destinations == nil:
		return answer, transient(job.CodeMisconfigured, "the answer has no destinations")
	}
	return answer, job.Result{}
}

// refusedToResolve is what an answer means that is none; no outcome where it is one.
func refusedToResolve(resp *http.Response) job.Result {
	status, said := resp.StatusCode, detail(resp)
	switch {
	case status >= 200 && status <= 299:
		return job.Result{}
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return transient(job.CodeUnauthorized, said)
	case status == http.StatusTooManyRequests || status >= 500:
		r := transient(job.CodeReceiverBusy, said)
		if wait, ok := classify.RetryAfter(resp.Header.Get("Retry-After"), resp.Header.Get("Date"), time.Now()); ok {
			r.RetryAfter = wait
		}
		return r
	}
	return transient(job.CodeMisconfigured, said)
}
