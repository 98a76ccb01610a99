package smtpchan_test

import (
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/channel"
	"duly.dev/duly/internal/channel/smtpchan"
	"duly.dev/duly/pkg/job"
)

// sent delivers one effect and returns the mail as the server got it.
func sent(t *testing.T, change func(*smtpchan.Config), e channel.Effect) *mail.Message {
	t.Helper()
	s := &script{ehlo: []string{"8BITMIME", "SMTPUTF8", "SIZE 10000000"}}
	cfg := config(s.start(t))
	if change != nil {
		change(&cfg)
	}
	r := deliver(t, newChannel(t, cfg), e)
	require.Equal(t, job.OutcomeDelivered, r.Outcome, r.Detail)
	_, mails := s.seen()
	require.Len(t, mails, 1)
	m, err := mail.ReadMessage(strings.NewReader(mails[0]))
	require.NoError(t, err)
	return m
}

func decoded(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(quotedprintable.NewReader(r))
	require.NoError(t, err)
	return strings.ReplaceAll(string(b), "\r\n", "\n")
}

func subject(t *testing.T, m *mail.Message) string {
	t.Helper()
	s, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	require.NoError(t, err)
	return s
}

func TestADeliveryIsAMailWithItsReceipt(t *testing.T) {
	t.Parallel()
	s := &script{}
	r := deliver(t, newChannel(t, config(s.start(t))), effect(new(begun)))
	require.Equal(t, job.OutcomeDelivered, r.Outcome)
	require.Equal(t, "250 2.0.0", r.Receipt.Status)
	require.Equal(t, "Ok: queued as 4F2A", r.Receipt.ID)
	require.False(t, r.Receipt.At.IsZero())
	require.Empty(t, r.Detail)
}

func TestAMailHasTheHeadersOfOneThatAMachineSends(t *testing.T) {
	t.Parallel()
	m := sent(t, func(c *smtpchan.Config) {
		c.ReplyTo = "Help <help@example.com>"
		c.Headers = map[string]string{"List-Unsubscribe": "<https://example.com/u>", "X-Team": "Zürich"}
	}, effect(new(begun)))
	require.Equal(t, `"Renewals" <no-reply@example.com>`, m.Header.Get("From"))
	require.Equal(t, "<ada@customer.example>", m.Header.Get("To"))
	require.Equal(t, `"Help" <help@example.com>`, m.Header.Get("Reply-To"))
	require.Equal(t, "auto-generated", m.Header.Get("Auto-Submitted"))
	require.Equal(t, "<https://example.com/u>", m.Header.Get("List-Unsubscribe"))
	require.Equal(t, "Renew Pro", subject(t, m))
	require.Equal(t, "Dear Ada,\n\nyour plan ends.\n", decoded(t, m.Body))
	require.Empty(t, m.Header.Get("X-Mailer"))
	_, err := m.Header.Date()
	require.NoError(t, err)
}

func TestTheMessageIDIsTheSameForAllAttemptsOfAGeneration(t *testing.T) {
	t.Parallel()
	first, again, next := effect(new(begun)), effect(new(begun)), effect(new(begun))
	again.Attempt = 2
	next.Generation = 2
	next.EffectKey = job.WireEffectKey(next.Kind, next.Key, 2, smtpchan.Name)
	id := sent(t, nil, first).Header.Get("Message-Id")
	require.Regexp(t, `^<duly\.[0-9a-f]{40}@example\.com>$`, id)
	require.Equal(t, id, sent(t, nil, again).Header.Get("Message-Id"))
	require.NotEqual(t, id, sent(t, nil, next).Header.Get("Message-Id"))
}

