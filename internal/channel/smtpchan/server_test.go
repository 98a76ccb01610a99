package smtpchan_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/channel/smtpchan"
	"duly.dev/duly/pkg/job"
)

// backend is a mail server of another make, with authentication.
type backend struct {
	mechanisms []string

	mu    sync.Mutex
	mails []string
}

func (b *backend) NewSession(*smtp.Conn) (smtp.Session, error) {
	return &backendSession{backend: b}, nil
}

func (b *backend) seen() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.mails...)
}

type backendSession struct {
	backend       *backend
	authenticated bool
	from, to      string
}

func (s *backendSession) AuthMechanisms() []string { return s.backend.mechanisms }

func (s *backendSession) Auth(mechanism string) (sasl.Server, error) {
	check := func(username, password string) error {
		if username != "duly" || password != "hunter2" {
			return smtp.ErrAuthFailed
		}
		s.authenticated = true
		return nil
	}
	if mechanism == sasl.Login {
		return &loginServer{check: check}, nil
	}
	return sasl.NewPlainServer(func(_, username, password string) error { return check(username, password) }), nil
}

// loginServer is the server's side of AUTH LOGIN.
type loginServer struct {
	check    func(username, password string) error
	step     int
	username string
}

func (l *loginServer) Next(response []byte) ([]byte, bool, error) {
	l.step++
	switch {
	case l.step == 1 && response == nil:
		return []byte("Username:"), false, nil
	case l.username == "" && len(response) > 0:
		l.username = string(response)
		return []byte("Password:"), false, nil
	}
	return nil, true, l.check(l.username, string(response))
}

func (s *backendSession) Mail(from string, _ *smtp.MailOptions) error {
	if len(s.backend.mechanisms) > 0 && !s.authenticated {
		return smtp.ErrAuthRequired
	}
	s.from = from
	return nil
}

func (s *backendSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = to
	return nil
}

func (s *backendSession) Data(r io.Reader) error {
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.backend.mu.Lock()
	defer s.backend.mu.Unlock()
	s.backend.mails = append(s.backend.mails, s.from+" "+s.to+"\r\n"+string(b))
	return nil
}

func (s *backendSession) Reset()        { s.from, s.to = "", "" }
func (s *backendSession) Logout() error { return nil }

// mailServer runs the backend; secured may be nil.
func mailServer(t *testing.T, b *backend, secured *tls.Config, implicit bool) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address = l.Addr().String()
	server := smtp.NewServer(b)
	server.Domain = "mail.example"
	server.AllowInsecureAuth = true
	server.EnableSMTPUTF8 = true
	server.TLSConfig = secured
	server.ErrorLog = quiet{}
	if implicit {
		l = tls.NewListener(l, secured)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		if err := <-done; err != nil && !errors.Is(err, smtp.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return address
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}
func (quiet) Println(...any)        {}

func TestMailsArriveOverEveryKindOfTLSAndAuthentication(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tls, auth  string
		mechanisms []string
	}{
		"starttls, no authentication": {smtpchan.TLSStart, "", nil},
		"starttls, plain":             {"", "", []string{"LOGIN", "PLAIN"}},
		"starttls, login":             {smtpchan.TLSStart, "login", []string{"LOGIN", "PLAIN"}},
		"implicit, login":             {smtpchan.TLSImplicit, "", []string{"LOGIN"}},
		"in the clear, plain":         {smtpchan.TLSNone, "plain", []string{"PLAIN"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			certificate, caFile := authority(t)
			b := &backend{mechanisms: c.mechanisms}
			cfg := config(mailServer(t, b, certificate.TLS.Clone(), c.tls == smtpchan.TLSImplicit))
			cfg.TLS, cfg.Auth, cfg.CAFile = c.tls, c.auth, caFile
			if c.mechanisms != nil {
				cfg.Username, cfg.Password = file(t, "duly\n"), file(t, "hunter2\n")
			}
			channel := newChannel(t, cfg)
			for range 3 {
				r := deliver(t, channel, effect(new(begun)))
				require.Equal(t, job.OutcomeDelivered, r.Outcome, r.Detail)
			}
			mails := b.seen()
			require.Len(t, mails, 3)
			require.True(t, strings.HasPrefix(mails[0], "no-reply@example.com ada@customer.example\r\n"))
			require.Contains(t, mails[0], "Dear Ada,")
		})
	}
}

