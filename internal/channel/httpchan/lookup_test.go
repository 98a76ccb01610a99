package httpchan_test

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"duly.dev/duly/internal/app/strictyaml"
	"duly.dev/duly/internal/channel"
	"duly.dev/duly/internal/channel/httpchan"
	"duly.dev/duly/internal/channel/secret"
	"duly.dev/duly/pkg/job"
)

// lookupOf reads a lookup's section as duly.yaml has it.
func lookupOf(t testing.TB, text string) httpchan.LookupConfig {
	t.Helper()
	document, err := strictyaml.Parse("duly.yaml", []byte(text))
	require.NoError(t, err)
	var cfg httpchan.LookupConfig
	require.NoError(t, document.Decode(&cfg))
	return cfg
}

const answers = `
answers:
  - {status: 200, pointer: /state, equals: [sent, true, 1], means: yes}
  - {status: 200, pointer: /state, equals: [queued], means: working}
  - {status: 2xx, pointer: /never, means: no}
  - {status: 404, means: no}
receipt_pointer: /id
allow_networks: [127.0.0.0/8]
`

func newLookup(t testing.TB, address, more string) *httpchan.Lookup {
	t.Helper()
	l, err := httpchan.NewLookup(lookupOf(t, "url: '"+address+"'\n"+more))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

func inquiry(destination string) channel.Inquiry {
	return channel.Inquiry{
		Kind: "renewal-reminder", Key: "a/b c?d#e%2F+f&g=ü", Subject: "customer 1842", Period: "2026-W42", Destination: destination,
		Generation: 2, EffectKey: job.WireEffectKey("renewal-reminder", "r-1", 2, httpchan.Name),
	}
}

func ask(t testing.TB, l *httpchan.Lookup, q channel.Inquiry) channel.Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), generous)
	defer cancel()
	return l.Ask(ctx, q)
}

