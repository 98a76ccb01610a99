package smtpchan_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/channel/secret"
	"duly.dev/duly/internal/channel/smtpchan"
)

func TestAMinimalConfigurationIsValid(t *testing.T) {
	t.Parallel()
	cfg := smtpchan.Config{Server: "mail.example.com:587", From: "a@example.com", Subject: "s", HTML: "<p>h</p>"}
	require.NoError(t, cfg.Validate())
	require.Equal(t, "smtp", newChannel(t, cfg).Name())
}

func TestEveryMistakeIsReportedAtOnceNamingItsField(t *testing.T) {
	t.Parallel()
	cfg := smtpchan.Config{
		Server: "mail.example.com", TLS: "ssl", Hello: "two words",
		From: "nobody", ReplyTo: "jörg@example.com", ReturnPath: "a@-x-",
		Username: &secret.Ref{}, Auth: "cram-md5",
		Headers: map[string]string{"Bcc": "eve@example.com", "X Y": "1", "X-Z": "a\r\nBcc: b", "X-Empty": ""},
		Subject: "{{.Payload.plan", Text: "{{.Deadlin}}", HTML: `<a href="{{if .Key}}"{{end}}>`,
		Sessions: -1, Idle: -time.Second,
	}
	err := cfg.Validate()
	require.Error(t, err)
	for _, want := range []string{
		`server "mail.example.com"`, `tls "ssl"`, `hello "two words"`, `from "nobody"`, `reply_to "jörg@example.com"`, `return_path "a@-x-"`,
		"username, password: both", "username: it must name", `auth "cram-md5"`, "headers.Bcc: Duly sets", `headers "X Y"`, "headers.X-Z", "headers.X-Empty",
		"subject: template", "text: template", "Deadlin", "html: html/template", "sessions -1", "idle -1s",
	} {
		require.ErrorContains(t, err, want)
	}
	_, err = smtpchan.New(cfg)
	require.Error(t, err)

	err = (&smtpchan.Config{Username: &secret.Ref{Env: "A"}, Password: &secret.Ref{}, HTML: "{{.Nothing}}"}).Validate()
	for _, want := range []string{"server: it must be given", "from: it must be given", "subject: it must be given", "password: it must name", "html: "} {
		require.ErrorContains(t, err, want)
	}
	require.ErrorContains(t, (&smtpchan.Config{HTML: "{{"}).Validate(), "html: template")
	require.ErrorContains(t, (&smtpchan.Config{}).Validate(), "text, html: at least one")
}

func TestSendingInTheClearIsAllowedOnlyToThisMachine(t *testing.T) {
	t.Parallel()
	for server, ok := range map[string]bool{
		"localhost:25": true, "LOCALHOST:25": true, "127.0.0.2:25": true, "[::1]:25": true, "[::ffff:127.0.0.1]:25": true,
		"mail.example.com:25": false, "10.0.0.1:25": false, "localhost.example.com:25": false,
	} {
		cfg := config(server)
		if ok {
			require.NoError(t, cfg.Validate(), server)
			continue
		}
		require.ErrorContains(t, cfg.Validate(), `tls "none"`, server)
		cfg.Insecure = true
		require.NoError(t, cfg.Validate(), server)
	}
}

func TestServersNeedAHostAndAPort(t *testing.T) {
	t.Parallel()
	for _, server := range []string{":25", "mail:0", "mail:65536", "mail:smtp", "mail", "a:b:c"} {
		cfg := config("127.0.0.1:25")
		cfg.Server, cfg.TLS = server, smtpchan.TLSStart
		require.ErrorContains(t, cfg.Validate(), "server", server)
	}
}

func TestNewNamesTheSecretOrFileThatIsWrong(t *testing.T) {
	t.Parallel()
	missing := &secret.Ref{File: filepath.Join(t.TempDir(), "missing")}
	for want, change := range map[string]func(*smtpchan.Config){
		"username: ":         func(c *smtpchan.Config) { c.Username, c.Password = missing, file(t, "hunter2") },
		"password: ":         func(c *smtpchan.Config) { c.Username, c.Password = file(t, "u"), missing },
		"NUL":                func(c *smtpchan.Config) { c.Username, c.Password = file(t, "u"), file(t, "hunter2\x00") },
		"ca_file: ":          func(c *smtpchan.Config) { c.TLS, c.CAFile = smtpchan.TLSStart, missing.File },
		"no PEM certificate": func(c *smtpchan.Config) { c.TLS, c.CAFile = smtpchan.TLSImplicit, file(t, "hunter2").File },
	} {
		cfg := config("127.0.0.1:25")
		change(&cfg)
		_, err := smtpchan.New(cfg)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "hunter2")
	}
}
