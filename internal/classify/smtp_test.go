package classify_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/classify"
	"duly.dev/duly/pkg/job"
)

var stages = []classify.Stage{
	classify.StageSession, classify.StageTLS, classify.StageAuth,
	classify.StageMail, classify.StageRcpt, classify.StageData, classify.StageDot,
}

func TestSMTPRepliesHaveTheVerdictOfTheDesign(t *testing.T) {
	t.Parallel()
	table := classify.DefaultSMTP()
	for _, c := range []struct {
		stage classify.Stage
		line  string
		want  classify.Verdict
	}{
		{classify.StageDot, "250 2.0.0 Ok: queued as 4F2", delivered},
		{classify.StageDot, "250", delivered},
		{classify.StageDot, "251 will forward", delivered},
		{classify.StageDot, "354 go on", unknown(job.CodeUnexpectedAnswer)},
		{classify.StageDot, "451 4.4.2 timeout", transient(job.CodeReceiverBusy)},
		{classify.StageDot, "554 5.7.1 spam", permanent(job.CodeRejected)},
		{classify.StageDot, "550 no such user", permanent(job.CodeRejected)},
		{classify.StageDot, "550 5.1.1 no such user", permanent(job.CodeDestinationInvalid)},

		{classify.StageRcpt, "250 ok", classify.Verdict{Certainty: job.OutcomeFailed, Class: job.ClassUnclassified, Code: job.CodeUnexpectedAnswer}},
		{classify.StageRcpt, "550 5.1.1 unknown", permanent(job.CodeDestinationInvalid)},
		{classify.StageRcpt, "550 unknown", permanent(job.CodeDestinationInvalid)},
		{classify.StageRcpt, "551 not local", permanent(job.CodeDestinationInvalid)},
		{classify.StageRcpt, "553 5.1.3 bad syntax", permanent(job.CodeDestinationInvalid)},
		{classify.StageRcpt, "553 mailbox name", permanent(job.CodeDestinationInvalid)},
		{classify.StageRcpt, "550 5.2.1 disabled", permanent(job.CodeDestinationInvalid)},
		{classify.StageRcpt, "550 5.1.8 sender's domain", permanent(job.CodeRejected)},
		{classify.StageRcpt, "550 5.7.1 relaying denied", permanent(job.CodeRejected)},
		{classify.StageRcpt, "552 5.2.2 mailbox full", permanent(job.CodeRejected)},
		{classify.StageRcpt, "552 mailbox full", permanent(job.CodeRejected)},
		{classify.StageRcpt, "554 no", permanent(job.CodeRejected)},
		{classify.StageRcpt, "450 4.2.0 try again", transient(job.CodeGreylisted)},
		{classify.StageRcpt, "450 4.7.1 try again", transient(job.CodeGreylisted)},
		{classify.StageRcpt, "451 4.7.1 try again", transient(job.CodeGreylisted)},
		{classify.StageRcpt, "451 you are Greylisted", transient(job.CodeGreylisted)},
		{classify.StageRcpt, "450 mailbox busy", transient(job.CodeReceiverBusy)},
		{classify.StageRcpt, "452 4.3.1 storage", transient(job.CodeReceiverBusy)},
		{classify.StageRcpt, "452 4.5.3 too many recipients", transient(job.CodeThrottled)},
		{classify.StageRcpt, "421 4.3.2 shutting down", transient(job.CodeReceiverBusy)},
		{classify.StageRcpt, "550 4.7.1 contradicts itself", permanent(job.CodeDestinationInvalid)},

		{classify.StageMail, "550 5.1.1 who", permanent(job.CodeDestinationInvalid)},
		{classify.StageMail, "550 no", permanent(job.CodeRejected)},
		{classify.StageMail, "454 Throttling failure: Maximum sending rate exceeded", transient(job.CodeThrottled)},
		{classify.StageMail, "421 4.7.28 unusual rate", transient(job.CodeThrottled)},
		{classify.StageMail, "530 5.7.0 Must issue a STARTTLS command first", transient(job.CodeTLS)},
		{classify.StageMail, "530 5.7.1 authenticate first", transient(job.CodeUnauthorized)},
		{classify.StageData, "503 no recipients", permanent(job.CodeRejected)},
		{classify.StageData, "250 odd", classify.Verdict{Certainty: job.OutcomeFailed, Class: job.ClassUnclassified, Code: job.CodeUnexpectedAnswer}},

		{classify.StageAuth, "535 5.7.8 bad credentials", transient(job.CodeUnauthorized)},
		{classify.StageAuth, "504 5.7.4 mechanism", transient(job.CodeUnauthorized)},
		{classify.StageAuth, "454 4.7.0 temporary failure", transient(job.CodeReceiverBusy)},
		{classify.StageTLS, "454 TLS not available", transient(job.CodeTLS)},
		{classify.StageTLS, "502 not implemented", transient(job.CodeTLS)},
		{classify.StageSession, "554 no SMTP service here", transient(job.CodeUnreachable)},
		{classify.StageSession, "421 too many connections", transient(job.CodeThrottled)},
		{classify.StageSession, "421 closing", transient(job.CodeReceiverBusy)},
	} {
		code, _, text, err := classify.ParseReplyLine(c.line)
		require.NoError(t, err, c.line)
		require.Equal(t, c.want, table.Classify(c.stage, classify.NewReply(code, []string{text})), "%s to %s", c.line, c.stage)
	}
}

