package smtpchan

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"duly.dev/duly/internal/channel"
	"duly.dev/duly/internal/classify"
	"duly.dev/duly/pkg/job"
)

// Name is the channel's part of the effect key.
const Name = "smtp"

// Channel performs effects as mails; see the package's documentation.
type Channel struct {
	Checker

	server      string
	hello       string
	implicit    bool
	secured     *tls.Config // nil: in the clear
	credentials *credentials
	writer      *writer
	table       classify.SMTPTable
	pool        *pool
}

var _ channel.Channel = (*Channel)(nil)

// New makes the channel of one kind. It reads the secrets and files that the
// configuration refers to; it connects to nothing.
func New(cfg Config) (*Channel, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	w, err := newWriter(&cfg)
	if err != nil {
		return nil, err
	}
	secured, err := cfg.secured()
	if err != nil {
		return nil, err
	}
	credentials, err := loadCredentials(&cfg)
	if err != nil {
		return nil, err
	}
	return &Channel{
		server:      cfg.Server,
		hello:       cfg.hello(),
		implicit:    cfg.TLS == TLSImplicit,
		secured:     secured,
		credentials: credentials,
		writer:      w,
		table:       classify.DefaultSMTP(),
		pool:        newPool(cfg.sessions(), cfg.idle()),
	}, nil
}

func loadCredentials(cfg *Config) (*credentials, error) {
	if cfg.Username == nil {
		return nil, nil
	}
	username, err := cfg.Username.Load()
	if err != nil {
		return nil, fmt.Errorf("username: %w", err)
	}
	password, err := cfg.Password.Load()
	if err != nil {
		return nil, fmt.Errorf("password: %w", err)
	}
	if strings.ContainsRune(username+password, 0) {
		return nil, errors.New("username, password: they must not contain a NUL")
	}
	return &credentials{mechanism: cfg.Auth, username: username, password: password}, nil
}

// Name returns "smtp".
func (c *Channel) Name() string { return Name }

// Close ends the sessions that are not in use; those in use end with their mail.
func (c *Channel) Close() error {
	c.pool.close()
	return nil
}

// Deliver makes the mail and sends it. It waits for a session where all are in use.
func (c *Channel) Deliver(ctx context.Context, e channel.Effect) job.Result {
	to, err := parseAddress(e.Destination)
	if err != nil {
		return job.NotDone(job.ClassPermanent, job.CodeDestinationInvalid, "the destination cannot be used: "+err.Error())
	}
	m, err := c.writer.write(e, to, time.Now())
	if err != nil {
		return job.NotDone(job.ClassPermanent, job.CodePayloadInvalid, err.Error())
	}
	if err := c.pool.enter(ctx); err != nil {
		return job.NotBegun("no session to the mail server was free within the limit")
	}
	defer c.pool.leave()
	return to.forgotten(c.send(ctx, m, e.Begin))
}

// send sends the mail on a kept session or, where there is none or it turns out to
// be of no use before any content was sent, on a new one.
func (c *Channel) send(ctx context.Context, m message, begin func() error) job.Result {
	if s := c.pool.take(); s != nil {
		result, useless := c.attempt(ctx, s, m, begin, s.reset)
		if !useless || ctx.Err() != nil {
			return result
		}
	}
	s, err := c.open(ctx)
	if err != nil {
		return c.unsent(ctx, err, false)
	}
	result, _ := c.attempt(ctx, s, m, begin, nil)
	return result
}

// open makes a new session.
func (c *Channel) open(ctx context.Context) (*session, error) {
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.server)
	if err != nil {
		return nil, &failure{stage: classify.StageSession, err: err}
	}
	s := newSession(raw)
	release := s.bound(ctx)
	defer release()
	if err := c.prepare(ctx, s); err != nil {
		s.abort()
		return nil, err
	}
	return s, nil
}

func (c *Channel) prepare(ctx context.Context, s *session) error {
	if c.implicit {
		if err := s.secure(ctx, c.secured); err != nil {
			return err
		}
	}
	if err := s.greet(c.hello); err != nil {
		return err
	}
	if c.secured != nil && !c.implicit {
		if err := s.startTLS(ctx, c.secured, c.hello); err != nil {
			return err
		}
	}
	if c.credentials != nil {
		return s.authenticate(c.credentials)
	}
	return nil
}

// attempt sends the mail on a session, after wake if that is given, and keeps the
// session if it can be used again. useless is true if nothing of the mail's content
// was sent because the session had ended or is being ended by the server.
func (c *Channel) attempt(ctx context.Context, s *session, m message, begin, wake func() error) (result job.Result, useless bool) {
	release := s.bound(ctx)
	t := transaction{channel: c, session: s, message: m, begin: begin}
	result = t.run(ctx, wake)
	if release() && t.clean {
		c.pool.put(s)
	} else {
		s.abort()
	}
	return result, t.useless
}
