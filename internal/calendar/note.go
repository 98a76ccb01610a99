package calendar

import (
	"fmt"
	"strings"
	"time"
)

// Note says in words what is unusual about an occurrence; "" is nothing.
func (s *Schedule) Note(o Occurrence) string {
	var notes []string
	clock := o.Wall.wall.Format("15:04")
	switch {
	case o.Skip == SkipGap:
		notes = append(notes, fmt.Sprintf("skipped (gap): the clocks leave %s out", clock))
	case o.Fit == Skipped && s.gap == GapShift:
		notes = append(notes, fmt.Sprintf("gap: the clocks leave %s out; put off by the jump", clock))
	case o.Fit == Skipped:
		notes = append(notes, fmt.Sprintf("gap: the clocks leave %s out; the first valid instant", clock))
	case o.Second:
		notes = append(notes, fmt.Sprintf("overlap: the second %s", clock))
	case o.Fit == Repeated:
		notes = append(notes, fmt.Sprintf("overlap: the first of two %s", clock))
	}
	switch {
	case o.Skip == SkipDay:
		notes = append(notes, fmt.Sprintf("skipped (no business day): %s", o.Closed))
	case o.Moved():
		notes = append(notes, fmt.Sprintf("moved from %s: %s", dayText(o.Named), o.Closed))
	}
	if o.Skip == SkipMerged {
		notes = append(notes, "skipped (merged): another fires at this instant")
	}
	return strings.Join(notes, "; ")
}

// dayText is a date with its day of the week.
func dayText(d Date) string { return d.midnight().Format("Mon 2006-01-02") }

// Note says in words how the clocks of a zone jump.
func (j Jump) Note(z *Zone) string {
	by, way := j.Forward(), "forward"
	if by < 0 {
		by, way = -by, "back"
	}
	return fmt.Sprintf("the clocks of %s go %s by %s, to %s", z.Name(), way, shortDuration(by), j.At.In(z.Location()).Format("Mon 2006-01-02 15:04 -0700"))
}

// shortDuration leaves out what is zero.
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
