package smtpchan

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/mail"
	"net/netip"
	"net/textproto"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"duly.dev/duly/internal/channel/secret"
)

// How a session is secured.
const (
	// TLSStart upgrades the session with STARTTLS and sends nothing without it.
	TLSStart = "starttls"
	// TLSImplicit speaks TLS from the first byte (port 465).
	TLSImplicit = "implicit"
	// TLSNone sends in the clear.
	TLSNone = "none"
)

const (
	// DefaultSessions is how many sessions there are at once unless configured
	// otherwise.
	DefaultSessions = 8
	// DefaultIdle is how long an unused session is kept unless configured otherwise.
	DefaultIdle = 30 * time.Second
)

// Config is the `smtp` section of a kind's channel.
type Config struct {
	// Server is the mail server as host:port, such as "mail.example.com:587". Required.
	Server string `yaml:"server"`
	// TLS is starttls (default), implicit or none. With starttls a server that does
	// not offer it gets no mail; none is allowed only to this machine itself, unless
	// insecure is set.
	TLS string `yaml:"tls"`
	// Insecure allows tls: none to another machine. Everybody on the way can then
	// read the mails and the password. Default: false.
	Insecure bool `yaml:"insecure"`
	// CAFile is a file of PEM certificates that are trusted in place of the system's.
	// Default: the system's.
	CAFile string `yaml:"ca_file"`
	// Username and Password are the credentials, each in a file or an environment
	// variable that is read when the process starts. Both or neither. Default: the
	// session is not authenticated.
	Username *secret.Ref `yaml:"username"`
	Password *secret.Ref `yaml:"password"`
	// Auth is the mechanism: plain or login. Default: plain where the server offers
	// it, else login.
	Auth string `yaml:"auth"`
	// Hello is the name that the session introduces itself with. Default: the name of
	// the machine.
	Hello string `yaml:"hello"`
	// From is the sender of every mail, as "name@example.com" or
	// "Name <name@example.com>". Required.
	From string `yaml:"from"`
	// ReplyTo is the address for answers. Default: none, answers go to from.
	ReplyTo string `yaml:"reply_to"`
	// ReturnPath is the address that bounces go to. Default: the address of from.
	ReturnPath string `yaml:"return_path"`
	// Headers are added to every mail, such as List-Unsubscribe. Those that Duly sets
	// itself are refused.
	Headers map[string]string `yaml:"headers"`
	// Subject is a template (text/template) that gives one line. Required.
	Subject string `yaml:"subject"`
	// Text and HTML are the templates (text/template, html/template) of the mail's
	// bodies; at least one is required. With both, the reader's program chooses.
	Text string `yaml:"text"`
	HTML string `yaml:"html"`
	// Sessions is how many sessions this process has at once; default 8. Attempts
	// beyond wait, within their limit.
	Sessions int `yaml:"sessions"`
	// Idle is how long an unused session is kept; default 30s, which is below the
	// five minutes that servers must wait.
	Idle time.Duration `yaml:"idle"`
}

// reservedHeaders are set by the channel or by the way that a mail takes.
var reservedHeaders = []string{
	"From", "To", "Cc", "Bcc", "Sender", "Reply-To", "Subject", "Date", "Message-Id", "Mime-Version",
	"Content-Type", "Content-Transfer-Encoding", "Content-Disposition", "Auto-Submitted", "Return-Path", "Received",
	"Dkim-Signature",
}

// Validate returns every mistake of the configuration, joined, each naming its
// field. It compiles the templates and reads no file and no secret.
func (c *Config) Validate() error {
	_, templates := parseTemplates(c)
	return errors.Join(
		c.validateServer(),
		c.validateTLS(),
		c.validateAuth(),
		validateHello(c.Hello),
		validateSender("from", c.From, true),
		validateSender("reply_to", c.ReplyTo, false),
		validateSender("return_path", c.ReturnPath, false),
		validateHeaders(c.Headers),
		templates,
		c.validatePool(),
	)
}

func (c *Config) validateServer() error {
	host, port, err := net.SplitHostPort(c.Server)
	if c.Server == "" {
		return errors.New("server: it must be given, as host:port")
	}
	if n, portErr := strconv.ParseUint(port, 10, 16); err != nil || host == "" || portErr != nil || n == 0 {
		return fmt.Errorf("server %q: it must be host:port, such as mail.example.com:587", c.Server)
	}
	return nil
}

