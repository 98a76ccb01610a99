package demo

import (
	"bytes"
	"regexp"
	"strings"
	"time"

	"duly.dev/duly/internal/calendar"
)

// The addresses that stand in the example files for the demo's own receivers.
const (
	exampleMail  = "127.0.0.1:2525"
	exampleHooks = "127.0.0.1:8025"
)

// Columns of examples/renewals.csv whose fields hold no comma and no quote.
const (
	fieldDue      = 5
	fieldDeadline = 6
	fieldZone     = 7
	plainFields   = 8
)

var offset = regexp.MustCompile(`^[+-][0-9]+(ms|s|m|h)$`)

// render writes the example file as it would be if it had been written at the start:
// times that are offsets from the start become times, and the receiver's address that
// it has at present takes the place of the one in the file. Everything else, also what
// is wrong, stays byte by byte.
func render(file []byte, start time.Time, hooks string) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(file) {
		fields := strings.SplitN(string(line), ",", plainFields+1)
		if len(fields) > fieldZone {
			zone := strings.TrimRight(fields[fieldZone], "\n")
			fields[fieldDue] = renderTime(fields[fieldDue], zone, start)
			fields[fieldDeadline] = renderTime(fields[fieldDeadline], zone, start)
		}
		out.WriteString(strings.Replace(strings.Join(fields, ","), exampleHooks, hooks, 1))
	}
	return out.Bytes()
}

// renderTime makes an offset the local time of the row's zone, or, where that would
// not be one instant or there is no zone, a time with an offset.
func renderTime(text, zone string, start time.Time) string {
	if !offset.MatchString(text) {
		return text
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return text
	}
	at := start.Add(d).Truncate(time.Millisecond).UTC()
	z, err := calendar.LoadZone(zone)
	if err != nil {
		return at.Format(time.RFC3339Nano)
	}
	local := calendar.LocalAt(at, z)
	if back, fit := local.In(z); fit != calendar.Once || !back.Equal(at) {
		return at.In(z.Location()).Format(time.RFC3339Nano)
	}
	return local.String()
}

// renderConfig puts the mail server's present address into the example configuration.
func renderConfig(file []byte, mail string) []byte {
	return bytes.Replace(file, []byte(exampleMail), []byte(mail), 1)
}

// rowsOf counts the rows of the rendered example, which has a header and one row a line.
func rowsOf(file []byte) int { return bytes.Count(file, []byte("\n")) - 1 }
