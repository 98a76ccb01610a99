package eval

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/app"
)

// bookings is a handler as users write them: it books once for each key that it has not
// seen. How it looks is the test's affair.
type bookings struct {
	mu     sync.Mutex
	booked map[string]int // by effect key
	// keyOf is what it dedupes on; empty dedupes nothing.
	keyOf func(*http.Request) string
	// racy looks, takes its time, and books.
	racy bool
	seen map[string]bool
	// silent says nothing about its effects.
	silent bool
}

func (b *bookings) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		b.mu.Lock()
		defer b.mu.Unlock()
		_, _ = fmt.Fprintf(w, `{"effects": %d}`, b.booked[r.URL.Query().Get("key")])
		return
	}
	effect, key := r.Header.Get("Idempotency-Key"), b.keyOf(r)
	b.mu.Lock()
	known := key != "" && b.seen[key]
	if !b.racy {
		b.seen[key] = true
	}
	if b.racy {
		b.mu.Unlock()
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // it is what this handler does wrong
		b.mu.Lock()
		b.seen[key] = true
	}
	if !known {
		b.booked[effect]++
	}
	if !b.silent {
		w.Header().Set("Duly-Effects", fmt.Sprint(b.booked[effect]))
	}
	b.mu.Unlock()
	if !b.racy {
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // a handler takes its time
	}
	w.WriteHeader(http.StatusOK)
}

func byKey(r *http.Request) string { return r.Header.Get("Idempotency-Key") }

func TestAHandlerThatActsOnceAKeyPassesAndEveryOtherIsFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler *bookings
		byURL   bool
		fails   []string // trials that must fail
	}{
		"it dedupes, and says so itself":     {handler: &bookings{keyOf: byKey}},
		"it dedupes, and its count is asked": {handler: &bookings{keyOf: byKey, silent: true}, byURL: true},
		"it dedupes nothing": {
			handler: &bookings{keyOf: func(*http.Request) string { return "" }},
			fails:   []string{"again-later", "reply-lost", "two-at-once", "worker-dies"},
		},
		"it looks before it books": {handler: &bookings{keyOf: byKey, racy: true}, fails: []string{"two-at-once"}},
		"it dedupes on the customer": {
			handler: &bookings{keyOf: func(*http.Request) string { return "the customer" }},
			fails:   []string{"reply-lost", "other-keys"},
		},
		"nobody counts": {handler: &bookings{keyOf: byKey, silent: true}, fails: []string{"once"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := c.handler
			h.booked, h.seen = make(map[string]int), make(map[string]bool)
			server := httptest.NewServer(h)
			t.Cleanup(server.Close)
			o := HandlerOptions{URL: server.URL, Wait: 10 * time.Millisecond}
			if c.byURL {
				o.CountURL = server.URL + "/count?key={key}"
			}
			p, stdout := process()
			report, err := TryHandler(t.Context(), p, o)
			failed := map[string]string{}
			for _, r := range report.Rows {
				if r.Verdict.fails() {
					failed[r.Case] = strings.Join(r.Problems, "; ")
				}
			}
			if len(c.fails) == 0 {
				require.NoError(t, err, "%s", stdout)
				require.Empty(t, failed)
				return
			}
			require.ErrorIs(t, err, ErrViolated)
			require.Equal(t, app.ExitFailed, app.ExitCode(err))
			for _, trial := range c.fails {
				require.Contains(t, failed, trial, "%s", stdout)
			}
		})
	}
}

func TestAHandlerThatTakesNothingIsToldSo(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	t.Cleanup(server.Close)
	p, _ := process()
	report, err := TryHandler(t.Context(), p, HandlerOptions{URL: server.URL})
	require.ErrorIs(t, err, ErrViolated)
	require.Contains(t, strings.Join(report.Rows[0].Problems, "; "), "the handler did not take it")
	for _, r := range report.Rows[1:] {
		require.Equal(t, NotApplicable, r.Verdict, "%s", r.Case)
	}
}

func TestHandlerOptionsThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	for says, o := range map[string]HandlerOptions{
		"--handler":   {URL: "ftp://nowhere"},
		"--count-url": {URL: "http://127.0.0.1:1", CountURL: "http://127.0.0.1:1/count"},
		"--payload":   {URL: "http://127.0.0.1:1", Payload: []byte("{")},
		"--header":    {URL: "http://127.0.0.1:1", Headers: []string{"Idempotency-Key=mine"}},
		"is not set":  {URL: "http://127.0.0.1:1", Headers: []string{"Authorization=env:EVAL_TEST_NOWHERE"}},
	} {
		p, _ := process()
		_, err := TryHandler(t.Context(), p, o)
		require.ErrorContains(t, err, says)
		require.Equal(t, app.ExitUsage, app.ExitCode(err), "%v", err)
	}
}

func TestCountsAreNumbersOrJSON(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"3": 3, " 0\n": 0, `{"effects": 2, "more": true}`: 2} {
		n, err := parseCount(text)
		require.NoError(t, err, text)
		require.Equal(t, want, n, text)
	}
	for _, text := range []string{"", "-1", "many", "{}", `{"effects": -1}`, `{"effects": "2"}`, "[1]"} {
		_, err := parseCount(text)
		require.Error(t, err, text)
	}
}