func (c *Config) validateTLS() error {
	switch c.TLS {
	case "", TLSStart, TLSImplicit:
		return nil
	case TLSNone:
		if c.Insecure || c.loopback() {
			return nil
		}
		return errors.New("tls \"none\": it is allowed only to a server on this machine; use starttls, or set insecure: true")
	}
	return fmt.Errorf("tls %q: it must be starttls, implicit or none", c.TLS)
}

// loopback reports whether the server is, by its written name, this machine.
func (c *Config) loopback() bool {
	host := c.host()
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().IsLoopback()
	}
	return strings.EqualFold(host, "localhost")
}

func (c *Config) validateAuth() error {
	var errs []error
	if (c.Username == nil) != (c.Password == nil) {
		errs = append(errs, errors.New("username, password: both must be given, or neither"))
	}
	if c.Username != nil {
		errs = append(errs, c.Username.Validate("username"))
	}
	if c.Password != nil {
		errs = append(errs, c.Password.Validate("password"))
	}
	switch c.Auth {
	case "", authPlain, authLogin:
	default:
		errs = append(errs, fmt.Errorf("auth %q: it must be plain or login", c.Auth))
	}
	return errors.Join(errs...)
}

func validateHello(name string) error {
	if strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("hello %q: it must be the name of this machine, in ASCII", name)
	}
	return nil
}

func validateSender(field, text string, required bool) error {
	if text == "" {
		if required {
			return fmt.Errorf("%s: it must be given, as name@example.com", field)
		}
		return nil
	}
	if _, err := parseSender(text); err != nil {
		return fmt.Errorf("%s %q: %w", field, text, err)
	}
	return nil
}

// parseSender reads an address of our own, with or without a name.
func parseSender(text string) (*mail.Address, error) {
	parsed, err := mail.ParseAddress(text)
	if err != nil {
		return nil, errors.New("it must be a mail address, such as name@example.com or Name <name@example.com>")
	}
	addr, err := parseAddress(parsed.Address)
	if err != nil {
		return nil, err
	}
	if addr.utf8 {
		return nil, errors.New("the part before the @ must be ASCII")
	}
	return &mail.Address{Name: parsed.Name, Address: addr.String()}, nil
}

func validateHeaders(headers map[string]string) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value := headers[name]
		switch {
		case !validHeaderName(name):
			errs = append(errs, fmt.Errorf("headers %q: it must be the name of a header", name))
		case slices.Contains(reservedHeaders, textproto.CanonicalMIMEHeaderKey(name)):
			errs = append(errs, fmt.Errorf("headers.%s: Duly sets this header itself", name))
		case value == "" || strings.ContainsFunc(value, unicode.IsControl):
			errs = append(errs, fmt.Errorf("headers.%s %q: it must be one line of printable text", name, value))
		}
	}
	return errors.Join(errs...)
}

func validHeaderName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == ':' })
}

func (c *Config) validatePool() error {
	var errs []error
	if c.Sessions < 0 {
		errs = append(errs, fmt.Errorf("sessions %d: it must be a number above 0", c.Sessions))
	}
	if c.Idle < 0 {
		errs = append(errs, fmt.Errorf("idle %s: it must be a duration above 0", c.Idle))
	}
	return errors.Join(errs...)
}

func (c *Config) host() string {
	host, _, _ := net.SplitHostPort(c.Server)
	return host
}

func (c *Config) sessions() int {
	if c.Sessions == 0 {
		return DefaultSessions
	}
	return c.Sessions
}

func (c *Config) idle() time.Duration {
	if c.Idle == 0 {
		return DefaultIdle
	}
	return c.Idle
}

func (c *Config) hello() string {
	if c.Hello != "" {
		return c.Hello
	}
	if name, err := os.Hostname(); err == nil && name != "" && validateHello(name) == nil {
		return name
	}
	return "localhost"
}

// secured makes what sessions are secured with; nil where they are not.
func (c *Config) secured() (*tls.Config, error) {
	if c.TLS == TLSNone {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.host()}
	if c.CAFile == "" {
		return cfg, nil
	}
	pem, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("ca_file: %w", err)
	}
	cfg.RootCAs = x509.NewCertPool()
	if !cfg.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("ca_file %q: it holds no PEM certificate", c.CAFile)
	}
	return cfg, nil
}
