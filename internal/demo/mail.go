package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	netmail "net/mail"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-smtp"
)

// maxMail is the largest mail that the server takes, in bytes.
const maxMail = 1 << 20

// mailServer is an SMTP server that treats recipients as mailPlan says. It keeps no
// keys and takes the same mail twice, as mail servers do.
type mailServer struct {
	plan     func(to string) mailBehaviour
	book     *logbook
	log      mailLog
	server   *smtp.Server
	listener net.Listener
	tries    tries
	stopping chan struct{}
	serving  sync.WaitGroup
}

// mailLog is the server's own log, which others may read: it says of a message whether it
// was accepted, or, with nil, that it does not know. What was dropped is not in it.
type mailLog func(message string, accepted *bool) error

// startMail serves on the address until stop. plan says how each recipient is treated; log
// is nil for a server whose log nobody reads.
func startMail(address, logPath string, plan func(to string) mailBehaviour, log mailLog) (*mailServer, error) {
	book, err := openLogbook(logPath)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting the mail server: %w", err), book.close())
	}
	m := &mailServer{plan: plan, book: book, log: log, listener: listener, stopping: make(chan struct{})}
	m.server = smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return &mailSession{server: m, conn: c}, nil
	}))
	m.server.Domain = "mail.demo.example"
	m.server.MaxMessageBytes, m.server.MaxRecipients = maxMail, 10
	m.server.ReadTimeout, m.server.WriteTimeout = time.Minute, time.Minute
	m.server.EnableSMTPUTF8 = true
	m.server.ErrorLog = quiet{}
	m.serving.Go(func() { _ = m.server.Serve(listener) }) // it ends when the listener does
	return m, nil
}

// address is where the server listens, host:port.
func (m *mailServer) address() string { return m.listener.Addr().String() }

// stop ends the sessions and closes the log.
func (m *mailServer) stop(context.Context) error {
	close(m.stopping)
	err := m.server.Close()
	m.serving.Wait()
	return errors.Join(err, m.book.close())
}

// mailSession is one SMTP session.
type mailSession struct {
	server *mailServer
	conn   *smtp.Conn
	to     string
	plan   mailBehaviour // for this try: one that accepts where the plan is over
}

// Reset forgets the mail under way.
func (s *mailSession) Reset() { s.to, s.plan = "", mailAccepts }

// Logout ends the session.
func (s *mailSession) Logout() error { return nil }

// Mail takes any sender.
func (s *mailSession) Mail(string, *smtp.MailOptions) error { return nil }

// Rcpt answers as the plan says for this try of the recipient.
func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to, s.plan = to, s.server.plan(to)
	if s.server.tries.next(to) > s.plan.tries {
		s.plan = mailAccepts
	}
	switch {
	case s.plan.unplug:
		return s.hangUp()
	case s.plan.refuse != nil:
		return s.plan.refuse
	}
	return nil
}

// Data takes the content, notes the effect where it accepts, and answers as planned.
func (s *mailSession) Data(content io.Reader) error {
	message, err := netmail.ReadMessage(content)
	if err != nil {
		return refusal(554, smtp.EnhancedCode{5, 6, 0}, "Not a mail")
	}
	id, _, _ := strings.Cut(strings.Trim(message.Header.Get("Message-Id"), "<>"), "@")
	if _, err := io.Copy(io.Discard, message.Body); err != nil { // the final dot did not come
		return err
	}
	if s.plan.refuseDot != nil {
		return s.plan.refuseDot
	}
	s.server.pause(s.plan.delay)
	if err := s.note(id); err != nil {
		return refusal(451, smtp.EnhancedCode{4, 3, 0}, "Nothing was accepted: "+err.Error())
	}
	if s.plan.drops {
		return s.hangUp()
	}
	if err := s.server.book.write(sighting{At: time.Now(), Effect: id, To: s.to}); err != nil {
		return refusal(451, smtp.EnhancedCode{4, 3, 0}, "Nothing was accepted: "+err.Error())
	}
	if s.plan.hangUp {
		return s.hangUp()
	}
	return nil
}

// note writes the server's own log, where there is one.
func (s *mailSession) note(message string) error {
	accepted := true
	switch {
	case s.server.log == nil:
		return nil
	case s.plan.silent:
		return s.server.log(message, nil)
	case s.plan.drops:
		return nil
	}
	return s.server.log(message, &accepted)
}

// hangUp closes the connection; the reply that follows goes nowhere.
func (s *mailSession) hangUp() error {
	_ = s.conn.Conn().Close()
	return refusal(421, smtp.EnhancedCode{4, 4, 2}, "Never heard")
}

// pause waits, or until the server stops.
func (m *mailServer) pause(d time.Duration) {
	if d == 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-m.stopping:
	}
}

// quiet drops what a receiver's library has to say: it misbehaves on purpose.
type quiet struct{}

// Printf drops the text.
func (quiet) Printf(string, ...any) {}

// Println drops the text.
func (quiet) Println(...any) {}
