package job_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/pkg/job"
)

var now = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

func good() job.Spec {
	return job.Spec{
		Kind: "renewal-reminder", Key: "renewal:2026-09:customer-1842", Subject: "customer-1842", Period: "2026-09",
		Destination: "ann@example.com", Payload: []byte(`{"name":"Ann"}`),
		Due: now.Add(time.Hour), Deadline: now.Add(2 * time.Hour), DeadlineZone: "Europe/Paris", DeadlineLocal: "2026-09-01T16:00:00",
	}
}

func limits() job.Limits {
	return job.Limits{
		KnownKind: func(kind string) bool { return kind == "renewal-reminder" },
		KnownZone: func(zone string) bool { return zone == "Europe/Paris" },
	}
}

func TestGoodSpecsAreTaken(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*job.Spec){
		"all fields":              func(*job.Spec) {},
		"required fields alone":   func(s *job.Spec) { *s = job.Spec{Kind: s.Kind, Key: s.Key, Payload: s.Payload} },
		"due in the past":         func(s *job.Spec) { s.Due = now.Add(-time.Hour) },
		"key with a slash":        func(s *job.Spec) { s.Key = "a/b c" },
		"key of the longest":      func(s *job.Spec) { s.Key = strings.Repeat("k", job.MaxKey) },
		"key of other scripts":    func(s *job.Spec) { s.Key = "更新:顧客" },
		"payload with escapes":    func(s *job.Spec) { s.Payload = []byte(`{"a":"\u0000\ud800"}`) },
		"payload that is a value": func(s *job.Spec) { s.Payload = []byte(` null `) },
		"payload of the largest":  func(s *job.Spec) { s.Payload = bytes.Repeat([]byte("1"), job.DefaultMaxPayload) },
		"first instant":           func(s *job.Spec) { s.Due = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"last year":               func(s *job.Spec) { s.Deadline = time.Date(2200, 12, 31, 23, 59, 59, 0, time.UTC) },
	} {
		s := good()
		change(&s)
		require.NoError(t, s.Validate(now, limits()), name)
	}
}

