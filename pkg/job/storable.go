package job

import (
	"strings"
	"unicode/utf8"
)

// Storable makes text that came from outside fit to be stored, logged and shown:
// invalid UTF-8 and NUL become U+FFFD, other control characters a space, and the
// text is cut to max bytes at a rune's border.
func Storable(s string, max int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(r rune) rune {
		switch {
		case r == 0:
			return utf8.RuneError
		case r < 0x20 || r == 0x7f:
			return ' '
		}
		return r
	}, s)
	if len(s) <= max {
		return s
	}
	cut := max
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}

// Storable returns the result with every text that came from outside made
// storable.
func (r Result) Storable() Result {
	r.Detail = Storable(r.Detail, MaxDetail)
	r.Code = Code(Storable(string(r.Code), 64))
	if r.Receipt != nil {
		c := *r.Receipt
		c.ID, c.Status, c.To = Storable(c.ID, MaxDetail), Storable(c.Status, MaxDetail), Storable(c.To, MaxDestination)
		r.Receipt = &c
	}
	return r
}
