package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// newSite is a receiver on a journal, as after a start.
func newSite(t *testing.T, path string) *site {
	t.Helper()
	s := &site{asked: map[string]int{}, acted: map[string]bool{}, acting: map[string]chan struct{}{}, asking: map[string]int{}}
	before, err := readJournal(path)
	require.NoError(t, err)
	for _, e := range before {
		s.asked[e.Key], s.acted[e.Key] = max(s.asked[e.Key], e.Nth), s.acted[e.Key] || e.Acted
	}
	s.journal, err = openJournal(path)
	require.NoError(t, err)
	return s
}

func (s *site) post(kind, key string) int {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}"))
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("Duly-Kind", kind)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code
}

func TestAReceiverThatPromisedToDedupesAlsoAtOnceAndAfterACrash(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	s := newSite(t, path)
	key := effectKey(deduped, rateMark+"a", 1) // which always acts
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { s.post(deduped, key) })
	}
	all.Wait()
	// It is killed in the middle of a line.
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.WriteString(`{"key":"half`)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	s = newSite(t, path)
	require.Equal(t, http.StatusOK, s.post(deduped, key))
	require.Equal(t, http.StatusOK, s.post(plain, effectKey(plain, rateMark+"b", 1)))

	entries, err := readJournal(path)
	require.NoError(t, err)
	require.Len(t, entries, 10)
	acted := map[string]int{}
	for _, e := range entries {
		if e.Acted {
			acted[e.Key]++
		}
	}
	require.Equal(t, map[string]int{key: 1, effectKey(plain, rateMark+"b", 1): 1}, acted)
	require.Equal(t, 9, entries[8].Nth, "it goes on counting")
}

func TestALookupIsTrueAndBreaksDownFirst(t *testing.T) {
	t.Parallel()
	s := newSite(t, filepath.Join(t.TempDir(), "journal"))
	ask := func(key string) int {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/effects/"+key, nil))
		return w.Code
	}
	require.Equal(t, http.StatusInternalServerError, ask("k"))
	require.Equal(t, http.StatusNotFound, ask("k"))
	s.acting["k"] = make(chan struct{})
	require.Equal(t, http.StatusAccepted, ask("k"))
	delete(s.acting, "k")
	s.acted["k"] = true
	require.Equal(t, http.StatusOK, ask("k"))
}
