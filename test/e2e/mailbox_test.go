package e2e_test

import (
	"errors"
	"io"
	"net"
	"net/mail"
	"strings"
	"sync"
	"testing"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"
)

// The credentials that mailboxes ask for.
const (
	mailUser     = "duly"
	mailPassword = "credential-of-the-mailbox"
)

// mailbox is a mail server that writes down every mail before it answers the final dot.
// Effects are counted by the part of the Message-ID before the @.
type mailbox struct {
	tally

	address string
	closed  chan struct{}

	mu       sync.Mutex
	plan     func(*letter) error
	greeting *gate // nil: it greets at once
}

// letter is one mail on its way into a mailbox.
type letter struct {
	mailbox *mailbox
	conn    net.Conn
	id, to  string
	nth     int
}

// newMailbox starts a mail server that ends with the test.
func newMailbox(t *testing.T) *mailbox {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	m := &mailbox{tally: newTally(), address: listener.Addr().String(), closed: make(chan struct{})}
	server := smtp.NewServer(m)
	server.Domain = "mail.example"
	server.AllowInsecureAuth = true
	server.ErrorLog = silence{}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		close(m.closed)
		require.NoError(t, server.Close())
		if err := <-done; err != nil && !errors.Is(err, smtp.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return m
}

// silence drops what the server says about sessions that the test has broken.
type silence struct{}

func (silence) Printf(string, ...any) {}
func (silence) Println(...any)        {}

// plans sets what the mailbox does with a mail; an error of it is the answer.
func (m *mailbox) plans(plan func(*letter) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.plan = plan
}

// greets makes the mailbox let clients wait for its greeting until the gate opens.
func (m *mailbox) greets(when *gate) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.greeting = when
}

// NewSession implements smtp.Backend.
func (m *mailbox) NewSession(c *smtp.Conn) (smtp.Session, error) {
	m.mu.Lock()
	greeting := m.greeting
	m.mu.Unlock()
	if greeting != nil {
		select {
		case <-greeting.opened:
		case <-m.closed:
		}
	}
	return &mailSession{mailbox: m, conn: c.Conn()}, nil
}

type mailSession struct {
	mailbox       *mailbox
	conn          net.Conn
	authenticated bool
	to            string
}

func (s *mailSession) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *mailSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, username, password string) error {
		if username != mailUser || password != mailPassword {
			return smtp.ErrAuthFailed
		}
		s.authenticated = true
		return nil
	}), nil
}

func (s *mailSession) Mail(string, *smtp.MailOptions) error {
	if !s.authenticated {
		return smtp.ErrAuthRequired
	}
	return nil
}

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = to
	return nil
}

func (s *mailSession) Data(r io.Reader) error {
	read, err := mail.ReadMessage(r)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(read.Body)
	if err != nil {
		return err
	}
	id, _, _ := strings.Cut(strings.Trim(read.Header.Get("Message-Id"), "<>"), "@")
	l := &letter{mailbox: s.mailbox, conn: s.conn, id: id, to: s.to, nth: s.mailbox.ask(id, body)}
	s.mailbox.mu.Lock()
	plan := s.mailbox.plan
	s.mailbox.mu.Unlock()
	if plan == nil {
		l.act()
		return nil
	}
	return plan(l)
}

func (s *mailSession) Reset()        { s.to = "" }
func (s *mailSession) Logout() error { return nil }

// act takes the mail: it will be read.
func (l *letter) act() { l.mailbox.act(l.id, false) }

// wait holds the answer to the final dot until the gate opens.
func (l *letter) wait(g *gate) {
	select {
	case <-g.opened:
	case <-l.mailbox.closed:
	}
}

// hangUp closes the connection without an answer.
func (l *letter) hangUp() error {
	_ = l.conn.Close()
	return errors.New("the connection is closed")
}