func TestEveryRuleNamesFieldAndValue(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*job.Spec)
		want   job.Refusal
	}{
		"no kind":              {func(s *job.Spec) { s.Kind = "" }, job.Refusal{Field: "kind", Rule: job.RuleRequired}},
		"kind in capitals":     {func(s *job.Spec) { s.Kind = "Reminder" }, job.Refusal{Field: "kind", Value: "Reminder", Rule: job.RuleName}},
		"kind too long":        {func(s *job.Spec) { s.Kind = strings.Repeat("k", 65) }, job.Refusal{Field: "kind", Value: strings.Repeat("k", 65), Rule: job.RuleName}},
		"unknown kind":         {func(s *job.Spec) { s.Kind = "nothing" }, job.Refusal{Field: "kind", Value: "nothing", Rule: job.RuleUnknownKind}},
		"no key":               {func(s *job.Spec) { s.Key = "" }, job.Refusal{Field: "key", Rule: job.RuleRequired}},
		"key of bad UTF-8":     {func(s *job.Spec) { s.Key = "a\xffb" }, job.Refusal{Field: "key", Value: "a\uFFFDb", Rule: job.RuleUTF8}},
		"key with a newline":   {func(s *job.Spec) { s.Key = "a\nb" }, job.Refusal{Field: "key", Value: "a b", Rule: job.RulePrintable}},
		"key with a soft line": {func(s *job.Spec) { s.Key = "a\u200bb" }, job.Refusal{Field: "key", Value: "a\u200bb", Rule: job.RulePrintable}},
		"key begins with one":  {func(s *job.Spec) { s.Key = " a" }, job.Refusal{Field: "key", Value: " a", Rule: job.RuleSpace}},
		"key ends with one":    {func(s *job.Spec) { s.Key = "a " }, job.Refusal{Field: "key", Value: "a ", Rule: job.RuleSpace}},
		"key not composed":     {func(s *job.Spec) { s.Key = "cafe\u0301" }, job.Refusal{Field: "key", Value: "cafe\u0301", Rule: job.RuleNFC}},
		"key too long":         {func(s *job.Spec) { s.Key = strings.Repeat("k", 513) }, job.Refusal{Field: "key", Value: strings.Repeat("k", 80), Rule: job.RuleTooLong, More: "at most 512 bytes, it has 513"}},
		"subject too long":     {func(s *job.Spec) { s.Subject = strings.Repeat("s", 513) }, job.Refusal{Field: "subject", Value: strings.Repeat("s", 80), Rule: job.RuleTooLong, More: "at most 512 bytes, it has 513"}},
		"period with a tab":    {func(s *job.Spec) { s.Period = "2026\t09" }, job.Refusal{Field: "period", Value: "2026 09", Rule: job.RulePrintable}},
		"destination with NUL": {func(s *job.Spec) { s.Destination = "a\x00" }, job.Refusal{Field: "destination", Value: "a\uFFFD", Rule: job.RulePrintable}},
		"no payload":           {func(s *job.Spec) { s.Payload = nil }, job.Refusal{Field: "payload", Rule: job.RuleRequired}},
		"payload of bad UTF-8": {func(s *job.Spec) { s.Payload = []byte("\"\xff\"") }, job.Refusal{Field: "payload", Rule: job.RuleUTF8}},
		"payload cut off":      {func(s *job.Spec) { s.Payload = []byte(`{"a":`) }, job.Refusal{Field: "payload", Rule: job.RuleJSON, More: "it ends too early"}},
		"payload with a typo":  {func(s *job.Spec) { s.Payload = []byte(`{"a":x}`) }, job.Refusal{Field: "payload", Rule: job.RuleJSON, More: "at byte 6"}},
		"two payloads":         {func(s *job.Spec) { s.Payload = []byte(`{} {}`) }, job.Refusal{Field: "payload", Rule: job.RuleJSON, More: "something follows the value"}},
		"payload too large":    {func(s *job.Spec) { s.Payload = bytes.Repeat([]byte("1"), 262_145) }, job.Refusal{Field: "payload", Rule: job.RuleTooLarge, More: "at most 262144 bytes, it has 262145"}},
		"due at the deadline":  {func(s *job.Spec) { s.Due = s.Deadline }, job.Refusal{Field: "due", Value: "2026-09-01T14:00:00Z", Rule: job.RuleDueBeforeDeadline, More: "deadline 2026-09-01T14:00:00Z"}},
		"deadline is now":      {func(s *job.Spec) { s.Due, s.Deadline = time.Time{}, now }, job.Refusal{Field: "deadline", Value: "2026-09-01T12:00:00Z", Rule: job.RuleDeadlinePast}},
		"due in 1999":          {func(s *job.Spec) { s.Due = time.Date(1999, 12, 31, 23, 59, 59, 0, time.UTC) }, job.Refusal{Field: "due", Value: "1999-12-31T23:59:59Z", Rule: job.RuleYears}},
		"deadline in 2201":     {func(s *job.Spec) { s.Deadline = time.Date(2201, 1, 1, 0, 0, 0, 0, time.UTC) }, job.Refusal{Field: "deadline", Value: "2201-01-01T00:00:00Z", Rule: job.RuleYears}},
		"unknown zone":         {func(s *job.Spec) { s.DeadlineZone = "Mars/X" }, job.Refusal{Field: "deadline_zone", Value: "Mars/X", Rule: job.RuleUnknownZone}},
		"local time not text":  {func(s *job.Spec) { s.DeadlineLocal = "\xff" }, job.Refusal{Field: "deadline_local", Value: "\uFFFD", Rule: job.RuleUTF8}},
	} {
		s := good()
		c.change(&s)
		err := s.Validate(now, limits())
		refusals := job.Refusals(err)
		require.Len(t, refusals, 1, name)
		require.Equal(t, c.want, *refusals[0], name)
		require.ErrorIs(t, err, job.ErrRefused, name)
		require.ErrorContains(t, err, c.want.Field, name)
		require.ErrorContains(t, err, c.want.Rule.Text(), name)
		if c.want.More != "" {
			require.ErrorContains(t, err, c.want.More, name)
		}
	}
}