func TestTextAndHTMLAreAlternativesAndHTMLIsEscaped(t *testing.T) {
	t.Parallel()
	e := effect(new(begun))
	e.Payload = []byte(`{"name": "<b>Ada & Co</b>", "plan": "Prö"}`)
	m := sent(t, func(c *smtpchan.Config) { c.HTML = "<p>Dear {{.Payload.name}}</p>" }, e)
	require.Equal(t, "Renew Prö", subject(t, m))
	kind, parameters, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	require.NoError(t, err)
	require.Equal(t, "multipart/alternative", kind)
	parts := multipart.NewReader(m.Body, parameters["boundary"])
	var bodies []string
	for range 2 {
		p, err := parts.NextRawPart()
		require.NoError(t, err)
		bodies = append(bodies, p.Header.Get("Content-Type"), strings.TrimSpace(decoded(t, p)))
	}
	require.Equal(t, []string{
		"text/plain; charset=UTF-8", "Dear <b>Ada & Co</b>,\n\nyour plan ends.",
		"text/html; charset=UTF-8", "<p>Dear &lt;b&gt;Ada &amp; Co&lt;/b&gt;</p>",
	}, bodies)
}

func TestAMailMayBeHTMLAlone(t *testing.T) {
	t.Parallel()
	m := sent(t, func(c *smtpchan.Config) { c.Text, c.HTML = "", "<p>{{.Payload.name}}</p>" }, effect(new(begun)))
	require.Equal(t, "text/html; charset=UTF-8", m.Header.Get("Content-Type"))
	require.Equal(t, "<p>Ada</p>", strings.TrimSpace(decoded(t, m.Body)))
}

func TestLinesOfDotsArriveAsTheyWere(t *testing.T) {
	t.Parallel()
	text := ".\n..\n.a\n\n.\nend"
	m := sent(t, func(c *smtpchan.Config) { c.Text = text }, effect(new(begun)))
	// The server of the test does not remove the stuffing.
	require.Equal(t, "..\n...\n..a\n\n..\nend\n", decoded(t, m.Body))
}

func TestTemplatesKnowTheJobAndItsDeadline(t *testing.T) {
	t.Parallel()
	e := effect(new(begun))
	e.Deadline = time.Date(2026, 9, 30, 15, 0, 0, 0, time.UTC)
	e.DeadlineZone, e.DeadlineLocal = "Europe/Paris", "2026-09-30T17:00:00"
	m := sent(t, func(c *smtpchan.Config) {
		c.Text = `{{.Kind}} {{.Key}} {{.Subject}} {{.Period}} {{.Destination}} {{.DeadlineLocal}} {{.DeadlineZone}} ` +
			`{{.Deadline.Format "2 Jan 15:04 MST"}} {{.Payload.id}} {{if gt (int .Payload.id) 5}}many{{end}}`
	}, withID(e, "12"))
	require.Equal(t, "renewal-reminder r-1 customer-1842 2026-W40 ada@customer.example 2026-09-30T17:00:00 Europe/Paris "+
		"30 Sep 17:00 CEST 12 many", strings.TrimSpace(decoded(t, m.Body)))
}

func TestADeadlineWithoutAZoneIsShownInUTC(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"", "Nowhere/Land"} {
		e := effect(new(begun))
		e.Deadline, e.DeadlineZone = time.Date(2026, 9, 30, 17, 0, 0, 0, time.FixedZone("", 7200)), zone
		m := sent(t, func(c *smtpchan.Config) { c.Text = `{{.Deadline.Format "15:04 MST"}}` }, e)
		require.Equal(t, "15:00 UTC", strings.TrimSpace(decoded(t, m.Body)))
	}
}

func TestLargeNumbersStayExact(t *testing.T) {
	t.Parallel()
	m := sent(t, func(c *smtpchan.Config) { c.Text = "{{.Payload.id}}" }, effect(new(begun)))
	require.Equal(t, "12345678901234567890", strings.TrimSpace(decoded(t, m.Body)))
}

func withID(e channel.Effect, id string) channel.Effect {
	e.Payload = []byte(`{"name": "Ada", "plan": "Pro", "id": ` + id + `}`)
	return e
}