func TestAnswersAreReadByTheRulesOfTheKind(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		body   string
		want   channel.Answer
	}{
		"yes":                   {200, `{"state":"sent","id":"m-1"}`, channel.Answer{Said: job.SaidYes, Detail: "HTTP 200 OK", Receipt: &job.Receipt{ID: "m-1", Status: "200"}}},
		"yes, without an id":    {200, `{"state":true}`, channel.Answer{Said: job.SaidYes, Detail: "HTTP 200 OK", Receipt: &job.Receipt{Status: "200"}}},
		"working":               {200, `{"state":"queued"}`, channel.Answer{Said: job.SaidWorking, Detail: "HTTP 200 OK"}},
		"no":                    {404, `not found`, channel.Answer{Said: job.SaidNo, Detail: "HTTP 404 Not Found"}},
		"no, in the body":       {201, `{"never":1}`, channel.Answer{Said: job.SaidNo, Detail: "HTTP 201 Created"}},
		"no rule matches":       {200, `{"state":"odd"}`, channel.Answer{Said: job.SaidNothing, Detail: "HTTP 200 OK"}},
		"no JSON":               {200, `{"state":"sent"`, channel.Answer{Said: job.SaidNothing, Detail: "HTTP 200 OK"}},
		"an error":              {503, `{"state":"sent"}`, channel.Answer{Said: job.SaidNothing, Detail: "HTTP 503 Service Unavailable"}},
		"a body that is longer": {200, `{"state":"sent","more":"` + strings.Repeat("x", httpchan.DefaultMaxResponse) + `"}`, channel.Answer{Said: job.SaidNothing, Detail: "HTTP 200 OK"}},
		"a body that goes on":   {200, `{"state":"sent"}` + strings.Repeat(" ", httpchan.DefaultMaxResponse) + `x`, channel.Answer{Said: job.SaidNothing, Detail: "HTTP 200 OK"}},
		"a redirect":            {302, ``, channel.Answer{Said: job.SaidNothing, Detail: "HTTP 302 Found"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			})
			got := ask(t, newLookup(t, "{{.Origin}}/effects/{{.EffectKey}}", answers), inquiry(s.URL))
			if got.Receipt != nil {
				require.WithinDuration(t, time.Now(), got.Receipt.At, time.Minute)
				got.Receipt.At = time.Time{}
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestAQuestionNamesItsEffectAndCarriesItsCredentials(t *testing.T) {
	t.Parallel()
	var got atomic.Pointer[http.Request]
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { got.Store(r); w.Header().Set("X-Id", " m-2 ") })
	l := newLookup(t, "http://{{.Host}}/{{.Kind}}/{{.Key}}/{{.EffectKey}}/{{.Generation}}?s={{.Subject}}&p={{.Period}}", `
method: HEAD
headers: {X-Team: billing}
secret_headers: {Authorization: {file: `+file(t, "Bearer hunter2").File+`}}
answers: [{status: 2xx, means: yes}]
receipt_header: X-Id
allow_networks: [127.0.0.0/8]
`)
	q := inquiry(s.URL + "/hook")
	a := ask(t, l, q)
	require.Equal(t, job.SaidYes, a.Said, a.Detail)
	require.Equal(t, "m-2", a.Receipt.ID)
	r := got.Load()
	require.Equal(t, http.MethodHead, r.Method)
	require.Equal(t, "/"+q.Kind+"/"+q.Key+"/"+q.EffectKey+"/2", r.URL.Path, "escaped, so that no part is taken for another")
	require.Equal(t, []string{"customer 1842"}, r.URL.Query()["s"])
	require.Equal(t, []string{"2026-W42"}, r.URL.Query()["p"])
	require.Equal(t, "Bearer hunter2", r.Header.Get("Authorization"))
	require.Equal(t, "billing", r.Header.Get("X-Team"))
	require.Equal(t, "no-cache", r.Header.Get("Cache-Control"))
	require.Empty(t, r.Header.Get("Idempotency-Key"), "nothing is to be done")
	require.Empty(t, r.Header.Get("Content-Type"))
}

// What a template names and a job lacks would make another address, whose answer is about
// something else: nothing is asked.
func TestAQuestionThatLacksWhatItsAddressNamesIsNotAsked(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { requests.Add(1); w.WriteHeader(http.StatusNotFound) })
	for name, c := range map[string]struct {
		url    string
		change func(*channel.Inquiry)
		says   string
	}{
		"no subject":         {"{{.Origin}}/{{.Subject}}/{{.EffectKey}}", func(q *channel.Inquiry) { q.Subject = "" }, "the URL names the subject, and the job has none"},
		"no period":          {"{{.Origin}}/{{.Period}}/{{.EffectKey}}", func(q *channel.Inquiry) { q.Period = "" }, "the URL names the period"},
		"no host":            {"{{.Origin}}/{{.EffectKey}}", func(q *channel.Inquiry) { q.Destination = "mailto:a@example.com" }, "the URL names the destination's host"},
		"dots alone":         {"{{.Origin}}/{{.Key}}/x", func(q *channel.Inquiry) { q.Key = ".." }, "a path segment of dots alone"},
		"a forbidden place":  {"{{.Origin}}/{{.EffectKey}}", func(q *channel.Inquiry) { q.Destination = "http://10.0.0.1/" }, "allow_networks"},
		"a forbidden name":   {"{{.Origin}}/{{.EffectKey}}", func(q *channel.Inquiry) { q.Destination = "http://user:hunter2@127.0.0.1/" }, ""},
		"another machine":    {"{{.Origin}}/{{.EffectKey}}", func(q *channel.Inquiry) { q.Destination = "ftp://127.0.0.1/" }, "the URL names the destination's host"},
		"a host of no sense": {"{{.Origin}}/{{.EffectKey}}", func(q *channel.Inquiry) { q.Destination = "http://exa mple/" }, "the URL names the destination's host"},
	} {
		q := inquiry(s.URL)
		before := requests.Load()
		c.change(&q)
		a := ask(t, newLookup(t, c.url, answers), q)
		if c.says == "" {
			require.NotContains(t, a.Detail, "hunter2", name)
			continue
		}
		require.Equal(t, job.SaidNothing, a.Said, name)
		require.Contains(t, a.Detail, c.says, name)
		require.Equal(t, before, requests.Load(), name)
	}
}

// Whatever a job is called, its address is that template with one value in its place.
func TestAnyKeyStaysInItsPlace(t *testing.T) {
	t.Parallel()
	var path, query atomic.Value
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) { path.Store(r.URL.Path); query.Store(r.URL.RawQuery) })
	l := newLookup(t, "{{.Origin}}/before/{{.Key}}/behind?k={{.Key}}&z=1", answers)
	rapid.Check(t, func(rt *rapid.T) {
		q := inquiry(s.URL)
		q.Key = rapid.StringMatching(`[ -~é€]{1,12}`).Filter(func(s string) bool { return s != "." && s != ".." }).Draw(rt, "key")
		a := ask(t, l, q)
		require.Equal(rt, "HTTP 200 OK", a.Detail)
		require.Equal(rt, "/before/"+q.Key+"/behind", path.Load())
		values, err := url.ParseQuery(query.Load().(string)) //nolint:forcetypeassert // stored above
		require.NoError(rt, err)
		require.Equal(rt, url.Values{"k": {q.Key}, "z": {"1"}}, values)
	})
}

