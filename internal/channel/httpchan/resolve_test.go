package httpchan_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/channel"
	"duly.dev/duly/internal/channel/httpchan"
	"duly.dev/duly/pkg/job"
)

var asked = []channel.Addressee{
	{Kind: "digest", Key: "a", Subject: "1", Period: "2026-W42", Destination: "old@example.com", Generation: 1},
	{Kind: "digest", Key: "b", Generation: 2},
}

func newResolver(t *testing.T, cfg httpchan.ResolveConfig) *httpchan.Resolver {
	t.Helper()
	cfg.AllowNetworks = []string{"127.0.0.0/8"}
	r, err := httpchan.NewResolver(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// Every answer that a resolver may get: an address, none for good, or "not now". None leaves
// a doubt.
func TestAResolverTakesOnlyAPlainAnswerForAnAddress(t *testing.T) {
	t.Parallel()
	late := func(code job.Code, why string, after time.Duration) []channel.Address {
		r := job.NotDone(job.ClassTransient, code, why)
		r.RetryAfter = after
		return channel.Unresolved(2, r)
	}
	address := func(a, b channel.Address) []channel.Address { return []channel.Address{a, b} }
	for name, c := range map[string]struct {
		status int
		body   string
		want   []channel.Address
	}{
		"addresses": {
			200, `{"destinations":[{"key":"b","destination":"b@example.com"},{"key":"a","destination":"new@example.com"}]}`,
			address(channel.Address{Destination: "new@example.com"}, channel.Address{Destination: "b@example.com"}),
		},
		"nothing, null": {
			200, `{"destinations":[{"key":"a","destination":null}]}`,
			address(channel.NoAddress("the answer has no destination for it"), channel.NoAddress("the answer has nothing about it")),
		},
		"empty, twice": {
			201, `{"destinations":[{"key":"a","destination":""},{"key":"b","destination":"x@example.com"},{"key":"b","destination":"x@example.com"}]}`,
			address(channel.NoAddress("the answer has no destination for it"), channel.NoAddress("the answer has it more than once, and nobody knows which one is meant")),
		},
		"another's key":   {200, `{"destinations":[{"key":"c","destination":"c@example.com"}]}`, late(job.CodeMisconfigured, "the answer has a key that was not asked for", 0)},
		"no destinations": {200, `{}`, late(job.CodeMisconfigured, "the answer has no destinations", 0)},
		"not JSON":        {200, `<html>`, late(job.CodeMisconfigured, "the answer is not JSON of the form that is asked for", 0)},
		"too long":        {200, `{"destinations":[` + strings.Repeat(" ", 2000) + `]}`, late(job.CodeMisconfigured, "the answer is longer than max_response, 1000 bytes", 0)},
		"busy":            {503, ``, late(job.CodeReceiverBusy, "HTTP 503 Service Unavailable", time.Minute)},
		"too many":        {429, ``, late(job.CodeReceiverBusy, "HTTP 429 Too Many Requests", time.Minute)},
		"not allowed":     {401, ``, late(job.CodeUnauthorized, "HTTP 401 Unauthorized", 0)},
		"not found":       {404, ``, late(job.CodeMisconfigured, "HTTP 404 Not Found", 0)},
		"moved":           {302, ``, late(job.CodeMisconfigured, "HTTP 302 Found", 0)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil || r.Method != http.MethodPost || r.Header.Get("X-From") != "duly" {
					w.WriteHeader(http.StatusTeapot)
					return
				}
				var got map[string]any
				if json.Unmarshal(body, &got) != nil || got["kind"] != "digest" || string(body) != `{"kind":"digest","jobs":[`+
					`{"key":"a","subject":"1","period":"2026-W42","destination":"old@example.com","generation":1},{"key":"b","generation":2}]}` {
					w.WriteHeader(http.StatusTeapot)
					return
				}
				if c.status == 503 || c.status == 429 {
					w.Header().Set("Retry-After", "60")
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}))
			t.Cleanup(server.Close)
			r := newResolver(t, httpchan.ResolveConfig{URL: server.URL, Headers: map[string]string{"X-From": "duly"}, MaxResponse: 1000})
			require.Equal(t, c.want, r.Resolve(t.Context(), asked))
		})
	}
}

func TestAResolverThatIsAwayOrSlowIsAskedAgainLater(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	why := newResolver(t, httpchan.ResolveConfig{URL: gone.URL}).Resolve(t.Context(), asked)[1].Why
	require.Equal(t, job.NotDone(job.ClassTransient, job.CodeUnreachable, "no connection, or no answer on it"), why)

	open := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-open }))
	t.Cleanup(slow.Close)
	t.Cleanup(func() { close(open) })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	why = newResolver(t, httpchan.ResolveConfig{URL: slow.URL}).Resolve(ctx, asked)[0].Why
	require.Equal(t, job.NotDone(job.ClassTransient, job.CodeTimeout, "no answer in time"), why)

	forbidden, err := httpchan.NewResolver(httpchan.ResolveConfig{URL: gone.URL})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, forbidden.Close()) })
	require.Contains(t, forbidden.Resolve(t.Context(), asked)[0].Why.Detail, "allow_networks")
}

func TestAResolverThatCannotWorkIsRefused(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]httpchan.ResolveConfig{
		"url: it must be given":            {},
		"url: it must begin with http://":  {URL: "ftp://crm.example.com"},
		"url: it must not carry a user":    {URL: "https://me:secret@crm.example.com"},
		"url: it must not have a fragment": {URL: "https://crm.example.com/#a"},
		"headers.Authorization":            {URL: "https://crm.example.com", Headers: map[string]string{"Authorization": "x"}},
		"allow_networks[0]":                {URL: "https://crm.example.com", AllowNetworks: []string{"all"}},
		"max_response":                     {URL: "https://crm.example.com", MaxResponse: -1},
	} {
		_, err := httpchan.NewResolver(cfg)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "secret@")
	}
}