func TestWhatTheTemplatesCannotMakeIsRefusedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(*smtpchan.Config)
		payload string
		detail  string
	}{
		"missing in text":     {nil, `{"plan": "Pro"}`, `no entry for key "name"`},
		"missing in subject":  {nil, `{"name": "Ada"}`, "the subject cannot be made"},
		"null":                {nil, `{"plan": "Pro", "name": null}`, `no entry for key "name"`},
		"missing in html":     {func(c *smtpchan.Config) { c.HTML = "{{.Payload.x}}" }, `{"plan": "Pro", "name": "hunter2"}`, "the html cannot be made"},
		"a hole":              {func(c *smtpchan.Config) { c.Text = `{{index .Payload "x"}}` }, `{"plan": "Pro", "name": "hunter2"}`, "does not have"},
		"not an object":       {nil, `["hunter2"]`, "cannot be made"},
		"no number":           {func(c *smtpchan.Config) { c.Text = "{{int .Payload.name}}" }, `{"plan": "Pro", "name": "hunter2"}`, "not a number"},
		"no whole number":     {func(c *smtpchan.Config) { c.Text = "{{int .Payload.name}}" }, `{"plan": "Pro", "name": 1.5}`, "not whole"},
		"empty subject":       {func(c *smtpchan.Config) { c.Subject = " {{.Payload.plan}} " }, `{"plan": " ", "name": "hunter2"}`, "subject is empty"},
		"subject of 2 lines":  {nil, `{"plan": "a\r\nBcc: eve@example.com", "name": "hunter2"}`, "not one line"},
		"subject with a NUL":  {nil, `{"plan": "a\u0000b", "name": "hunter2"}`, "not one line"},
		"subject too long":    {nil, `{"plan": "` + strings.Repeat("a", 600) + `", "name": "hunter2"}`, "longer than 500"},
		"text too large":      {func(c *smtpchan.Config) { c.Text = strings.Repeat("{{.Payload.name}}", 100) }, `{"plan": "a", "name": "` + strings.Repeat("a", 200_000) + `"}`, "larger than"},
		"payload is not JSON": {nil, `hunter2`, "not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &script{}
			cfg := config(s.start(t))
			if c.change != nil {
				c.change(&cfg)
			}
			var n begun
			e := effect(&n)
			e.Payload = []byte(c.payload)
			r := deliver(t, newChannel(t, cfg), e)
			require.Equal(t, failed(job.ClassPermanent, job.CodePayloadInvalid), verdict(r), r.Detail)
			require.Contains(t, r.Detail, c.detail)
			require.NotContains(t, r.Detail, "hunter2")
			require.Zero(t, n.Load())
			sessions, _ := s.seen()
			require.Zero(t, sessions)
		})
	}
}

func TestAnOptionalValueIsAskedForWithIndex(t *testing.T) {
	t.Parallel()
	text := `{{with index .Payload "nick"}}Hi {{.}}{{else}}Hello{{end}}`
	for payload, want := range map[string]string{
		`{"plan": "Pro"}`: "Hello", `{"plan": "Pro", "nick": null}`: "Hello", `{"plan": "Pro", "nick": "A"}`: "Hi A",
	} {
		e := effect(new(begun))
		e.Payload = []byte(payload)
		require.Equal(t, want, strings.TrimSpace(decoded(t, sent(t, func(c *smtpchan.Config) { c.Text = text }, e).Body)))
	}
}

func TestNothingOfAPayloadBecomesAHeader(t *testing.T) {
	t.Parallel()
	e := effect(new(begun))
	e.Payload = []byte(`{"plan": "=?utf-8?q?a=0D=0ABcc:_eve@example.com?= \"<x>\"", "name": "\r\nBcc: eve@example.com\r\n\r\n.\r\nMAIL FROM:<x@y>"}`)
	m := sent(t, nil, e)
	require.Empty(t, m.Header.Get("Bcc"))
	require.Contains(t, decoded(t, m.Body), "MAIL FROM:<x@y>")
}
