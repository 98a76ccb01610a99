package failpoint

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"
)

// Firing is a fault that happened.
type Firing struct {
	At    time.Time `json:"at"`
	PID   int       `json:"pid"`
	Place Place     `json:"place"`
	Act   Act       `json:"act"`
	// Rule is the text of the rule that asked for it, and Pass the number of the pass.
	Rule string `json:"rule"`
	Pass int    `json:"pass"`
}

// Log is a file to which several processes append what fires, a line of JSON each.
type Log struct{ file *os.File }

// OpenLog opens the file, made if it does not exist.
func OpenLog(path string) (*Log, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the log of failpoints: %w", err)
	}
	return &Log{f}, nil
}

// Close closes the file.
func (l *Log) Close() error { return l.file.Close() }

// write appends a firing in one call, so that no line is torn, and brings a crash to the
// disk before it happens.
func (l *Log) write(f Firing) error {
	if l == nil {
		return nil
	}
	f.At, f.PID = time.Now().UTC(), os.Getpid()
	line, err := json.Marshal(f)
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	if err == nil && f.Act == Crash {
		err = l.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("writing the log of failpoints: %w", err)
	}
	return nil
}

// ReadLog reads what has fired. A file that does not exist is one in which nothing has; a
// line that is torn is an error, since nobody knows what it counted.
func ReadLog(path string) ([]Firing, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the log of failpoints: %w", err)
	}
	var all []Firing
	lines := bufio.NewScanner(bytes.NewReader(content))
	for lines.Scan() {
		var f Firing
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
			return nil, fmt.Errorf("reading the log of failpoints, line %d: %w", len(all)+1, err)
		}
		all = append(all, f)
	}
	return all, lines.Err()
}

// Count counts firings by place and act.
func Count(fired []Firing) map[Place]map[Act]int {
	counts := make(map[Place]map[Act]int)
	for _, f := range fired {
		if counts[f.Place] == nil {
			counts[f.Place] = make(map[Act]int)
		}
		counts[f.Place][f.Act]++
	}
	return counts
}

// Uncovered returns the rules that never fired, in their order: what was asked for and
// not tried.
func Uncovered(rules []Rule, fired []Firing) []string {
	var never []string
	for _, r := range rules {
		if !slices.ContainsFunc(fired, func(f Firing) bool { return f.Rule == r.Text }) {
			never = append(never, r.Text)
		}
	}
	return never
}
