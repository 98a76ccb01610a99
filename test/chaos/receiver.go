package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A receiver is a process of its own, which is killed like any other. It knows nothing of
// Duly but the two headers that every receiver sees, and writes down what it does, synced,
// before it answers.

// entry is a line of the receiver's journal.
type entry struct {
	Key     string `json:"key"` // the effect key
	Kind    string `json:"kind"`
	Attempt string `json:"attempt"`
	// Nth is which request under the key this is, from 1.
	Nth int `json:"nth"`
	// Began is when the request was there, At when this was written.
	Began time.Time `json:"began"`
	At    time.Time `json:"at"`
	// Acted: it had the effect.
	Acted bool `json:"acted"`
	// Does is what it does with the request.
	Does conduct `json:"does"`
}

// conduct is what a receiver does with a request.
type conduct string

const (
	acts         conduct = "acts"
	actsSlowly   conduct = "acts slowly" // for the measure of rates
	actsCloses   conduct = "acts and closes"
	actsFails    conduct = "acts and answers 503"
	actsLate     conduct = "acts after its sender has given up"
	closes       conduct = "closes without acting"
	throttles    conduct = "answers 429"
	refuses      conduct = "answers 400"
	deduplicates conduct = "has acted before"
)

// ambiguous reports whether the sender cannot know what came of it.
func (c conduct) ambiguous() bool {
	switch c {
	case actsCloses, actsFails, actsLate, closes:
		return true
	case acts, actsSlowly, throttles, refuses, deduplicates:
	}
	return false
}

const (
	// latency is how long an effect takes, and slowly how long one by which rates are
	// measured: then the slots of the fleet bound the rate, not the machine.
	latency, slowly = 20 * time.Millisecond, 200 * time.Millisecond
	// limit is that of every kind, and tardiness how long after it a receiver acts late.
	limit, tardiness = 3 * time.Second, 700 * time.Millisecond
	// rateMark is in the keys of jobs by which rates are measured.
	rateMark = "rate-"
)

// decide is what the receiver does with the nth request under a key: the same in every run
// of the seed.
func decide(seed uint64, key string, nth int) conduct {
	if strings.Contains(key, rateMark) {
		return actsSlowly
	}
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d %s %d", seed, key, nth) // a hash does not fail
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	switch n := x % 100; {
	case n < 4:
		return actsCloses
	case n < 7:
		return actsFails
	case n < 8:
		return actsLate
	case n < 11:
		return closes
	case n < 16:
		return throttles
	case n < 19:
		return refuses
	}
	return acts
}

// site is the receiver while it runs.
type site struct {
	seed    uint64
	journal *journal

	mu    sync.Mutex
	asked map[string]int
	acted map[string]bool
	// acting are the effects that are being written down; closed when they are.
	acting map[string]chan struct{}
	// asking counts the lookups of a key: the first breaks down.
	asking map[string]int
}

// receive is the program of a receiver.
func receive(args []string) error {
	flags := flag.NewFlagSet("receiver", flag.ContinueOnError)
	address := flags.String("address", "127.0.0.1:0", "to listen on")
	path := flags.String("journal", "", "the journal, which is read and continued")
	seed := flags.Uint64("seed", 1, "decides what it does")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s := &site{seed: *seed, asked: map[string]int{}, acted: map[string]bool{}, acting: map[string]chan struct{}{}, asking: map[string]int{}}
	before, err := readJournal(*path)
	if err != nil {
		return err
	}
	for _, e := range before {
		s.asked[e.Key] = max(s.asked[e.Key], e.Nth)
		s.acted[e.Key] = s.acted[e.Key] || e.Acted
	}
	if s.journal, err = openJournal(*path); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	return server.Serve(listener)
}

