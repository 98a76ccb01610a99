package demo

import (
	"net/url"
	"strings"
	"time"

	"github.com/emersion/go-smtp"

	"duly.dev/duly/pkg/job"
)

// always is a number of tries that no job makes.
const always = 1 << 30

// behaviour is what a receiver does with what is sent to one place, and how the jobs
// that go there must end.
type behaviour struct {
	// where is the mail domain, or the first part of the URL's path.
	where string
	// does says it in words.
	does string
	// ends is the state that the ledger must come to.
	ends job.State
	// why explains an end that is not delivered, or one that took more than a try.
	why string
}

// mailBehaviour is the mail server's plan for a domain.
type mailBehaviour struct {
	behaviour
	// tries is how many tries, from the first of each recipient, what follows is about.
	tries int
	// refuse answers the recipient, refuseDot the content.
	refuse, refuseDot *smtp.SMTPError
	// unplug closes the session before it takes any content.
	unplug bool
	// hangUp accepts the mail and closes the session without saying so; drops does not accept
	// it and says as little.
	hangUp, drops bool
	// silent: the server's log does not say whether it accepted the mail.
	silent bool
	// delay comes before the answer to the content.
	delay time.Duration
}

func refusal(code int, enhanced smtp.EnhancedCode, text string) *smtp.SMTPError {
	return &smtp.SMTPError{Code: code, EnhancedCode: enhanced, Message: text}
}

// typo is a domain that was meant to be correct: the demonstration corrects one.
const (
	typo    = "exmaple.com"
	correct = "example.com"
)

// mailPlan is the mail server's plan; domains that it does not name accept.
var mailPlan = []mailBehaviour{
	{behaviour: behaviour{"greylisting.example", "greylists the first try", job.Delivered, "tried again"}, tries: 1, refuse: refusal(451, smtp.EnhancedCode{4, 7, 1}, "Greylisted, try again later")},
	{behaviour: behaviour{"busy.example", "is busy twice", job.Delivered, "tried again"}, tries: 2, refuse: refusal(452, smtp.EnhancedCode{4, 3, 1}, "Insufficient system storage")},
	{behaviour: behaviour{"unplugged.example", "hangs up before the content", job.Delivered, "nothing was sent: tried again"}, tries: 2, unplug: true},
	{behaviour: behaviour{"slow.example", "takes a second", job.Delivered, ""}, tries: always, delay: time.Second},
	{behaviour: behaviour{typo, "does not know the domain", job.Quarantined, "permanent: the address is wrong"}, tries: always, refuse: refusal(550, smtp.EnhancedCode{5, 1, 2}, "No such domain")},
	{behaviour: behaviour{"moved-away.example", "does not know the user", job.Quarantined, "permanent: the address is wrong"}, tries: always, refuse: refusal(550, smtp.EnhancedCode{5, 1, 1}, "No such user here")},
	{behaviour: behaviour{"mailbox-full.example", "has a full mailbox", job.Quarantined, "permanent"}, tries: always, refuse: refusal(552, smtp.EnhancedCode{5, 2, 2}, "Mailbox full")},
	{behaviour: behaviour{"spam-filter.example", "rejects the content", job.Quarantined, "permanent"}, tries: always, refuseDot: refusal(554, smtp.EnhancedCode{5, 7, 1}, "Message rejected as spam")},
	{behaviour: behaviour{"down.example", "is down for good", job.Quarantined, "its attempts are used up"}, tries: always, refuse: refusal(451, smtp.EnhancedCode{4, 3, 2}, "System not accepting messages")},
	{behaviour: behaviour{"hangs-up.example", "accepts, then hangs up", job.Unknown, "it may have happened: never sent twice, a person decides"}, tries: always, hangUp: true},
}

var mailAccepts = mailBehaviour{behaviour: behaviour{does: "accepts", ends: job.Delivered}}

// mailAt is the plan for an address.
func mailAt(address string) mailBehaviour {
	domain := strings.ToLower(address[strings.LastIndexByte(address, '@')+1:])
	for _, b := range mailPlan {
		if b.where == domain {
			return b
		}
	}
	return mailAccepts
}

// hookBehaviour is the plan of the receiver of webhooks for a path.
type hookBehaviour struct {
	behaviour
	// tries is how many requests, from the first of each key, what follows is about.
	tries int
	// acts: it does what it is asked for before it misbehaves.
	acts bool
	// status is the answer; 0 hangs up without one.
	status int
	// retryAfter is sent with the answer where it is not empty.
	retryAfter string
	// delay comes before the answer.
	delay time.Duration
}

// hookPlan is the receiver's plan; paths that it does not name accept.
var hookPlan = []hookBehaviour{
	{behaviour: behaviour{"throttled", "asks to wait a second (429)", job.Delivered, "tried again when it allows"}, tries: 1, status: 429, retryAfter: "1"},
	{behaviour: behaviour{"overloaded", "answers 503 twice", job.Delivered, "it may have happened: repeated under the same key"}, tries: 2, status: 503},
	{behaviour: behaviour{"slow", "takes a second", job.Delivered, ""}, tries: always, acts: true, status: 200, delay: time.Second},
	{behaviour: behaviour{"late", "acts, answers too late", job.Delivered, "repeated under the same key, which it had kept"}, tries: 1, acts: true, status: 200, delay: 4 * time.Second},
	{behaviour: behaviour{"hangs-up", "acts, then hangs up", job.Delivered, "repeated under the same key, which it had kept"}, tries: 1, acts: true},
	{behaviour: behaviour{"acts-then-fails", "acts, then answers 503", job.Delivered, "repeated under the same key, which it had kept"}, tries: 1, acts: true, status: 503},
	{behaviour: behaviour{"rejects", "rejects the content (422)", job.Quarantined, "permanent"}, tries: always, status: 422},
	{behaviour: behaviour{"gone", "is gone for good (410)", job.Quarantined, "permanent"}, tries: always, status: 410},
	{behaviour: behaviour{"closed", "is closed past the deadline (429)", job.Quarantined, "it would begin after its deadline"}, tries: always, status: 429, retryAfter: "3600"},
}

var hookAccepts = hookBehaviour{behaviour: behaviour{does: "accepts", ends: job.Delivered}, tries: 0}

// hookAt is the plan for the path of a URL.
func hookAt(path string) hookBehaviour {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	for _, b := range hookPlan {
		if b.where == first {
			return b
		}
	}
	return hookAccepts
}

// planned is the plan for a destination, and its place in the order of the table.
func planned(destination string) (receiver string, b behaviour, order int) {
	if u, err := url.Parse(destination); err == nil && u.Host != "" {
		b := hookAt(u.Path).behaviour
		return webhook, b, 100 + placeOf(hookPlan, b)
	}
	b = mailAt(destination).behaviour
	return mail, b, placeOf(mailPlan, b)
}

// The receivers, as they are shown.
const (
	mail    = "mail"
	webhook = "webhook"
)

// placeOf is a behaviour's place in its plan, from 1; what accepts comes first.
func placeOf[B interface{ place() string }](plan []B, b behaviour) int {
	for i, one := range plan {
		if one.place() == b.where {
			return i + 1
		}
	}
	return 0
}

func (b behaviour) place() string { return b.where }
