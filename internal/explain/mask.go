package explain

import (
	"net/url"
	"strings"
	"unicode/utf8"
)

// Mask hides what is private of a destination and leaves what a person needs to see
// which receiver it is about: the domain of a mail address, scheme and host of a URL,
// the first letter of anything else.
func Mask(destination string) string {
	if destination == "" {
		return ""
	}
	if u, err := url.Parse(destination); err == nil && u.Scheme != "" && u.Host != "" {
		return u.Scheme + "://" + u.Host + "/…"
	}
	_, size := utf8.DecodeRuneInString(destination)
	if at := strings.LastIndexByte(destination, '@'); at > 0 {
		return destination[:size] + "…" + destination[at:]
	}
	return destination[:size] + "…"
}
