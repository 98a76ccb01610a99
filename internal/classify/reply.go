package classify

import (
	"errors"
	"strconv"
	"strings"
)

// Reply is one reply of an SMTP server.
type Reply struct {
	// Code is the three-digit reply code, 200 to 599.
	Code int
	// Enhanced is the enhanced status code ("4.7.1"), empty where there is none or
	// where its first digit contradicts Code.
	Enhanced string
	// Text is the rest of all lines, joined by newlines, without the enhanced code.
	Text string
}

// ErrReply is returned for what is not an SMTP reply.
var ErrReply = errors.New("not an SMTP reply")

// ParseReplyLine reads one line of a reply, its line end removed: three digits,
// then '-' where more lines follow, or a space or nothing on the last one.
func ParseReplyLine(line string) (code int, more bool, text string, err error) {
	if len(line) < 3 || !digits(line[:3]) || line[0] < '2' || line[0] > '5' {
		return 0, false, "", ErrReply
	}
	code = int(line[0]-'0')*100 + int(line[1]-'0')*10 + int(line[2]-'0')
	switch {
	case len(line) == 3:
		return code, false, "", nil
	case line[3] == ' ':
		return code, false, line[4:], nil
	case line[3] == '-':
		return code, true, line[4:], nil
	}
	return 0, false, "", ErrReply
}

// NewReply makes a reply of a code and the texts of its lines. Each line may carry
// the same enhanced code (RFC 2034); it is kept once and removed from the text.
func NewReply(code int, lines []string) Reply {
	r := Reply{Code: code}
	if len(lines) > 0 {
		r.Enhanced = enhanced(code, lines[0])
	}
	texts := make([]string, len(lines))
	for i, l := range lines {
		texts[i] = strings.TrimSpace(l)
		if r.Enhanced != "" && enhanced(code, l) == r.Enhanced {
			texts[i] = strings.TrimSpace(strings.TrimPrefix(texts[i], r.Enhanced))
		}
	}
	r.Text = strings.Join(texts, "\n")
	return r
}

// String is the reply on one line, as a receipt and a person want it.
func (r Reply) String() string {
	return strings.Join(strings.Fields(strconv.Itoa(r.Code)+" "+r.Enhanced+" "+r.Text), " ")
}

// Status is the reply code with its enhanced code, such as "250 2.0.0".
func (r Reply) Status() string {
	return strings.TrimSpace(strconv.Itoa(r.Code) + " " + r.Enhanced)
}

// enhanced returns the enhanced code that a line begins with, if its first digit
// agrees with the reply's.
func enhanced(code int, line string) string {
	word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
	parts := strings.Split(word, ".")
	if len(parts) != 3 || parts[0] != strconv.Itoa(code/100) {
		return ""
	}
	for _, p := range parts[1:] {
		if p == "" || len(p) > 3 || !digits(p) {
			return ""
		}
	}
	return word
}
