package smtpchan

import (
	"errors"
	"net/mail"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/net/idna"

	"duly.dev/duly/pkg/job"
)

const (
	// maxAddress and maxLocal are the longest address and the longest part before
	// the @, in bytes (RFC 5321, 4.5.3.1, and RFC 3696, erratum 1690).
	maxAddress, maxLocal = 254, 64
)

// address is one mail address, its domain in ASCII.
type address struct {
	local, domain string
	// utf8 is true where the part before the @ is not ASCII, so that only servers
	// with SMTPUTF8 can take it.
	utf8 bool
}

// String is the address as it goes on the wire.
func (a address) String() string { return a.local + "@" + a.domain }

// forgotten is a result without the address, which servers like to repeat in their
// replies: what is kept of a reply is shown to more people than a destination is.
func (a address) forgotten(r job.Result) job.Result {
	r.Detail = a.cutFrom(r.Detail)
	if r.Receipt != nil {
		r.Receipt.ID = a.cutFrom(r.Receipt.ID)
	}
	return r
}

func (a address) cutFrom(text string) string {
	if !strings.Contains(text, "@") {
		return text
	}
	anywhere := regexp.MustCompile("(?i)" + regexp.QuoteMeta(a.String()))
	return anywhere.ReplaceAllLiteralString(text, "(the recipient)")
}

// parseAddress reads one bare address. Names, comments, lists, quoted local parts
// and literal IP addresses are refused; domains of other scripts are taken in their
// ASCII form.
func parseAddress(text string) (address, error) {
	parsed, err := mail.ParseAddress(text)
	if err != nil || parsed.Address != text {
		return address{}, errors.New("it must be one mail address, such as name@example.com")
	}
	at := strings.LastIndexByte(text, '@')
	a := address{local: text[:at]}
	a.utf8 = strings.ContainsFunc(a.local, func(r rune) bool { return r > '~' })
	if a.domain, err = idna.Lookup.ToASCII(text[at+1:]); err != nil || a.domain == "" {
		return address{}, errors.New("the part after the @ must be the name of a domain")
	}
	if len(a.local) > maxLocal {
		return address{}, errors.New("the part before the @ is longer than " + strconv.Itoa(maxLocal) + " bytes")
	}
	if len(a.String()) > maxAddress {
		return address{}, errors.New("it is longer than " + strconv.Itoa(maxAddress) + " bytes")
	}
	return a, nil
}

// Checker checks destinations for doors, which need neither secrets nor sessions.
type Checker struct{}

// Check refuses a destination that is not exactly one bare mail address. Whether a
// payload has what the templates ask for is decided when the mail is made.
func (Checker) Check(destination string, _ []byte) *job.Refusal {
	if destination == "" {
		return job.Refuse("destination", "", job.RuleRequired, "a mail address")
	}
	if _, err := parseAddress(destination); err != nil {
		return job.Refuse("destination", destination, job.RuleDestination, err.Error())
	}
	return nil
}
