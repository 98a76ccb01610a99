package smtpchan_test

import (
	"bufio"
	"context"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"duly.dev/duly/internal/channel"
	"duly.dev/duly/internal/channel/secret"
	"duly.dev/duly/internal/channel/smtpchan"
	"duly.dev/duly/pkg/job"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// generous is a limit that no healthy exchange of a test comes near.
const generous = 30 * time.Second

func config(server string) smtpchan.Config {
	return smtpchan.Config{
		Server: server, TLS: smtpchan.TLSNone, Hello: "worker.example",
		From:    "Renewals <no-reply@example.com>",
		Subject: "Renew {{.Payload.plan}}",
		Text:    "Dear {{.Payload.name}},\n\nyour plan ends.\n",
	}
}

func newChannel(t testing.TB, cfg smtpchan.Config) *smtpchan.Channel {
	t.Helper()
	c, err := smtpchan.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// begun counts the calls of an effect's Begin.
type begun struct{ atomic.Int32 }

func effect(n *begun) channel.Effect {
	return channel.Effect{
		Kind: "renewal-reminder", Key: "r-1", Subject: "customer-1842", Period: "2026-W40", Destination: "ada@customer.example",
		Payload: []byte(`{"name": "Ada", "plan": "Pro", "id": 12345678901234567890}`), Generation: 1, Attempt: 1,
		EffectKey: job.WireEffectKey("renewal-reminder", "r-1", 1, smtpchan.Name),
		Begin:     func() error { n.Add(1); return nil },
	}
}

func deliver(t testing.TB, c *smtpchan.Channel, e channel.Effect) job.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), generous)
	defer cancel()
	return c.Deliver(ctx, e)
}

// script is a mail server that does what a test wants at each command.
type script struct {
	// greeting and ehlo are what it says at first; the latter without codes.
	greeting string
	ehlo     []string
	// at is asked what to answer to a command ("MAIL", "RCPT", "DATA", "RSET", "dot",
	// …), n counting it over all sessions from 1. Empty is the usual answer; hangUp
	// closes the connection and silent says nothing until the test is over.
	at func(command string, n int) string

	over chan struct{}

	mu       sync.Mutex
	counts   map[string]int
	sessions int
	// mails are the contents that were followed by a final dot, accepted or not.
	mails []string
}

const (
	hangUp = "\x00hang up"
	silent = "\x00silent"
)

// start runs the server on a port of its own until the test is over.
func (s *script) start(t testing.TB) (address string) {
	t.Helper()
	s.counts, s.over = map[string]int{}, make(chan struct{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			stop := make(chan struct{})
			running.Go(func() {
				select {
				case <-s.over:
				case <-stop:
				}
				_ = c.Close()
			})
			running.Go(func() {
				defer close(stop)
				s.session(c)
			})
		}
	})
	t.Cleanup(func() {
		close(s.over)
		_ = l.Close()
		running.Wait()
	})
	return l.Addr().String()
}

func (s *script) session(c net.Conn) {
	s.mu.Lock()
	s.sessions++
	s.mu.Unlock()
	r := bufio.NewReader(c)
	greeting := s.greeting
	if greeting == "" {
		greeting = "220 mail.example ESMTP"
	}
	if !s.say(c, greeting) {
		return
	}
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		command := strings.ToUpper(strings.TrimSpace(line))
		if len(command) > 4 {
			command = command[:4]
		}
		answer := s.answer(command)
		if !s.say(c, answer) {
			return
		}
		if command == "DATA" && strings.HasPrefix(answer, "354") && !s.content(c, r) {
			return
		}
		if command == "QUIT" {
			return
		}
	}
}

func (s *script) content(c net.Conn, r *bufio.Reader) bool {
	var body strings.Builder
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return false
		}
		if line == ".\r\n" {
			break
		}
		body.WriteString(line)
	}
	s.mu.Lock()
	s.mails = append(s.mails, body.String())
	s.mu.Unlock()
	return s.say(c, s.answer("dot"))
}

func (s *script) answer(command string) string {
	s.mu.Lock()
	s.counts[command]++
	n := s.counts[command]
	s.mu.Unlock()
	if s.at != nil {
		if answer := s.at(command, n); answer != "" {
			return answer
		}
	}
	switch command {
	case "EHLO":
		lines := append([]string{"mail.example"}, s.ehlo...)
		for i := range lines[:len(lines)-1] {
			lines[i] = "250-" + lines[i]
		}
		lines[len(lines)-1] = "250 " + lines[len(lines)-1]
		return strings.Join(lines, "\r\n")
	case "DATA":
		return "354 go on"
	case "dot":
		return "250 2.0.0 Ok: queued as 4F2A"
	case "QUIT":
		return "221 bye"
	}
	return "250 2.0.0 Ok"
}

// say sends an answer and reports whether the session goes on.
func (s *script) say(c net.Conn, answer string) bool {
	switch answer {
	case hangUp:
		return false
	case silent:
		<-s.over
		return false
	}
	_, err := io.WriteString(c, answer+"\r\n")
	return err == nil
}

func (s *script) count(command string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[command]
}

func (s *script) seen() (sessions int, mails []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions, append([]string(nil), s.mails...)
}

// on answers one command, always, and leaves the others as usual.
func on(command, answer string) func(string, int) string {
	return func(c string, _ int) string {
		if c == command {
			return answer
		}
		return ""
	}
}

func file(t testing.TB, content string) *secret.Ref {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return &secret.Ref{File: path}
}

// authority gives a certificate for 127.0.0.1 and a file with its authority.
func authority(t testing.TB) (*httptest.Server, string) {
	t.Helper()
	s := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	path := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	require.NoError(t, os.WriteFile(path, block, 0o600))
	return s, path
}

// limit is a context that ends like one whose time is over, when a test says so.
type limit struct {
	context.Context
	over chan struct{}
	once sync.Once
}

func newLimit(t *testing.T) *limit { return &limit{Context: t.Context(), over: make(chan struct{})} }

func (l *limit) end() { l.once.Do(func() { close(l.over) }) }

func (l *limit) Done() <-chan struct{} { return l.over }

func (l *limit) Err() error {
	select {
	case <-l.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}
