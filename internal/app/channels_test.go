package app

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAMailKindTellsAllItsMistakesWithTheirLines(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		`duly.yaml:4: kinds.a.smtp: username, password: both must be given, or neither`,
		`duly.yaml:4: kinds.a.smtp.password: it must name where the secret is: {file: PATH} or {env: NAME}`,
		`duly.yaml:5: kinds.a.smtp.server: "mail": it must be host:port, such as mail.example.com:587`,
		`duly.yaml:6: kinds.a.smtp.from: "nobody": it must be a mail address, such as name@example.com or Name <name@example.com>`,
		`duly.yaml:10: kinds.b.smtp: a kind with channel smtp must say here which server takes its mail, and what the mail says`,
	}, problems(t, `kinds:
  a:
    channel: smtp
    smtp: {password: {},
      server: mail,
      from: nobody,
      subject: S,
      text: T,
      tls: starttls}
  b: {channel: smtp}
`))
}

func TestAWindowOfAMailServerIsDoubted(t *testing.T) {
	t.Parallel()
	c := parse(t, `kinds: {a: {channel: smtp, promises: {window: 1d}, smtp: {server: "localhost:25", tls: none, from: a@example.com, subject: S, text: T}}}`)
	require.Len(t, c.Warnings(), 1)
	require.Contains(t, c.Warnings()[0], "mail servers do not dedupe")
}

const threeKinds = `kinds:
  hook: {channel: http}
  mail: {channel: smtp, smtp: {server: "localhost:25", tls: none, from: a@example.com, subject: S, text: T}}
  mine: {channel: go}
`

func TestEveryKindThatDulyPerformsGetsItsChannel(t *testing.T) {
	t.Parallel()
	stack := NewStack(quiet())
	channels, err := parse(t, threeKinds).OpenChannels(stack)
	require.NoError(t, err)
	require.Len(t, channels, 2)
	require.Equal(t, ChannelHTTP, channels["hook"].Name())
	require.Equal(t, ChannelSMTP, channels["mail"].Name())
	require.NoError(t, stack.Stop(t.Context()))
}

func TestDoorsCheckDestinationsByKind(t *testing.T) {
	t.Parallel()
	checkers, err := parse(t, threeKinds).Checkers()
	require.NoError(t, err)
	require.Len(t, checkers, 2)
	require.Nil(t, checkers["hook"].Check("https://example.com/hook", []byte("{}")))
	require.NotNil(t, checkers["hook"].Check("http://127.0.0.1/", []byte("{}")))
	require.Nil(t, checkers["mail"].Check("a@example.com", []byte("{}")))
	require.NotNil(t, checkers["mail"].Check("a@", []byte("{}")))
}

func TestAChannelWhoseSecretIsMissingCannotBeOpened(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "secret")
	c := parse(t, "kinds: {hook: {channel: http, http: {signing_secret: {file: "+missing+"}}}}")
	stack := NewStack(quiet())
	_, err := c.OpenChannels(stack)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "kind hook: http.signing_secret")
	require.Equal(t, ExitUsage, ExitCode(err))
	require.NoError(t, stack.Stop(t.Context()))
}
