package httpchan_test

import (
	"encoding/base64"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/channel/httpchan"
	"duly.dev/duly/internal/channel/secret"
)

func TestTheZeroConfigurationIsValid(t *testing.T) {
	t.Parallel()
	require.NoError(t, (&httpchan.Config{}).Validate())
	require.Equal(t, "http", newChannel(t, httpchan.Config{}, 0).Name())
}

func TestEveryMistakeIsReportedAtOnceNamingItsField(t *testing.T) {
	t.Parallel()
	cfg := httpchan.Config{
		Method:        "GET",
		Headers:       map[string]string{"Authorization": "Bearer hunter2", "X A": "1", "X-B": "a\r\nX-Evil: 1", "host": "x", "idempotency-key": "k", "X-Both": "1"},
		SecretHeaders: map[string]*secret.Ref{"X-Secret": {}, "X-None": nil, "webhook-id": {Env: "A"}, "x-both": {Env: "A"}, "b c": {Env: "A"}},
		SigningSecret: &secret.Ref{File: "a", Env: "b"},
		ReceiptHeader: "not a header",
		AllowNetworks: []string{"10.0.0.0/8", "10.0.0.1", "nonsense"},
		MaxResponse:   -1,
		TLS:           httpchan.TLSConfig{MinVersion: "1.1"},
	}
	err := cfg.Validate()
	require.Error(t, err)
	for _, want := range []string{
		`method "GET"`, "headers.Authorization: it holds a credential", `headers "X A"`, "headers.X-B", "headers.host: Duly sets",
		"headers.idempotency-key", "secret_headers.X-Secret", "secret_headers.X-None", "secret_headers.webhook-id",
		"secret_headers.x-both: it is among headers too", `secret_headers "b c"`, "signing_secret: it must have a file or an env, not both",
		"receipt_header", `allow_networks[1] "10.0.0.1"`, `allow_networks[2] "nonsense"`, "max_response -1", `tls.min_version "1.1"`,
	} {
		require.ErrorContains(t, err, want)
	}
	require.NotContains(t, err.Error(), "hunter2")

	_, err = httpchan.New(cfg, 0)
	require.Error(t, err)
}

func TestNewNamesTheSecretOrFileThatIsWrong(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	for want, cfg := range map[string]httpchan.Config{
		"secret_headers.X-K": {SecretHeaders: map[string]*secret.Ref{"X-K": {File: missing}}},
		"not one line":       {SecretHeaders: map[string]*secret.Ref{"X-K": file(t, "hunter2\nX-Evil: 1")}},
		"signing_secret":     {SigningSecret: &secret.Ref{File: missing}},
		"is not base64":      {SigningSecret: file(t, "hunter2!")},
		"24 to 64 bytes":     {SigningSecret: file(t, base64.StdEncoding.EncodeToString([]byte("hunter2")))},
		"tls.ca_file":        {TLS: httpchan.TLSConfig{CAFile: missing}},
		"no PEM certificate": {TLS: httpchan.TLSConfig{CAFile: file(t, "hunter2").File}},
	} {
		_, err := httpchan.New(cfg, 0)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "hunter2")
	}
	_, err := httpchan.NewChecker(httpchan.Config{AllowNetworks: []string{"x"}})
	require.ErrorContains(t, err, "allow_networks[0]")
}
