package httpchan_test

import (
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/channel/httpchan"
)

func TestAConfigurationIsWrittenInYAML(t *testing.T) {
	t.Parallel()
	const text = `
method: PUT
headers:
  X-Team: billing
secret_headers:
  Authorization: {env: RECEIVER_AUTHORIZATION}
signing_secret: {file: /run/secrets/signing}
receipt_header: X-Request-Id
allow_networks: [10.1.0.0/16]
max_response: 1024
tls:
  ca_file: /etc/duly/ca.pem
  min_version: "1.3"
`
	var cfg httpchan.Config
	require.NoError(t, yaml.UnmarshalWithOptions([]byte(text), &cfg, yaml.Strict()))
	require.NoError(t, cfg.Validate())
	require.Equal(t, "RECEIVER_AUTHORIZATION", cfg.SecretHeaders["Authorization"].Env)
	require.Equal(t, "/run/secrets/signing", cfg.SigningSecret.File)
	require.Equal(t, "1.3", cfg.TLS.MinVersion)

	err := yaml.UnmarshalWithOptions([]byte("signing_secret: whsec_hunter2"), &cfg, yaml.Strict())
	require.Error(t, err, "the configuration cannot hold a secret")
}
