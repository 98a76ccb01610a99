package smtpchan

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/mail"
	"strings"
	"testing"
	"time"

	"duly.dev/duly/internal/channel"
	"duly.dev/duly/internal/classify"
)

// An address that is taken goes on the wire as one argument.
func FuzzRecipient(f *testing.F) {
	for _, text := range []string{
		"ada@customer.example", "Ada <ada@customer.example>", "a@b,c@d", "\"a b\"@c.example", "a@[127.0.0.1]", "ädä@exämple.de", "a@b\r\nRCPT TO:<x@y>", "a@", "@b", "a@b@c", "a>b@c", "a@xn--zz",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := parseAddress(text)
		if err != nil {
			return
		}
		if wire := a.String(); strings.ContainsAny(wire, "<> \r\n\x00\"") || strings.Count(wire, "@") != 1 || len(wire) > maxAddress {
			t.Fatalf("%q goes out as %q", text, wire)
		}
		for _, r := range a.domain {
			if r > '~' {
				t.Fatalf("the domain of %q goes out as %q", text, a.domain)
			}
		}
	})
}

// Whatever a server says, it is one reply within bounds, or none.
func FuzzReplyOfAServer(f *testing.F) {
	for _, text := range []string{
		"250 2.0.0 Ok: queued as 4F2A\r\n", "250-one\r\n250 two\r\n", "250-one\r\n251 two\r\n", "250", "25\r\n", "999 x\r\n", "250-\r\n", strings.Repeat("250-x\r\n", maxLines+1), strings.Repeat("x", maxLine+1), "\r\n", "451 4.4.2 \xff\r\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s := &session{r: bufio.NewReaderSize(bytes.NewReader(text), maxLine)}
		reply, err := s.read()
		if err != nil {
			if !errors.Is(err, classify.ErrReply) && !errors.Is(err, io.EOF) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if reply.Code < 200 || reply.Code > 599 || strings.ContainsAny(reply.String(), "\r\n") {
			t.Fatalf("%q is %+v", text, reply)
		}
	})
}

// Whatever is in a payload, the mail has the headers that the configuration wrote and no
// other, and no line of it ends the mail.
func FuzzMail(f *testing.F) {
	f.Add("Ada", "Pro", "key")
	f.Add("\r\nBcc: x@y.example\r\n\r\n", "\n.\n", "k\r\n")
	f.Add(".", "\x00\xff", "ü")
	f.Add(strings.Repeat("x", 2000), "=?utf-8?q?a?=", "")
	w, err := newWriter(&Config{
		Server: "127.0.0.1:25", TLS: TLSNone, From: "Renewals <no-reply@example.com>",
		Subject: "Renew {{.Payload.plan}}", Text: "Dear {{.Payload.name}},\n{{.Key}}\n", HTML: "<p>{{.Payload.name}}</p>",
	})
	if err != nil {
		f.Fatal(err)
	}
	to, err := parseAddress("ada@customer.example")
	if err != nil {
		f.Fatal(err)
	}
	allowed := map[string]bool{
		"Auto-Submitted": true, "Content-Type": true, "Date": true, "From": true, "Message-Id": true, "Mime-Version": true, "Subject": true, "To": true,
	}
	f.Fuzz(func(t *testing.T, name, plan, key string) {
		payload, err := jsonOf(name, plan)
		if err != nil {
			t.Fatal(err)
		}
		m, err := w.write(channel.Effect{Kind: "k", Key: key, EffectKey: "k/" + key + ":1:smtp", Payload: payload}, to, time.Unix(0, 0))
		if err != nil {
			return
		}
		if bytes.HasPrefix(m.body, []byte(".\r\n")) || bytes.Contains(m.body, []byte("\r\n.\r\n")) || !bytes.HasSuffix(m.body, []byte("\r\n")) {
			t.Fatalf("the mail ends itself: %q", m.body)
		}
		for _, line := range bytes.SplitAfter(m.body, []byte("\n")) {
			if len(line) > 0 && !bytes.HasSuffix(line, []byte("\r\n")) {
				t.Fatalf("a line ends without CRLF: %q", line)
			}
		}
		read, err := mail.ReadMessage(bytes.NewReader(m.body))
		if err != nil {
			t.Fatalf("nobody can read the mail: %v: %q", err, m.body)
		}
		for header := range read.Header {
			if !allowed[header] {
				t.Fatalf("%q %q made the header %s", name, plan, header)
			}
		}
	})
}

// jsonOf is a payload.
func jsonOf(name, plan string) ([]byte, error) {
	return json.Marshal(map[string]string{"name": name, "plan": plan})
}
