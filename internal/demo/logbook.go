package demo

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"
)

// sighting is one thing that a receiver saw.
type sighting struct {
	At time.Time `json:"at"`
	// Effect is the effect key as it came: the Idempotency-Key, or what stands before
	// the @ of the Message-ID.
	Effect string `json:"effect"`
	To     string `json:"to"`
	// Repeat: the receiver knew the key and answered from memory; no effect.
	Repeat bool `json:"repeat,omitempty"`
}

// logbook is a receiver's own record of what it saw, a file of JSON lines. A line is
// written before the receiver answers, and survives the end of the process.
type logbook struct {
	mu   sync.Mutex
	file *os.File
}

// openLogbook opens the file, made if it does not exist and added to if it does.
func openLogbook(path string) (*logbook, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening a receiver's log: %w", err)
	}
	return &logbook{file: f}, nil
}

func (l *logbook) write(s sighting) error {
	line, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("writing a receiver's log: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("writing a receiver's log: %w", err)
	}
	return nil
}

func (l *logbook) close() error { return l.file.Close() }

// readLogbook reads a logbook from its file; none is an empty one. A last line that
// was cut by a crash does not count.
func readLogbook(path string) ([]sighting, error) {
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading a receiver's log: %w", err)
	}
	defer func() { _ = f.Close() }()
	var all []sighting
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var s sighting
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			continue
		}
		all = append(all, s)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading a receiver's log: %w", err)
	}
	return all, nil
}

// effects counts the effects of a logbook by their keys.
func effects(sightings ...[]sighting) map[string]int {
	counts := make(map[string]int)
	for _, book := range sightings {
		for _, s := range book {
			if !s.Repeat {
				counts[s.Effect]++
			}
		}
	}
	return counts
}

// repeats counts the requests that were answered from memory.
func repeats(book []sighting) int {
	n := 0
	for _, s := range book {
		if s.Repeat {
			n++
		}
	}
	return n
}

// tries counts, for each name, how often it was tried.
type tries struct {
	mu sync.Mutex
	n  map[string]int
}

// next returns the number of this try, from 1.
func (t *tries) next(name string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == nil {
		t.n = make(map[string]int)
	}
	t.n[name]++
	return t.n[name]
}

// of returns how often a name was tried.
func (t *tries) of(name string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n[name]
}
