package smtpchan

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/mail"
	"net/textproto"
	"strings"
	"sync"
	"time"

	gomail "github.com/wneessen/go-mail"

	"duly.dev/duly/internal/channel"
)

// message is one mail, ready for a session.
type message struct {
	from, to address
	// body is what goes between the reply to DATA and the final dot, dot-stuffed.
	body []byte
}

// writer makes messages.
type writer struct {
	templates  templates
	from       *mail.Address
	replyTo    *mail.Address
	returnPath address
	headers    map[string]string
	zones      sync.Map // name → *time.Location
}

// newWriter makes a writer of a valid configuration.
func newWriter(cfg *Config) (*writer, error) {
	w := &writer{headers: cfg.Headers}
	var err error
	if w.templates, err = parseTemplates(cfg); err != nil {
		return nil, err
	}
	if w.from, err = parseSender(cfg.From); err != nil {
		return nil, fmt.Errorf("from: %w", err)
	}
	if cfg.ReplyTo != "" {
		if w.replyTo, err = parseSender(cfg.ReplyTo); err != nil {
			return nil, fmt.Errorf("reply_to: %w", err)
		}
	}
	bounces := w.from
	if cfg.ReturnPath != "" {
		if bounces, err = parseSender(cfg.ReturnPath); err != nil {
			return nil, fmt.Errorf("return_path: %w", err)
		}
	}
	w.returnPath, err = parseAddress(bounces.Address)
	return w, err
}

// write makes the mail of an effect. Apart from its date, which is now, it is the
// same for every attempt of a generation.
func (w *writer) write(e channel.Effect, to address, now time.Time) (message, error) {
	fields, err := w.fields(e)
	if err != nil {
		return message{}, err
	}
	c, err := w.templates.render(fields)
	if err != nil {
		return message{}, err
	}
	body, err := stuff(w.compose(c, to, Identity(e.EffectKey), now))
	return message{from: w.returnPath, to: to, body: body}, err
}

func (w *writer) fields(e channel.Effect) (Fields, error) {
	payload, err := decodePayload(e.Payload)
	if err != nil {
		return Fields{}, err
	}
	f := Fields{
		Kind: e.Kind, Key: e.Key, Subject: e.Subject, Period: e.Period, Destination: e.Destination,
		DeadlineLocal: e.DeadlineLocal, DeadlineZone: e.DeadlineZone, Payload: payload,
	}
	if !e.Deadline.IsZero() {
		f.Deadline = e.Deadline.In(w.zone(e.DeadlineZone))
	}
	return f, nil
}

// zone returns a zone by its name, UTC where there is none.
func (w *writer) zone(name string) *time.Location {
	if z, ok := w.zones.Load(name); ok {
		return z.(*time.Location)
	}
	z, err := time.LoadLocation(name)
	if err != nil {
		return time.UTC
	}
	w.zones.Store(name, z)
	return z
}

// Identity is the part of a Message-ID before the @, by which a mail is found that was
// sent under an effect key: as stable as the key, and without its text, which is not
// the recipient's business.
func Identity(effectKey string) string {
	sum := sha256.Sum256([]byte(effectKey))
	return "duly." + hex.EncodeToString(sum[:20])
}

func (w *writer) compose(c content, to address, id string, now time.Time) *gomail.Msg {
	m := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	m.FromMailAddress(w.from)
	m.ToMailAddress(&mail.Address{Address: to.String()})
	if w.replyTo != nil {
		m.ReplyToMailAddress(w.replyTo)
	}
	m.Subject(c.subject)
	m.SetDateWithValue(now)
	m.SetMessageIDWithValue(id + w.from.Address[strings.LastIndexByte(w.from.Address, '@'):])
	m.SetBoundary(id)
	m.SetGenHeader("Auto-Submitted", "auto-generated")
	for name, value := range w.headers {
		m.SetGenHeader(gomail.Header(name), value)
	}
	switch {
	case c.html == "":
		m.SetBodyString(gomail.TypeTextPlain, c.text)
	case c.text == "":
		m.SetBodyString(gomail.TypeTextHTML, c.html)
	default:
		m.SetBodyString(gomail.TypeTextPlain, c.text)
		m.AddAlternativeString(gomail.TypeTextHTML, c.html)
	}
	return m
}

// dot is the line that ends a mail. It is not part of a message's body.
const dot = "."

// stuff writes a mail as DATA takes it: lines end in CRLF, those that begin with a
// dot get another one. The final dot is left to the session.
func stuff(m *gomail.Msg) ([]byte, error) {
	var out bytes.Buffer
	buffer := bufio.NewWriter(&out)
	dots := textproto.NewWriter(buffer).DotWriter()
	if _, err := m.WriteTo(dots); err != nil {
		return nil, fmt.Errorf("writing the mail: %w", err)
	}
	if err := dots.Close(); err != nil {
		return nil, fmt.Errorf("writing the mail: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte(dot+"\r\n")), nil
}
