package smtpchan_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/channel/smtpchan"
	"duly.dev/duly/pkg/job"
)

func TestOnlyOneBareAddressIsADestination(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		"ada@customer.example", "a.b+tag@x.example", "o'brien@x.example", "ada@localhost", "jörg@customer.example",
		"ada@bücher.example", strings.Repeat("a", 64) + "@x.example",
	} {
		require.Nil(t, smtpchan.Checker{}.Check(good, nil), good)
	}
	for bad, want := range map[string]string{
		"":                                     "a mail address",
		"ada":                                  "one mail address",
		"@customer.example":                    "one mail address",
		"ada@":                                 "one mail address",
		"Ada <ada@customer.example>":           "one mail address",
		"<ada@customer.example>":               "one mail address",
		"ada@a.example, bob@b.example":         "one mail address",
		"\"ada lovelace\"@customer.example":    "one mail address",
		"ada@a.example\r\nRCPT TO:<x@y>":       "one mail address",
		"ada@a.example> SIZE=1":                "one mail address",
		"ada..b@a.example":                     "one mail address",
		"ada@[127.0.0.1]":                      "name of a domain",
		"ada@-bad-.example":                    "name of a domain",
		"ada@a..example":                       "one mail address",
		strings.Repeat("a", 65) + "@x.example": "longer than 64",
		"a@" + strings.Repeat(strings.Repeat("b", 60)+".", 5) + "example": "longer than 254",
	} {
		r := smtpchan.Checker{}.Check(bad, nil)
		require.NotNil(t, r, bad)
		require.Equal(t, "destination", r.Field)
		require.Contains(t, r.Error(), want, bad)
	}
}

func TestADestinationThatADoorLetThroughIsCheckedAgain(t *testing.T) {
	t.Parallel()
	s := &script{}
	e := effect(new(begun))
	e.Destination = "ada@a.example\r\nRCPT TO:<eve@example.com>"
	r := deliver(t, newChannel(t, config(s.start(t))), e)
	require.Equal(t, failed(job.ClassPermanent, job.CodeDestinationInvalid), verdict(r))
	sessions, _ := s.seen()
	require.Zero(t, sessions)
}

func TestADomainOfAnotherScriptGoesOutInASCII(t *testing.T) {
	t.Parallel()
	e := effect(new(begun))
	e.Destination = "ada@bücher.example"
	require.Equal(t, "<ada@xn--bcher-kva.example>", sent(t, nil, e).Header.Get("To"))
}

func TestAnAddressThatIsNotASCIINeedsAServerWithSMTPUTF8(t *testing.T) {
	t.Parallel()
	e := effect(new(begun))
	e.Destination = "jörg@bücher.example"
	require.Equal(t, "<jörg@xn--bcher-kva.example>", sent(t, nil, e).Header.Get("To"))

	s := &script{ehlo: []string{"8BITMIME"}}
	c := newChannel(t, config(s.start(t)))
	var n begun
	e = effect(&n)
	e.Destination = "jörg@bücher.example"
	r := deliver(t, c, e)
	require.Equal(t, failed(job.ClassPermanent, job.CodeDestinationInvalid), verdict(r))
	require.Contains(t, r.Detail, "SMTPUTF8")
	require.Zero(t, n.Load())

	require.Equal(t, job.OutcomeDelivered, deliver(t, c, effect(new(begun))).Outcome)
	sessions, _ := s.seen()
	require.Equal(t, 1, sessions, "the session is as good as before")
}

func TestAMailThatIsTooLargeForTheServerIsRefused(t *testing.T) {
	t.Parallel()
	s := &script{ehlo: []string{"SIZE 100"}}
	r := deliver(t, newChannel(t, config(s.start(t))), effect(new(begun)))
	require.Equal(t, failed(job.ClassPermanent, job.CodeRejected), verdict(r))
	require.Zero(t, s.count("MAIL"))
}
