// Package progress shows how far a long command is: one line that is redrawn on a
// terminal, and a line now and then where the output is a file or a pipe, so that logs
// stay readable.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	redrawEvery = 100 * time.Millisecond
	lineEvery   = 5 * time.Second
	width       = 16 // of the bar, in characters: what is redrawn must fit into one line
)

// Bar shows the progress of one task. Its methods may be called concurrently.
type Bar struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
	label    string
	began    time.Time
	shown    time.Time
	drawn    int // characters of the line on the terminal
	now      func() time.Time
}

// New starts a bar on w. A nil w shows nothing.
func New(w io.Writer, label string) *Bar {
	return newBar(w, Terminal(w), label, time.Now)
}

func newBar(w io.Writer, terminal bool, label string, now func() time.Time) *Bar {
	if w == nil {
		w = io.Discard
	}
	b := &Bar{w: w, terminal: terminal, label: label, began: now(), now: now}
	if !terminal {
		b.shown = b.began // what is done in no time needs one line
	}
	return b
}

// Terminal reports whether w is a terminal.
func Terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Show draws the share that is done, 0 to 1, and a note behind it. Calls that come
// faster than anybody reads are dropped.
func (b *Bar) Show(share float64, note string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	every := lineEvery
	if b.terminal {
		every = redrawEvery
	}
	if now := b.now(); now.Sub(b.shown) >= every {
		b.shown = now
		b.draw(share, note)
	}
}

// Done draws the bar full, or as far as it came, for the last time.
func (b *Bar) Done(share float64, note string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.draw(share, note)
	if b.terminal {
		_, _ = io.WriteString(b.w, "\n")
	}
}

// Elapsed is how long the task has taken so far.
func (b *Bar) Elapsed() time.Duration { return b.now().Sub(b.began) }

// draw writes the line; that it cannot be shown is no reason to stop the task.
func (b *Bar) draw(share float64, note string) {
	share = min(max(share, 0), 1)
	if !b.terminal {
		_, _ = fmt.Fprintf(b.w, "%s %3.0f %%  %s\n", b.label, 100*share, note)
		return
	}
	full := int(share*width + 0.5)
	line := fmt.Sprintf("%s [%s%s] %3.0f %%  %s", b.label, strings.Repeat("█", full), strings.Repeat("·", width-full), 100*share, note)
	length := len([]rune(line))
	_, _ = fmt.Fprintf(b.w, "\r%s%s", line, strings.Repeat(" ", max(0, b.drawn-length)))
	b.drawn = length
}
