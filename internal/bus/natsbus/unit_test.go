package natsbus

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"duly.dev/duly/internal/bus"
)

func TestOldServersAreRefused(t *testing.T) {
	t.Parallel()
	for version, ok := range map[string]bool{
		"2.12.5": true, "2.12.6": true, "2.13.0": true, "2.15.2-binary": true, "3.0.0": true, "2.14.0-RC.1": true,
		"2.12.4": false, "2.12.4-RC.9": false, "2.11.99": false, "1.4.1": false, "2.9": false,
	} {
		err := checkServer(version)
		if ok {
			require.NoError(t, err, version)
			continue
		}
		require.ErrorIs(t, err, bus.ErrUnsafe, version)
		require.ErrorContains(t, err, version)
	}
	require.Error(t, checkServer("unknown"))
}

func TestNames(t *testing.T) {
	t.Parallel()
	work, err := workTopic("acme.duly", "mail")
	require.NoError(t, err)
	require.Equal(t, "acme_duly_work_mail", work.stream)
	require.Equal(t, []string{"acme.duly.work.mail", "acme.duly.retry.mail.*"}, work.subjects)
	require.Equal(t, "acme.duly.retry.mail.abc_-9", work.scheduleSubject("abc_-9"))
	for _, id := range []string{"", "a.b", "a b", "*", ">", strings.Repeat("x", 65), "é"} {
		subject := work.scheduleSubject(id)
		require.Regexp(t, `^acme\.duly\.retry\.mail\.[A-Za-z0-9_-]{24}$`, subject)
		require.Equal(t, subject, work.scheduleSubject(id), "a true copy waits on the same subject")
	}
	created := time.Unix(1_790_000_000, 123)
	require.NotEqual(t, consumerName(created, 0), consumerName(created.Add(time.Nanosecond), 0))
	require.NotEqual(t, consumerName(created, 0), consumerName(created, 7))
}

func TestHeadersKeepEveryValue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := bus.Message{
			Type:        bus.TypeWork,
			ID:          rapid.StringN(1, -1, bus.MaxID).Draw(t, "id"),
			Lane:        rapid.StringMatching(`[a-z0-9-]{1,64}`).Draw(t, "lane"),
			Kind:        rapid.String().Draw(t, "kind"),
			TraceParent: rapid.String().Draw(t, "traceparent"),
			Body:        []byte(rapid.String().Draw(t, "body")),
		}
		if rapid.Bool().Draw(t, "delayed") {
			m.At = time.Unix(rapid.Int64Range(1, 7_000_000_000).Draw(t, "at"), 7).UTC()
		}
		header := encodeHeader(m, "duly", "unused")
		for name, values := range header {
			require.Len(t, values, 1)
			for _, c := range []byte(values[0]) {
				require.True(t, c > ' ' && c < 0x7f, "header %s has byte %x", name, c)
			}
		}
		require.Equal(t, m, decodeMessage(&nats.Msg{Header: header, Data: m.Body}))
	})
}

func FuzzDecodeValue(f *testing.F) {
	for _, s := range []string{"", "plain", "%C3%A9", "%", "%zz", "a%20b", "\x00", "a+b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		require.Equal(t, s, decodeValue(encodeValue(s)))
		decodeValue(s) // anything at all
	})
}

func TestSignsOfLifeFollowTheShortestWait(t *testing.T) {
	t.Parallel()
	k := newKeeper(nil, 30*time.Second)
	k.atMost(time.Minute)
	require.Empty(t, k.changed)
	k.atMost(20 * time.Second)
	k.atMost(4 * time.Second)
	require.Equal(t, time.Second, <-k.changed, "only the last counts")
}
