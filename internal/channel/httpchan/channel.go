package httpchan

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"golang.org/x/net/http/httpguts"

	"duly.dev/duly/internal/channel"
	"duly.dev/duly/internal/classify"
	"duly.dev/duly/pkg/job"
)

// Name is the channel's part of the effect key.
const Name = "http"

// Channel performs effects as HTTP requests; see the package's documentation.
type Channel struct {
	*Checker

	method        string
	headers       http.Header
	signer        *standardwebhooks.Webhook
	receiptHeader string
	maxResponse   int64
	table         classify.HTTPTable
	transport     *http.Transport
}

var _ channel.Channel = (*Channel)(nil)

// New makes the channel of one kind, whose receiver dedupes for window (zero: not at
// all). It reads the secrets and files that the configuration refers to.
func New(cfg Config, window time.Duration) (*Channel, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	checker, err := NewChecker(cfg)
	if err != nil {
		return nil, err
	}
	headers, err := loadHeaders(cfg)
	if err != nil {
		return nil, err
	}
	signer, err := loadSigner(cfg)
	if err != nil {
		return nil, err
	}
	secured, err := cfg.TLS.load()
	if err != nil {
		return nil, err
	}
	return &Channel{
		Checker:       checker,
		method:        cfg.method(),
		headers:       headers,
		signer:        signer,
		receiptHeader: cfg.ReceiptHeader,
		maxResponse:   cfg.maxResponse(),
		table:         classify.DefaultHTTP(),
		transport:     newTransport(newDialer(checker.policy, secured), window),
	}, nil
}

func loadHeaders(cfg Config) (http.Header, error) {
	h := http.Header{"Content-Type": {"application/json"}, "User-Agent": {"Duly"}}
	for name, value := range cfg.Headers {
		h.Set(name, value)
	}
	for name, ref := range cfg.SecretHeaders {
		value, err := ref.Load()
		if err != nil {
			return nil, fmt.Errorf("secret_headers.%s: %w", name, err)
		}
		if !httpguts.ValidHeaderFieldValue(value) {
			return nil, fmt.Errorf("secret_headers.%s: the secret is not one line of printable text", name)
		}
		h.Set(name, value)
	}
	return h, nil
}

func loadSigner(cfg Config) (*standardwebhooks.Webhook, error) {
	if cfg.SigningSecret == nil {
		return nil, nil
	}
	text, err := cfg.SigningSecret.Load()
	if err != nil {
		return nil, fmt.Errorf("signing_secret: %w", err)
	}
	key, err := decodeKey(text)
	if err != nil {
		return nil, err
	}
	return standardwebhooks.NewWebhookRaw(key)
}

// Name returns "http".
func (c *Channel) Name() string { return Name }

// Close ends the connections that are not in use.
func (c *Channel) Close() error {
	c.transport.CloseIdleConnections()
	return nil
}

// Deliver sends the payload to the destination and says what came of it. An attempt
// that finds its connection, one that was used before, dead before it could write a
// byte is made once more: nothing was sent.
func (c *Channel) Deliver(ctx context.Context, e channel.Effect) job.Result {
	if refusal := c.Check(e.Destination, e.Payload); refusal != nil {
		return c.unusable(e.Destination, refusal)
	}
	var begun atomic.Bool
	e.Begin = noting(&begun, e.Begin)
	result, stale := c.exchange(ctx, e)
	if stale && ctx.Err() == nil {
		result, _ = c.exchange(ctx, e)
	}
	if result.Outcome == job.OutcomeNotBegun && begun.Load() {
		// It had begun, and the connection took no byte of it.
		return job.NotDone(job.ClassTransient, job.CodeUnreachable, "nothing was sent: "+result.Detail)
	}
	return result
}

// noting notes that begin allowed the effect.
func noting(begun *atomic.Bool, begin func() error) func() error {
	return func() error {
		err := begin()
		if err == nil {
			begun.Store(true)
		}
		return err
	}
}

// exchange makes one request. stale is true if nothing of it was written because
// its connection had been closed by the receiver since its last use.
func (c *Channel) exchange(ctx context.Context, e channel.Effect) (result job.Result, stale bool) {
	g := &gate{begin: e.Begin}
	defer g.close()
	traced, cancel := context.WithCancel(httptrace.WithClientTrace(ctx, g.trace()))
	defer cancel()
	req, err := c.request(traced, e)
	if err != nil {
		return job.NotDone(job.ClassPermanent, job.CodeDestinationInvalid, "the destination cannot be requested"), false
	}
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		p := g.passed()
		return unanswered(ctx, p, err), p.reused && !p.maybe && p.refused == nil
	}
	defer func() { _ = resp.Body.Close() }()
	result = c.answered(resp, time.Now())
	c.drain(resp.Body)
	return result, false
}

// drain reads what a connection must be rid of before it can be used again. What
// goes wrong here changes nothing: the answer has been given.
func (c *Channel) drain(body io.Reader) {
	_, _ = io.Copy(io.Discard, io.LimitReader(body, c.maxResponse+1))
}

// answered is the result of an exchange that got an answer.
func (c *Channel) answered(resp *http.Response, now time.Time) job.Result {
	receipt := &job.Receipt{Status: fmt.Sprint(resp.StatusCode), At: now}
	if c.receiptHeader != "" {
		receipt.ID = job.Storable(strings.TrimSpace(resp.Header.Get(c.receiptHeader)), job.MaxDetail)
	}
	r := c.table.Classify(resp.StatusCode).Result(detail(resp), receipt)
	if r.Outcome == job.OutcomeDelivered {
		return r
	}
	if wait, ok := classify.RetryAfter(resp.Header.Get("Retry-After"), resp.Header.Get("Date"), now); ok {
		r.RetryAfter = wait
	}
	return r
}
