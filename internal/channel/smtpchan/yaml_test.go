package smtpchan_test

import (
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/channel/smtpchan"
)

func TestAConfigurationIsWrittenInYAML(t *testing.T) {
	t.Parallel()
	const text = `
server: mail.example.com:587
username: {env: SMTP_USERNAME}
password: {file: /run/secrets/smtp-password}
from: Renewals <no-reply@example.com>
headers:
  List-Unsubscribe: <https://example.com/u>
idle: 20s
sessions: 4
subject: Your {{.Payload.plan}} plan ends
text: |
  Dear {{.Payload.name}},
html: |
  <p>Dear {{.Payload.name}},</p>
`
	var cfg smtpchan.Config
	require.NoError(t, yaml.UnmarshalWithOptions([]byte(text), &cfg, yaml.Strict()))
	require.NoError(t, cfg.Validate())
	require.Equal(t, 20*time.Second, cfg.Idle)
	require.Equal(t, "SMTP_USERNAME", cfg.Username.Env)
	require.Equal(t, "Dear {{.Payload.name}},\n", cfg.Text)
	require.Error(t, yaml.UnmarshalWithOptions([]byte("servr: x"), &cfg, yaml.Strict()))
}
