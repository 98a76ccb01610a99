package httpchan_test

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/channel/httpchan"
	"duly.dev/duly/pkg/job"
)

func TestAddressesThatAreNotPublicAreRefusedEarly(t *testing.T) {
	t.Parallel()
	c, err := httpchan.NewChecker(httpchan.Config{})
	require.NoError(t, err)
	for _, host := range []string{
		"127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
		"169.254.169.254", "100.64.0.1", "100.127.255.255", "192.0.0.8", "192.0.2.1", "198.18.0.1", "198.19.255.255",
		"198.51.100.1", "203.0.113.9", "192.88.99.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
		"[::]", "[::1]", "[fe80::1]", "[fe80::1%25eth0]", "[fec0::1]", "[fc00::1]", "[fd12:3456::1]", "[ff02::1]",
		"[::ffff:127.0.0.1]", "[::ffff:10.0.0.1]", "[::ffff:a9fe:a9fe]", "[::127.0.0.1]",
		"[64:ff9b::127.0.0.1]", "[64:ff9b::a00:1]", "[64:ff9b:1::808:808]", "[100::1]", "[2001:db8::1]", "[2001::1]",
		"[2002:7f00:1::]", "[3fff::1]", "[4000::1]",
	} {
		r := c.Check("http://"+host+":8080/x", nil)
		require.NotNil(t, r, host)
		require.Equal(t, job.RuleDestination, r.Rule, host)
		require.Contains(t, r.More, "is not public", host)
	}
	for _, host := range []string{
		"8.8.8.8", "100.128.0.1", "172.32.0.1", "192.0.1.1", "198.20.0.1", "223.255.255.255", "[2606:4700::1111]",
		"[::ffff:8.8.8.8]", "[64:ff9b::808:808]", "example.com", "localhost", "bücher.example", "xn--bcher-kva.example",
	} {
		require.Nil(t, c.Check("https://"+host+"/x", nil), host)
	}
}

func TestAllowedNetworksLiftTheRefusal(t *testing.T) {
	t.Parallel()
	c, err := httpchan.NewChecker(httpchan.Config{AllowNetworks: []string{"10.1.0.0/16", "fd00:1::/32"}})
	require.NoError(t, err)
	for host, ok := range map[string]bool{
		"10.1.2.3": true, "[::ffff:10.1.2.3]": true, "10.2.0.1": false, "[fd00:1::5]": true, "[fd00:2::5]": false, "8.8.8.8": true,
	} {
		require.Equal(t, ok, c.Check("http://"+host, nil) == nil, host)
	}
}

func TestANameThatResolvesToAPrivateAddressIsRefusedWhenItIsDialled(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	s := serve(t, func(http.ResponseWriter, *http.Request) { requests.Add(1) })
	u, err := url.Parse(s.URL)
	require.NoError(t, err)
	c := newChannel(t, httpchan.Config{}, 0)
	for _, dest := range []string{"http://localhost:" + u.Port(), "https://localhost:" + u.Port()} {
		require.Nil(t, c.Check(dest, nil), "a name is not resolved by a door")
		var n begun
		r := deliver(t, c, effect(dest, &n))
		require.Equal(t, job.OutcomeFailed, r.Outcome)
		require.Equal(t, job.ClassPermanent, r.Class)
		require.Equal(t, job.CodeDestinationForbidden, r.Code)
		require.Zero(t, n.Load())
	}
	require.Zero(t, requests.Load())
}

func TestADestinationThatADoorLetThroughIsCheckedAgain(t *testing.T) {
	t.Parallel()
	c := newChannel(t, httpchan.Config{}, 0)
	for dest, code := range map[string]job.Code{
		"http://127.0.0.1/": job.CodeDestinationForbidden,
		"ftp://example.com": job.CodeDestinationInvalid,
		"":                  job.CodeDestinationInvalid,
	} {
		var n begun
		r := deliver(t, c, effect(dest, &n))
		require.Equal(t, job.ClassPermanent, r.Class)
		require.Equal(t, code, r.Code, dest)
		require.Zero(t, n.Load())
	}
}

func TestDestinationsThatAreNotURLsAreRefusedNamingTheRule(t *testing.T) {
	t.Parallel()
	c, err := httpchan.NewChecker(httpchan.Config{})
	require.NoError(t, err)
	for dest, want := range map[string]string{
		"":                                 "an http or https URL",
		"example.com/hook":                 "must begin with http",
		"ftp://example.com":                "must begin with http",
		"mailto:a@example.com":             "must begin with http",
		"http://":                          "no host",
		"http:///path":                     "no host",
		"http://example.com:0/":            "port must be",
		"http://example.com:65536/":        "port must be",
		"http://example.com/#frag":         "fragment",
		"http://example.com/#":             "fragment",
		"http://exa mple.com/":             "not a URL",
		"http://[::1/":                     "not a URL",
		"http://-bad-.example/":            "not a name or an address",
		"http://user:hunter2@example.com/": "must not carry a user",
		"https://example.com/" + strings.Repeat("a", job.MaxDestination): "at most 2048 bytes",
	} {
		r := c.Check(dest, nil)
		require.NotNil(t, r, dest)
		require.Equal(t, "destination", r.Field)
		require.Contains(t, r.Error(), want, dest)
		require.NotContains(t, r.Error(), "hunter2")
	}
}

func discard() *log.Logger { return log.New(io.Discard, "", 0) }

// certificateFile writes the certificate of a test server as a CA file.
func certificateFile(t testing.TB, s *httptest.Server) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	require.NoError(t, os.WriteFile(path, block, 0o600))
	return path
}