func TestAllProblemsAreNamedAtOnceAndNoPayloadIsShown(t *testing.T) {
	t.Parallel()
	s := job.Spec{Kind: "K", Key: "", Payload: []byte(`{"card":"4111`), Due: now, Deadline: now.Add(-time.Hour), DeadlineZone: "Local"}
	err := fmt.Errorf("row 7: %w", s.Validate(now, limits()))
	var fields []string
	for _, r := range job.Refusals(err) {
		fields = append(fields, r.Field)
	}
	require.Equal(t, []string{"kind", "key", "payload", "deadline", "deadline_zone"}, fields)
	require.NotContains(t, err.Error(), "4111")
}

func TestTheLedgerIsLeftWhatADoorCannotSay(t *testing.T) {
	t.Parallel()
	s := good()
	s.Kind, s.DeadlineZone = "nothing", "Mars/X"
	require.NoError(t, s.Validate(now, job.Limits{}))
	s.DeadlineZone = strings.Repeat("z", job.MaxLocal+1)
	require.Error(t, s.Validate(now, job.Limits{}), "text that cannot be stored is refused all the same")
	s = good()
	s.Payload = []byte(`12345`)
	require.Error(t, s.Validate(now, job.Limits{MaxPayload: 4}))
	require.NoError(t, s.Validate(now, job.Limits{MaxPayload: 5}))
}

func TestRulesHaveWordsAndRefusalsAreTold(t *testing.T) {
	t.Parallel()
	require.Contains(t, job.Rules(), job.RuleField)
	for _, r := range job.Rules() {
		require.NotEmpty(t, r.Text(), string(r))
	}
	conflict := job.Refuse("key", "k", job.RuleConflict, "")
	require.ErrorIs(t, conflict, job.ErrConflict)
	require.ErrorIs(t, conflict, job.ErrRefused)
	require.NotErrorIs(t, job.Refuse("key", "k", job.RuleNFC, ""), job.ErrConflict)
	require.Empty(t, job.Refusals(nil))
	require.Empty(t, job.Refusals(errors.New("something else")))
	require.Len(t, job.Refuse("key", strings.Repeat("é", 80), job.RuleNFC, "").Value, 80)
}

func TestNames(t *testing.T) {
	t.Parallel()
	for name, valid := range map[string]bool{
		"a": true, "renewal-reminder": true, "0": true, strings.Repeat("a", 64): true,
		"": false, "A": false, "a_b": false, "a b": false, "é": false, strings.Repeat("a", 65): false,
	} {
		require.Equal(t, valid, job.ValidName(name), name)
	}
}

// FuzzValidate: what is taken can be stored and announced, whatever came in.
func FuzzValidate(f *testing.F) {
	f.Add("renewal-reminder", "key", "subject", "dest", []byte(`{}`), int64(0), int64(0), "UTC", "2026-01-01T00:00")
	f.Add("K", " \x00", "\xff", "e\u0301", []byte("\xef\xbb\xbf{}"), int64(-1), int64(1<<62), "", "")
	f.Add("k", "a\u0085", "\u2028", strings.Repeat("x", 3000), []byte(`[1`), int64(1), int64(-1<<63), "\x80", "\x00")
	f.Fuzz(func(t *testing.T, kind, key, subject, destination string, payload []byte, due, deadline int64, zone, local string) {
		s := job.Spec{
			Kind: kind, Key: key, Subject: subject, Destination: destination, Payload: payload,
			Due: time.Unix(due, 0), Deadline: time.Unix(deadline, 0), DeadlineZone: zone, DeadlineLocal: local,
		}
		before := s
		before.Payload = bytes.Clone(payload)
		err := s.Validate(now, job.Limits{})
		require.Equal(t, before.BodyHash(), s.BodyHash(), "a spec is never repaired")
		for _, r := range job.Refusals(err) {
			require.NotEmpty(t, r.Rule.Text())
			require.True(t, utf8.ValidString(r.Error()))
			require.LessOrEqual(t, len(r.Value), 80)
		}
		if err != nil {
			require.ErrorIs(t, err, job.ErrRefused)
			return
		}
		require.True(t, job.ValidName(kind))
		for _, text := range []string{key, subject, destination, zone, local} {
			require.Equal(t, text, job.Storable(text, job.MaxDestination), "what is taken is storable as it is")
		}
		require.True(t, s.Deadline.After(now) && s.Due.Before(s.Deadline))
	})
}
