package classify_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"duly.dev/duly/internal/classify"
)

var now = time.Date(2026, 9, 30, 15, 0, 0, 0, time.UTC)

func TestRetryAfterReadsSecondsOfAnyLength(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{
		"0":                       0,
		"1":                       time.Second,
		" 120 ":                   2 * time.Minute,
		"007":                     7 * time.Second,
		"9999999999":              classify.MaxRetryAfter,
		strings.Repeat("9", 20):   classify.MaxRetryAfter,
		strings.Repeat("9", 2000): classify.MaxRetryAfter,
		"7883999999":              7883999999 * time.Second,
	} {
		wait, ok := classify.RetryAfter(value, "", now)
		require.True(t, ok, value)
		require.Equal(t, want, wait, value)
	}
}

func TestRetryAfterReadsAllThreeDateForms(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		"Wed, 30 Sep 2026 15:02:00 GMT",
		"Wednesday, 30-Sep-26 15:02:00 GMT",
		"Wed Sep 30 15:02:00 2026",
	} {
		wait, ok := classify.RetryAfter(value, "", now)
		require.True(t, ok, value)
		require.Equal(t, 2*time.Minute, wait, value)
	}
	wait, ok := classify.RetryAfter("Fri Oct  2 15:00:00 2026", "", now)
	require.True(t, ok)
	require.Equal(t, 48*time.Hour, wait)
}

func TestRetryAfterDatesAreMeasuredOnTheReceiversClock(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{-10 * time.Minute, 10 * time.Minute, -23 * time.Hour, 23 * time.Hour} {
		receiver := now.Add(skew)
		wait, ok := classify.RetryAfter(
			receiver.Add(90*time.Second).Format(http.TimeFormat), receiver.Format(http.TimeFormat), now)
		require.True(t, ok)
		require.Equal(t, 90*time.Second, wait, "skew %s", skew)
	}
}

func TestAClockThatIsMoreThanADayOffSaysNothing(t *testing.T) {
	t.Parallel()
	receiver := now.AddDate(1, 0, 0)
	_, ok := classify.RetryAfter(receiver.Add(time.Minute).Format(http.TimeFormat), receiver.Format(http.TimeFormat), now)
	require.False(t, ok)

	wait, ok := classify.RetryAfter("60", receiver.Format(http.TimeFormat), now)
	require.True(t, ok, "seconds need no clock")
	require.Equal(t, time.Minute, wait)
}

func TestADateThatCannotBeReadLeavesOurClock(t *testing.T) {
	t.Parallel()
	wait, ok := classify.RetryAfter("Wed, 30 Sep 2026 15:02:00 GMT", "yesterday", now)
	require.True(t, ok)
	require.Equal(t, 2*time.Minute, wait)
}

func TestAMomentThatHasPassedIsAWaitOfZero(t *testing.T) {
	t.Parallel()
	wait, ok := classify.RetryAfter("Wed, 30 Sep 2020 15:02:00 GMT", "", now)
	require.True(t, ok)
	require.Zero(t, wait)
}

func TestYearsOfTwoDigitsAreNeverFarInTheFuture(t *testing.T) {
	t.Parallel()
	wait, ok := classify.RetryAfter("Tuesday, 30-Sep-70 15:00:00 GMT", "", now)
	require.True(t, ok)
	require.Equal(t, time.Date(2070, 9, 30, 15, 0, 0, 0, time.UTC).Sub(now), wait, "44 years ahead is allowed")

	wait, ok = classify.RetryAfter("Friday, 30-Sep-94 15:00:00 GMT", "", now)
	require.True(t, ok)
	require.Zero(t, wait, "1994, not 2094")
}

func TestRetryAfterRefusesWhatIsNeither(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		"", "  ", "-1", "+5", "1.5", "5s", "soon", "1e3", "0x10", "2026-09-30T15:02:00Z", "Wed, 30 Sep 2026 15:02:00 CET",
		"Wed, 31 Sep 2026 15:02:00 GMT", "١٢", "1 2",
	} {
		_, ok := classify.RetryAfter(value, "", now)
		require.False(t, ok, "%q", value)
	}
}

func TestRetryAfterIsAlwaysBetweenZeroAndTheMaximum(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(-62135596800, 253402300799).Draw(t, "at"), 0).UTC()
		form := rapid.SampledFrom([]string{http.TimeFormat, "Monday, 02-Jan-06 15:04:05 GMT", time.ANSIC}).Draw(t, "form")
		wait, ok := classify.RetryAfter(at.Format(form), "", now)
		require.True(t, ok)
		require.GreaterOrEqual(t, wait, time.Duration(0))
		require.LessOrEqual(t, wait, classify.MaxRetryAfter)
		require.False(t, now.Add(wait).Before(now), "adding it to an instant must not overflow")
	})
}

func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{
		"120", "99999999999999999999", "Wed, 30 Sep 2026 15:02:00 GMT", "Wednesday, 30-Sep-26 15:02:00 GMT",
		"Wed Sep 30 15:02:00 2026", "-1", "", "Wed, 30 Sep 0000 15:02:00 GMT", "Wed, 31 Dec 9999 23:59:59 GMT",
	} {
		f.Add(seed, "Wed, 30 Sep 2026 15:00:00 GMT")
		f.Add(seed, "")
	}
	f.Fuzz(func(t *testing.T, value, date string) {
		wait, ok := classify.RetryAfter(value, date, now)
		if wait < 0 || wait > classify.MaxRetryAfter || (!ok && wait != 0) {
			t.Fatalf("RetryAfter(%q, %q) = %v, %v", value, date, wait, ok)
		}
	})
}
