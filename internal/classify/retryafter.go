package classify

import (
	"strconv"
	"strings"
	"time"
)

// MaxRetryAfter is the longest wait that RetryAfter returns: 250 years, which is
// beyond every deadline that a job may have and far from overflowing when it is
// added to an instant. Longer ones are shortened to it.
const MaxRetryAfter = 250 * 365 * 24 * time.Hour

// maxSkew is how far a receiver's Date may be from our clock for its dates to be
// believed.
const maxSkew = 24 * time.Hour

// RetryAfter reads a Retry-After header: a number of seconds, or a date in any of
// the three forms of RFC 9110 (IMF-fixdate, RFC 850, asctime). date is the Date
// header of the same answer, empty if there was none; now is our own clock.
//
// A date is a point on the receiver's clock, so it is measured against the
// receiver's own Date: a clock that is ten minutes off then costs nothing. Without
// a Date that can be read, our clock stands in. A Date that is more than a day
// off shows a clock that is not to be believed at all, and the date says nothing.
//
// ok is false where nothing usable was said. A moment that has passed is a wait of
// zero: the sender's own delay applies.
func RetryAfter(value, date string, now time.Time) (wait time.Duration, ok bool) {
	value = strings.TrimSpace(value)
	if value == "" {
		return 0, false
	}
	if digits(value) {
		return seconds(value), true
	}
	at, ok := httpDate(value, now)
	if !ok {
		return 0, false
	}
	base := now
	if sent, ok := httpDate(strings.TrimSpace(date), now); ok {
		if sent.Sub(now).Abs() > maxSkew {
			return 0, false
		}
		base = sent
	}
	return min(max(at.Sub(base), 0), MaxRetryAfter), true
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// seconds reads a number of any length; one that does not fit is only very long.
func seconds(s string) time.Duration {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n > int64(MaxRetryAfter/time.Second) {
		return MaxRetryAfter
	}
	return time.Duration(n) * time.Second
}

// httpDate reads the three forms; the latter two are obsolete but must be accepted.
func httpDate(s string, now time.Time) (time.Time, bool) {
	if t, err := time.Parse("Mon, 02 Jan 2006 15:04:05 GMT", s); err == nil {
		return t, true
	}
	if t, err := time.Parse("Monday, 02-Jan-06 15:04:05 GMT", s); err == nil {
		return century(t, now), true
	}
	if t, err := time.Parse(time.ANSIC, s); err == nil {
		return t, true
	}
	return time.Time{}, false
}

// century resolves a year of two digits as RFC 9110 wants it: the one that is not
// more than 50 years in the future.
func century(t, now time.Time) time.Time {
	year := now.UTC().Year()/100*100 + t.Year()%100
	switch {
	case year > now.UTC().Year()+50:
		year -= 100
	case year <= now.UTC().Year()-50:
		year += 100
	}
	return time.Date(year, t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}