func TestReturnPathIsTheSenderOfTheEnvelope(t *testing.T) {
	t.Parallel()
	b := &backend{}
	cfg := config(mailServer(t, b, nil, false))
	cfg.ReturnPath = "bounces@example.com"
	require.Equal(t, job.OutcomeDelivered, deliver(t, newChannel(t, cfg), effect(new(begun))).Outcome)
	require.True(t, strings.HasPrefix(b.seen()[0], "bounces@example.com "))
}

func TestAnAddressOfAnotherScriptArrives(t *testing.T) {
	t.Parallel()
	b := &backend{}
	e := effect(new(begun))
	e.Destination = "jörg@customer.example"
	r := deliver(t, newChannel(t, config(mailServer(t, b, nil, false))), e)
	require.Equal(t, job.OutcomeDelivered, r.Outcome, r.Detail)
	require.True(t, strings.HasPrefix(b.seen()[0], "no-reply@example.com jörg@customer.example\r\n"))
}

func TestAPasswordThatIsRefusedIsTransientAndNotShown(t *testing.T) {
	t.Parallel()
	certificate, caFile := authority(t)
	b := &backend{mechanisms: []string{"PLAIN"}}
	address := mailServer(t, b, certificate.TLS.Clone(), false)
	for _, auth := range []string{"plain", "login"} {
		cfg := config(address)
		cfg.TLS, cfg.CAFile, cfg.Auth = smtpchan.TLSStart, caFile, auth
		cfg.Username, cfg.Password = file(t, "duly"), file(t, "sesame1")
		var n begun
		r := deliver(t, newChannel(t, cfg), effect(&n))
		require.Equal(t, failed(job.ClassTransient, job.CodeUnauthorized), verdict(r), r.Detail)
		require.NotContains(t, r.Detail, "sesame1")
		require.Zero(t, n.Load())
	}
}

func TestNoTLSMeansNoMail(t *testing.T) {
	t.Parallel()
	certificate, _ := authority(t)
	b := &backend{}
	for name, address := range map[string]string{
		"unknown authority":          mailServer(t, b, certificate.TLS.Clone(), false),
		"STARTTLS is not offered":    mailServer(t, b, nil, false),
		"STARTTLS is refused":        (&script{ehlo: []string{"STARTTLS"}, at: on("STAR", "454 not now")}).start(t),
		"the server goes on in text": (&script{ehlo: []string{"STARTTLS"}, at: on("STAR", "220 go\r\n250 injected")}).start(t),
	} {
		cfg := config(address)
		cfg.TLS = smtpchan.TLSStart
		var n begun
		r := deliver(t, newChannel(t, cfg), effect(&n))
		require.Equal(t, failed(job.ClassTransient, job.CodeTLS), verdict(r), "%s: %s", name, r.Detail)
		require.Zero(t, n.Load(), name)
	}
	require.Empty(t, b.seen())
}

func TestAuthenticationThatGoesWrongIsTransient(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"challenge is not base64": "334 ???", "a challenge too many": "334 YQ==", "hung up": hangUp, "garbage": "what?", "refused": "535 5.7.8 no",
	} {
		s := &script{ehlo: []string{"AUTH PLAIN"}, at: on("AUTH", answer)}
		cfg := config(s.start(t))
		cfg.Username, cfg.Password = file(t, "duly"), file(t, "hunter2")
		var n begun
		r := deliver(t, newChannel(t, cfg), effect(&n))
		require.Equal(t, job.OutcomeFailed, r.Outcome, name)
		require.NotEqual(t, job.ClassPermanent, r.Class, name)
		require.NotContains(t, r.Detail, "hunter2")
		require.Zero(t, n.Load())
	}
}