// The protocol's word: 4xx and 5xx prove that nothing happened, to any command; only
// a 2xx to the final dot is a delivery; only what else comes to the dot is unknown.
func TestSMTPCertaintyFollowsTheProtocolForEveryCodeAndStage(t *testing.T) {
	t.Parallel()
	table := classify.DefaultSMTP()
	for _, stage := range stages {
		for code := 200; code <= 599; code++ {
			v := table.Classify(stage, classify.Reply{Code: code})
			requireWellFormed(t, v)
			want := job.OutcomeFailed
			switch {
			case stage == classify.StageDot && code < 300:
				want = job.OutcomeDelivered
			case stage == classify.StageDot && code < 400:
				want = job.OutcomeUnknown
			}
			require.Equal(t, want, v.Certainty, "%d to %s", code, stage)
			if code >= 400 && code < 500 {
				require.Equal(t, job.ClassTransient, v.Class, "%d to %s", code, stage)
			}
		}
	}
}

// A mistaken password must not quarantine anybody's job.
func TestWhatIsWrongWithOurOwnSessionIsNeverPermanent(t *testing.T) {
	t.Parallel()
	table := classify.DefaultSMTP()
	for _, stage := range []classify.Stage{classify.StageSession, classify.StageTLS, classify.StageAuth} {
		for code := 400; code <= 599; code++ {
			require.Equal(t, job.ClassTransient, table.Classify(stage, classify.Reply{Code: code}).Class, "%d to %s", code, stage)
		}
	}
	for _, stage := range stages {
		for _, code := range []int{530, 534, 535, 538} {
			require.Equal(t, job.ClassTransient, table.Classify(stage, classify.Reply{Code: code}).Class, "%d to %s", code, stage)
		}
	}
}

func TestStagesNameTheCommandThatWasRepliedTo(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range stages {
		require.False(t, seen[s.String()])
		seen[s.String()] = true
	}
	require.True(t, seen["final dot"])
	require.Equal(t, "unknown stage", classify.Stage(0).String())
}

func TestReplyLinesAreReadStrictly(t *testing.T) {
	t.Parallel()
	code, more, text, err := classify.ParseReplyLine("250-SIZE 1000")
	require.NoError(t, err)
	require.Equal(t, 250, code)
	require.True(t, more)
	require.Equal(t, "SIZE 1000", text)

	code, more, text, err = classify.ParseReplyLine("250")
	require.NoError(t, err)
	require.Equal(t, 250, code)
	require.False(t, more)
	require.Empty(t, text)

	for _, line := range []string{"", "25", "2x0 ok", "250ok", "150 ok", "650 ok", "HTTP/1.1 400 Bad Request", "999 x", "\x00\x01\x02\x03"} {
		_, _, _, err := classify.ParseReplyLine(line)
		require.ErrorIs(t, err, classify.ErrReply, "%q", line)
	}
}

func TestEnhancedCodesAreTakenOutOfEveryLine(t *testing.T) {
	t.Parallel()
	r := classify.NewReply(550, []string{"5.1.1 no such", "5.1.1 user  here", "sorry"})
	require.Equal(t, "5.1.1", r.Enhanced)
	require.Equal(t, "no such\nuser  here\nsorry", r.Text)
	require.Equal(t, "550 5.1.1 no such user here sorry", r.String())
	require.Equal(t, "550 5.1.1", r.Status())

	for _, line := range []string{"4.1.1 x", "5.1 x", "5.1.1.1 x", "5.1234.1 x", "5..1 x", "5.a.1 x", "no 5.1.1"} {
		require.Empty(t, classify.NewReply(550, []string{line}).Enhanced, line)
	}
	require.Equal(t, "250", classify.NewReply(250, nil).Status())
}

func FuzzSMTPReply(f *testing.F) {
	for _, seed := range []string{
		"250 2.0.0 Ok", "451 4.7.1 greylisted", "550-5.1.1 no\n550 5.1.1 user", "354 go", "garbage", "", "421", "5.1.1", "555 5.1.99999 x",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		var code int
		var lines []string
		for line := range strings.SplitSeq(raw, "\n") {
			c, _, text, err := classify.ParseReplyLine(line)
			if err != nil {
				return
			}
			code, lines = c, append(lines, text)
		}
		reply := classify.NewReply(code, lines)
		for _, stage := range stages {
			v := classify.DefaultSMTP().Classify(stage, reply)
			requireWellFormed(t, v)
			if v.Certainty == job.OutcomeDelivered && (stage != classify.StageDot || code/100 != 2) {
				t.Fatalf("%q to %s is no delivery", raw, stage)
			}
		}
	})
}