// ServeHTTP takes requests, and questions about effects.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		s.lookup(w, strings.TrimPrefix(r.URL.Path, "/effects/"))
		return
	}
	e := entry{Key: r.Header.Get("Idempotency-Key"), Kind: r.Header.Get("Duly-Kind"), Attempt: r.Header.Get("Duly-Attempt"), Began: time.Now()}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return // its sender was killed before it had sent everything: there is no request
	}
	s.mu.Lock()
	s.asked[e.Key]++
	e.Nth = s.asked[e.Key]
	e.Does = decide(s.seed, e.Key, e.Nth)
	s.mu.Unlock()
	switch e.Does {
	case acts, actsCloses, actsFails:
		time.Sleep(latency) //nolint:forbidigo // it is what the receiver does
	case actsSlowly:
		time.Sleep(slowly) //nolint:forbidigo // as above
	case actsLate:
		time.Sleep(limit + tardiness) //nolint:forbidigo // as above
	case closes, throttles, refuses, deduplicates:
	}
	s.act(&e)
	answer(w, e)
}

// act has the effect, unless it is not to, and writes down what was done. A kind that has
// promised to dedupe acts once under a key, also for two requests at once. That it has
// acted is said nowhere before it is on disk.
func (s *site) act(e *entry) {
	s.mu.Lock()
	for e.Kind == deduped && s.acting[e.Key] != nil {
		written := s.acting[e.Key]
		s.mu.Unlock()
		<-written
		s.mu.Lock()
	}
	switch e.Does {
	case acts, actsSlowly, actsCloses, actsFails, actsLate:
		if e.Acted = e.Kind != deduped || !s.acted[e.Key]; !e.Acted {
			e.Does = deduplicates
		}
	case closes, throttles, refuses, deduplicates:
	}
	written := make(chan struct{})
	if e.Acted {
		s.acting[e.Key] = written
	}
	s.mu.Unlock()
	s.journal.write(e)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Acted {
		s.acted[e.Key] = true
		delete(s.acting, e.Key)
		close(written)
	}
}

func answer(w http.ResponseWriter, e entry) {
	switch e.Does {
	case acts, actsSlowly, deduplicates, actsLate:
		w.Header().Set("X-Receipt", "receipt-"+strconv.Itoa(e.Nth))
	case actsCloses, closes:
		panic(http.ErrAbortHandler)
	case actsFails:
		w.WriteHeader(http.StatusServiceUnavailable)
	case throttles:
		w.WriteHeader(http.StatusTooManyRequests)
	case refuses:
		w.WriteHeader(http.StatusBadRequest)
	}
}

// lookup says what became of an effect, truly; but the first time it breaks down.
func (s *site) lookup(w http.ResponseWriter, key string) {
	s.mu.Lock()
	s.asking[key]++
	first, acted, acting := s.asking[key] == 1, s.acted[key], s.acting[key] != nil
	s.mu.Unlock()
	switch {
	case first:
		w.WriteHeader(http.StatusInternalServerError)
	case acting:
		w.WriteHeader(http.StatusAccepted)
	case acted:
		_, _ = io.WriteString(w, `{"state": "done", "id": "found"}`)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// journal is a file of entries. Those that come together share a sync.
type journal struct {
	file    *os.File
	entries chan written
}

type written struct {
	entry *entry
	done  chan struct{}
}

func openJournal(path string) (*journal, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err := file.WriteString("\n"); err != nil { // ends a line that a crash has left in its middle
		return nil, err
	}
	j := &journal{file: file, entries: make(chan written, 1024)}
	go j.run()
	return j, nil
}

// write returns when the entry is on disk.
func (j *journal) write(e *entry) {
	w := written{e, make(chan struct{})}
	j.entries <- w
	<-w.done
}

func (j *journal) run() {
	for first := range j.entries {
		batch := []written{first}
		for more := true; more; {
			select {
			case next := <-j.entries:
				batch = append(batch, next)
			default:
				more = false
			}
		}
		var text []byte
		for _, w := range batch {
			w.entry.At = time.Now()
			line, err := json.Marshal(w.entry)
			if err != nil {
				panic(err) // an entry holds nothing that cannot be encoded
			}
			text = append(append(text, line...), '\n')
		}
		if _, err := j.file.Write(text); err != nil {
			panic(err) // a receiver that cannot write down what it does must not do it
		}
		if err := j.file.Sync(); err != nil {
			panic(err)
		}
		for _, w := range batch {
			close(w.done)
		}
	}
}

// readJournal reads the entries of a journal, none where it is not there. A last line that
// is not whole was not answered.
func readJournal(path string) ([]entry, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var all []entry
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var e entry
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			all = append(all, e)
		}
	}
	return all, lines.Err()
}
