package httpchan

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"duly.dev/duly/internal/channel/secret"
)

// DefaultMaxResponse is how much of a response is read unless configured
// otherwise, in bytes.
const DefaultMaxResponse = 64 << 10

// Config is the `http` section of a kind's channel.
type Config struct {
	// Method is the request's method: POST (default), PUT or PATCH.
	Method string `yaml:"method"`
	// Headers are sent with every request. Those that Duly sets itself and those
	// that hold credentials are refused; the latter belong into secret_headers.
	// Content-Type (default application/json) and User-Agent (default Duly) may be
	// replaced.
	Headers map[string]string `yaml:"headers"`
	// SecretHeaders are sent with every request; each value is read from a file or
	// an environment variable when the process starts, for example
	// `Authorization: {env: RECEIVER_AUTHORIZATION}`.
	SecretHeaders map[string]*secret.Ref `yaml:"secret_headers"`
	// SigningSecret signs every request as Standard Webhooks has it (webhook-id,
	// webhook-timestamp, webhook-signature). The secret is 24 to 64 bytes in base64,
	// with or without "whsec_" before it. Default: requests are not signed.
	SigningSecret *secret.Ref `yaml:"signing_secret"`
	// ReceiptHeader names the response header that holds the receiver's own id of
	// the effect; it is kept as the receipt's id. Default: none is kept.
	ReceiptHeader string `yaml:"receipt_header"`
	// AllowNetworks are networks ("10.1.0.0/16", "fd00:1::/64") whose addresses may
	// be dialled although they are not public. Default: none. Everybody who may
	// choose a destination can reach what is listed here.
	AllowNetworks []string `yaml:"allow_networks"`
	// MaxResponse is how much of a response's body is read, in bytes; default 64 KiB.
	// A longer one changes no outcome, but its connection is not used again.
	MaxResponse int `yaml:"max_response"`
	// TLS is about https destinations.
	TLS TLSConfig `yaml:"tls"`
}

// TLSConfig says how connections are secured.
type TLSConfig struct {
	// CAFile is a file of PEM certificates that are trusted in place of the system's.
	// Default: the system's.
	CAFile string `yaml:"ca_file"`
	// MinVersion is the lowest version of TLS: "1.2" (default) or "1.3".
	MinVersion string `yaml:"min_version"`
}

// reservedHeaders are set by the channel or by the protocol.
var reservedHeaders = []string{
	"Idempotency-Key", "X-Idempotency-Key", "Duly-Kind", "Duly-Attempt", "Traceparent",
	"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature",
	"Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Upgrade", "Expect", "Te", "Trailer",
	"Accept-Encoding",
}

// secretHeaders hold credentials by their nature.
var secretHeaders = []string{
	"Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key", "Api-Key", "X-Auth-Token", "X-Access-Token",
}

// Validate returns every mistake of the configuration, joined, each naming its
// field. It reads no file and no secret.
func (c *Config) Validate() error {
	_, networks := parseNetworks(c.AllowNetworks)
	errs := []error{c.validateMethod(), c.validateReceiptHeader(), networks, c.validateTLS()}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		errs = append(errs, validateHeader(name, c.Headers[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(c.SecretHeaders)) {
		errs = append(errs, c.validateSecretHeader(name))
	}
	if c.SigningSecret != nil {
		errs = append(errs, c.SigningSecret.Validate("signing_secret"))
	}
	if c.MaxResponse < 0 {
		errs = append(errs, fmt.Errorf("max_response %d: it must be a number of bytes above 0", c.MaxResponse))
	}
	return errors.Join(errs...)
}

func (c *Config) validateMethod() error {
	switch c.Method {
	case "", http.MethodPost, http.MethodPut, http.MethodPatch:
		return nil
	}
	return fmt.Errorf("method %q: it must be POST, PUT or PATCH", c.Method)
}

func (c *Config) validateReceiptHeader() error {
	if c.ReceiptHeader != "" && !httpguts.ValidHeaderFieldName(c.ReceiptHeader) {
		return fmt.Errorf("receipt_header %q: it must be the name of a header", c.ReceiptHeader)
	}
	return nil
}

func (c *Config) validateTLS() error {
	switch c.TLS.MinVersion {
	case "", "1.2", "1.3":
		return nil
	}
	return fmt.Errorf("tls.min_version %q: it must be \"1.2\" or \"1.3\"", c.TLS.MinVersion)
}

func validateHeader(name, value string) error {
	if err := validateHeaderName("headers", name); err != nil {
		return err
	}
	if slices.Contains(secretHeaders, http.CanonicalHeaderKey(name)) {
		return fmt.Errorf("headers.%s: it holds a credential; put it into secret_headers, as {file: PATH} or {env: NAME}", name)
	}
	if !httpguts.ValidHeaderFieldValue(value) {
		return fmt.Errorf("headers.%s %q: it must be one line of printable text", name, value)
	}
	return nil
}

func (c *Config) validateSecretHeader(name string) error {
	if err := validateHeaderName("secret_headers", name); err != nil {
		return err
	}
	for other := range c.Headers {
		if strings.EqualFold(other, name) {
			return fmt.Errorf("secret_headers.%s: it is among headers too", name)
		}
	}
	ref := c.SecretHeaders[name]
	if ref == nil {
		ref = &secret.Ref{}
	}
	return ref.Validate("secret_headers." + name)
}

func validateHeaderName(field, name string) error {
	if !httpguts.ValidHeaderFieldName(name) {
		return fmt.Errorf("%s %q: it must be the name of a header", field, name)
	}
	if slices.Contains(reservedHeaders, http.CanonicalHeaderKey(name)) {
		return fmt.Errorf("%s.%s: Duly sets this header itself", field, name)
	}
	return nil
}

func parseNetworks(texts []string) ([]netip.Prefix, error) {
	var networks []netip.Prefix
	var errs []error
	for i, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("allow_networks[%d] %q: it must be a network such as 10.1.0.0/16", i, text))
			continue
		}
		networks = append(networks, p.Masked())
	}
	return networks, errors.Join(errs...)
}

func (c *Config) method() string {
	if c.Method == "" {
		return http.MethodPost
	}
	return c.Method
}

func (c *Config) maxResponse() int64 {
	if c.MaxResponse == 0 {
		return DefaultMaxResponse
	}
	return int64(c.MaxResponse)
}

// load makes what connections are secured with. Only HTTP/1.1 is offered.
func (t *TLSConfig) load() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if t.MinVersion == "1.3" {
		cfg.MinVersion = tls.VersionTLS13
	}
	if t.CAFile == "" {
		return cfg, nil
	}
	pem, err := os.ReadFile(t.CAFile)
	if err != nil {
		return nil, fmt.Errorf("tls.ca_file: %w", err)
	}
	cfg.RootCAs = x509.NewCertPool()
	if !cfg.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("tls.ca_file %q: it holds no PEM certificate", t.CAFile)
	}
	return cfg, nil
}
