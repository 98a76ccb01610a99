package httpchan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"duly.dev/duly/internal/channel"
	"duly.dev/duly/internal/classify"
	"duly.dev/duly/pkg/job"
)

// Lookup asks receivers by HTTP what became of effects. Asking changes nothing, so that
// none of the care is needed here that an effect's request needs: a request may be sent
// twice. What an answer may mean is another matter; see channel.Lookup.
type Lookup struct {
	url       lookupURL
	method    string
	headers   http.Header
	table     classify.LookupTable
	readsBody bool
	most      int64
	receipt   struct{ header, pointer string }
	transport *http.Transport
}

var _ channel.Lookup = (*Lookup)(nil)

// NewLookup makes the lookup of one kind. It reads the secrets and files that the
// configuration refers to.
func NewLookup(cfg LookupConfig) (*Lookup, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	address, err := newLookupURL(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	headers, err := cfg.headers()
	if err != nil {
		return nil, err
	}
	l := &Lookup{
		url: address, method: cfg.Method, headers: headers, table: cfg.table(), readsBody: cfg.readsBody(),
		most: (&Config{MaxResponse: cfg.MaxResponse}).maxResponse(),
	}
	if l.method == "" {
		l.method = http.MethodGet
	}
	l.receipt.header, l.receipt.pointer = cfg.ReceiptHeader, cfg.ReceiptPointer
	l.transport, err = asking(cfg.AllowNetworks, cfg.TLS)
	return l, err
}

// asking makes the transport of requests that change nothing.
func asking(allowNetworks []string, secured TLSConfig) (*http.Transport, error) {
	checker, err := NewChecker(Config{AllowNetworks: allowNetworks})
	if err != nil {
		return nil, err
	}
	tls, err := secured.load()
	if err != nil {
		return nil, err
	}
	dial := net.Dialer{Timeout: maxDial, Control: checker.policy.control}
	t := &http.Transport{
		DialContext: dial.DialContext, TLSClientConfig: tls, DisableCompression: true,
		MaxIdleConns: maxIdle, MaxIdleConnsPerHost: maxIdlePerHost, IdleConnTimeout: idleSafe,
		MaxResponseHeaderBytes: maxHeader, Protocols: new(http.Protocols),
	}
	t.Protocols.SetHTTP1(true)
	return t, nil
}

// Close ends the connections that are not in use.
func (l *Lookup) Close() error {
	l.transport.CloseIdleConnections()
	return nil
}

// Ask makes one request and reads its answer. Redirects are not followed.
func (l *Lookup) Ask(ctx context.Context, q channel.Inquiry) channel.Answer {
	address, err := l.url.of(q)
	if err != nil {
		return channel.NoAnswer(err.Error())
	}
	req, err := http.NewRequestWithContext(ctx, l.method, address.String(), http.NoBody)
	if err != nil {
		return channel.NoAnswer("the URL's template makes no URL")
	}
	req.Header = l.headers.Clone()
	resp, err := l.transport.RoundTrip(req)
	if err != nil {
		return channel.NoAnswer(unasked(ctx, err))
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := l.read(resp.Body)
	if err != nil {
		return channel.NoAnswer("the answer broke off")
	}
	return l.answer(resp, body, time.Now())
}

// read reads the body of an answer: all of it, or nothing that could be taken for all.
func (l *Lookup) read(body io.Reader) (classify.Document, error) {
	content, err := io.ReadAll(io.LimitReader(body, l.most+1))
	if err != nil {
		return classify.Document{}, err
	}
	if !l.readsBody || int64(len(content)) > l.most {
		return classify.Document{}, nil
	}
	return classify.ParseDocument(content), nil
}

// answer is what a response says.
func (l *Lookup) answer(resp *http.Response, body classify.Document, now time.Time) channel.Answer {
	a := channel.Answer{Said: l.table.Classify(resp.StatusCode, body), Detail: detail(resp)}
	if a.Said != job.SaidYes {
		return a
	}
	a.Receipt = &job.Receipt{Status: strconv.Itoa(resp.StatusCode), At: now}
	id := resp.Header.Get(l.receipt.header)
	if l.receipt.pointer != "" {
		id, _ = body.Text(l.receipt.pointer)
	}
	a.Receipt.ID = job.Storable(strings.TrimSpace(id), job.MaxDetail)
	return a
}

// unasked says why there is no answer, without the address.
func unasked(ctx context.Context, err error) string {
	var forbidden *forbiddenError
	var timeout net.Error
	switch {
	case errors.As(err, &forbidden):
		return "the address may not be dialled: see allow_networks"
	case ctx.Err() != nil, errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	}
	return "no connection, or no answer on it"
}