func TestWhoDoesNotAnswerSaysNothing(t *testing.T) {
	t.Parallel()
	closing := raw(t, func(_ net.Conn, r *bufio.Reader) { readRequest(r) })
	breaking := raw(t, func(c net.Conn, r *bufio.Reader) {
		if readRequest(r) {
			_, _ = c.Write([]byte("HTTP/1.1 404 Not Found\r\nContent-Length: 100\r\n\r\nnot"))
		}
	})
	odd := raw(t, func(c net.Conn, r *bufio.Reader) {
		if readRequest(r) {
			_, _ = c.Write([]byte("hello\r\n\r\n"))
		}
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	nobody := listener.Addr().String()
	require.NoError(t, listener.Close())
	for name, address := range map[string]string{"closes": closing, "breaks off": breaking, "is no HTTP": odd, "is not there": nobody} {
		a := ask(t, newLookup(t, "http://"+address+"/{{.EffectKey}}", answers), inquiry(""))
		require.Equal(t, job.SaidNothing, a.Said, name)
		require.NotEmpty(t, a.Detail, name)
		require.NotContains(t, a.Detail, "renewal-reminder", "%s: the address may be private", name)
		require.NotContains(t, a.Detail, "127.0.0.1", name)
	}

	release := make(chan struct{})
	defer close(release)
	asked := make(chan struct{})
	silent := serve(t, func(http.ResponseWriter, *http.Request) { close(asked); <-release })
	ctx := newLimit(t)
	go func() { <-asked; ctx.end() }()
	a := newLookup(t, silent.URL+"/{{.EffectKey}}", answers).Ask(ctx, inquiry(""))
	require.Equal(t, channel.NoAnswer("no answer in time"), a)
}

func TestEveryMistakeOfALookupIsReportedAtOnceNamingItsField(t *testing.T) {
	t.Parallel()
	cfg := lookupOf(t, `
url: "https://receiver.example.com/effects"
method: POST
headers: {Authorization: Bearer hunter2}
secret_headers: {X-Secret: {}}
answers:
  - {means: maybe}
  - {status: 200, pointer: state, means: working}
  - {status: 4xx, means: no}
  - {status: 200, equals: [1], means: working}
receipt_header: "not a header"
receipt_pointer: id
allow_networks: [nonsense]
max_response: -1
tls: {min_version: "1.1"}
`)
	err := cfg.Validate()
	for _, want := range []string{
		"url: it must name {{.EffectKey}} or {{.Key}}", `method "POST"`, "headers.Authorization: it holds a credential", "secret_headers.X-Secret",
		"answers[0].status: it must be given", "answers[0].means: it must be yes, no or working", "answers[1].pointer: it must be a JSON pointer",
		"answers[2].means: it must not be no for status 401", "answers[3].equals: it needs a pointer", "answers: at least one must mean yes",
		"receipt_header", "receipt_pointer: there is a receipt_header too", "allow_networks[0]", "max_response", "tls.min_version",
	} {
		require.ErrorContains(t, err, want)
	}
	require.NotContains(t, err.Error(), "hunter2")
	_, err = httpchan.NewLookup(cfg)
	require.Error(t, err)

	for address, want := range map[string]string{
		"":                                     "url: it must be given",
		"https://a.example/{{.EffectKey":       "url: it is no template",
		"https://a.example/{{.Payload}}":       "url: it must be a template that names",
		"/effects/{{.EffectKey}}":              "http:// or https://",
		"https://u:hunter2@a.example/{{.Key}}": "must not carry a user or a password",
		"https://a.example/{{.Key}}#x":         "fragment",
		"https://{{.Key}}":                     "",
	} {
		cfg := httpchan.LookupConfig{URL: address}
		require.ErrorContains(t, cfg.Validate(), want, address)
		require.NotContains(t, cfg.Validate().Error(), "hunter2")
	}
	head := lookupOf(t, "url: 'https://a.example/{{.Key}}'\nmethod: HEAD\nreceipt_pointer: /id\nanswers: [{status: 200, pointer: /a, means: yes}]")
	require.ErrorContains(t, head.Validate(), "answers[0].pointer: an answer to HEAD has no body")
	require.ErrorContains(t, head.Validate(), "receipt_pointer: an answer to HEAD has no body")

	missing := lookupOf(t, "url: 'https://a.example/{{.Key}}'\nanswers: [{status: 200, means: yes}]")
	missing.SecretHeaders = map[string]*secret.Ref{"X-Key": {Env: "DULY_TEST_NOT_SET"}}
	_, err = httpchan.NewLookup(missing)
	require.ErrorContains(t, err, "secret_headers.X-Key")
	require.False(t, missing.KnowsNo())
}
