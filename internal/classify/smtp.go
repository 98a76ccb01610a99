package classify

import (
	"strings"

	"duly.dev/duly/pkg/job"
)

// Stage is how far an SMTP session was when the server replied.
type Stage uint8

// The stages of a session, in their order.
const (
	// StageSession is the greeting, EHLO and RSET: nothing of a job was said yet.
	StageSession Stage = 1 << iota
	// StageTLS is STARTTLS.
	StageTLS
	// StageAuth is AUTH.
	StageAuth
	// StageMail is MAIL FROM.
	StageMail
	// StageRcpt is RCPT TO.
	StageRcpt
	// StageData is the DATA command, before any content.
	StageData
	// StageDot is the final dot: a positive reply is the delivery.
	StageDot
)

const (
	ownStages     = StageSession | StageTLS | StageAuth
	messageStages = StageMail | StageRcpt | StageData | StageDot
	anyStage      = ownStages | messageStages
)

// String names the command that was replied to, for details.
func (s Stage) String() string {
	switch s {
	case StageSession:
		return "greeting"
	case StageTLS:
		return "STARTTLS"
	case StageAuth:
		return "AUTH"
	case StageMail:
		return "MAIL"
	case StageRcpt:
		return "RCPT"
	case StageData:
		return "DATA"
	case StageDot:
		return "final dot"
	case ownStages, messageStages, anyStage:
	}
	return "unknown stage"
}

// SMTPRule gives one verdict to the replies that match all of its conditions.
type SMTPRule struct {
	// Stages are the stages that it is about, or-ed.
	Stages Stage
	// From and To are an inclusive range of reply codes.
	From, To int
	// Enhanced are prefixes of enhanced codes ("5.1.", "4.7.1"), one of which must
	// match whole parts; empty matches any reply, also one without.
	Enhanced []string
	// Words are lower-case words, one of which the text must contain; empty matches
	// any text.
	Words   []string
	Verdict Verdict
}

// SMTPTable is an ordered list of rules; the first that matches decides.
type SMTPTable []SMTPRule

// DefaultSMTP is the table that the package's documentation explains.
func DefaultSMTP() SMTPTable {
	return SMTPTable{
		// Accepted: responsibility has passed to the server.
		{Stages: StageDot, From: 200, To: 299, Verdict: happened()},

		// Our own session, the same for every job.
		{Stages: anyStage, From: 530, To: 530, Words: []string{"starttls"}, Verdict: later(job.CodeTLS)},
		{Stages: anyStage, From: 530, To: 530, Verdict: later(job.CodeUnauthorized)},
		{Stages: anyStage, From: 534, To: 535, Verdict: later(job.CodeUnauthorized)},
		{Stages: anyStage, From: 538, To: 538, Verdict: later(job.CodeUnauthorized)},
		{Stages: StageTLS, From: 400, To: 599, Verdict: later(job.CodeTLS)},
		{Stages: StageAuth, From: 500, To: 599, Verdict: later(job.CodeUnauthorized)},
		{Stages: StageSession, From: 500, To: 599, Verdict: later(job.CodeUnreachable)},

		// Refused for now.
		{Stages: messageStages, From: 400, To: 499, Words: []string{"greylist", "graylist", "grey list", "gray list"}, Verdict: later(job.CodeGreylisted)},
		{Stages: messageStages, From: 450, To: 451, Enhanced: []string{"4.7.1", "4.2.0"}, Verdict: later(job.CodeGreylisted)},
		{Stages: messageStages, From: 454, To: 454, Verdict: later(job.CodeThrottled)},
		{Stages: anyStage, From: 400, To: 499, Enhanced: []string{"4.7.28"}, Verdict: later(job.CodeThrottled)},
		{Stages: anyStage, From: 400, To: 499, Words: []string{"throttl", "rate limit", "too many"}, Verdict: later(job.CodeThrottled)},
		{Stages: anyStage, From: 400, To: 499, Verdict: later(job.CodeReceiverBusy)},

		// Refused for good. 5.1.7 and 5.1.8 are about the sender's address.
		{Stages: messageStages, From: 500, To: 599, Enhanced: []string{"5.1.7", "5.1.8"}, Verdict: never(job.CodeRejected)},
		{Stages: messageStages, From: 500, To: 599, Enhanced: []string{"5.1.", "5.2.1"}, Verdict: never(job.CodeDestinationInvalid)},
		{Stages: messageStages, From: 500, To: 599, Enhanced: []string{"5."}, Verdict: never(job.CodeRejected)},
		{Stages: StageRcpt, From: 550, To: 551, Verdict: never(job.CodeDestinationInvalid)},
		{Stages: StageRcpt, From: 553, To: 553, Verdict: never(job.CodeDestinationInvalid)},
		{Stages: messageStages, From: 500, To: 599, Verdict: never(job.CodeRejected)},
	}
}

// Classify returns the verdict about a reply to a command of the stage, for replies
// that are not the one that the command waits for. What no rule covers may have
// happened after the final dot; before it nothing did, and nobody knows whether
// another try helps.
func (t SMTPTable) Classify(stage Stage, reply Reply) Verdict {
	for _, r := range t {
		if r.matches(stage, reply) {
			return r.Verdict
		}
	}
	if stage == StageDot {
		return mayHaveHappened(job.CodeUnexpectedAnswer)
	}
	return Verdict{Certainty: job.OutcomeFailed, Class: job.ClassUnclassified, Code: job.CodeUnexpectedAnswer}
}

func (r SMTPRule) matches(stage Stage, reply Reply) bool {
	if r.Stages&stage == 0 || reply.Code < r.From || reply.Code > r.To {
		return false
	}
	return r.matchesEnhanced(reply.Enhanced) && r.matchesText(reply.Text)
}

func (r SMTPRule) matchesEnhanced(code string) bool {
	if len(r.Enhanced) == 0 {
		return true
	}
	for _, want := range r.Enhanced {
		if code == want || strings.HasSuffix(want, ".") && strings.HasPrefix(code, want) {
			return true
		}
	}
	return false
}

func (r SMTPRule) matchesText(text string) bool {
	if len(r.Words) == 0 {
		return true
	}
	text = strings.ToLower(text)
	for _, w := range r.Words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}
