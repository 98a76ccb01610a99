package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"duly.dev/duly/internal/pause"
)

// programs are the paths of what is run.
type programs struct{ folder, self string }

func (p programs) path(name string) string { return filepath.Join(p.folder, name) }

// The programs by the names of their files.
const (
	scheduler  = "scheduler"
	dispatcher = "dispatcher"
	worker     = "worker"
	dlq        = "dlq"
	tool       = "duly"
)

// build builds the programs with their failpoints, which are off unless they are asked for.
func build(ctx context.Context, folder string) (programs, error) {
	self, err := os.Executable()
	if err != nil {
		return programs{}, err
	}
	args := []string{"build", "-buildvcs=false", "-tags=failpoints", "-ldflags=-w", "-o", folder + string(filepath.Separator)}
	for _, name := range []string{scheduler, dispatcher, worker, dlq, tool} {
		args = append(args, "duly.dev/duly/cmd/"+name)
	}
	if output, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
		return programs{}, fmt.Errorf("building the programs: %w\n%s", err, output)
	}
	return programs{folder, self}, nil
}

// life is one start of a process, from then to its end.
type life struct {
	Began, Ended time.Time // zero: it runs
	Workers      []string  // the ids under which a worker has registered
}

// process is a program that is started again whenever it ends, until it is retired.
type process struct {
	name string // the program's, and a number
	path string
	args []string
	env  []string
	logs string

	mu      sync.Mutex
	command *exec.Cmd
	done    chan struct{} // closed when the command has ended
	paused  bool
	lives   []life
	// byItself counts the ends that nobody caused.
	byItself int
	expected bool // its end was caused
	retired  bool
}

// start starts it.
func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.retired || p.command != nil {
		return nil
	}
	log, err := os.OpenFile(filepath.Join(p.logs, fmt.Sprintf("%s-%d.log", p.name, len(p.lives)+1)), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	command := exec.Command(p.path, p.args...)
	command.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.logs, "TMPDIR=" + os.TempDir()}, p.env...)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(command.SysProcAttr)
	p.done, p.expected, p.paused = make(chan struct{}), false, false
	started := make(chan error)
	go p.watch(command, log, p.done, started)
	if err := <-started; err != nil {
		return fmt.Errorf("starting %s: %w", p.name, err)
	}
	p.command = command
	p.lives = append(p.lives, life{Began: time.Now()})
	return nil
}

// watch keeps the thread that started the child, whose end would end it too, and notes
// when it has ended. One that ends by itself is started again, as a supervisor would.
func (p *process) watch(command *exec.Cmd, log *os.File, done chan struct{}, started chan error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := command.Start()
	started <- err
	if err != nil {
		_ = log.Close()
		return
	}
	_ = command.Wait() // that it ended is all
	_ = log.Close()
	p.mu.Lock()
	p.command = nil
	p.lives[len(p.lives)-1].Ended = time.Now()
	again := !p.expected && !p.retired
	if again {
		p.byItself++
	}
	close(done)
	p.mu.Unlock()
	if again {
		time.AfterFunc(500*time.Millisecond, func() { _ = p.start() })
	}
}

// signal sends a signal; expected says that its end follows from it. It is false where
// nothing runs.
func (p *process) signal(s syscall.Signal, expected bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.command == nil {
		return false
	}
	p.expected = p.expected || expected
	if s == syscall.SIGSTOP || s == syscall.SIGCONT {
		p.paused = s == syscall.SIGSTOP
	}
	return p.command.Process.Signal(s) == nil
}

// await waits for the end of what runs.
func (p *process) await(d time.Duration) bool {
	p.mu.Lock()
	done, runs := p.done, p.command != nil
	p.mu.Unlock()
	if !runs {
		return true
	}
	select {
	case <-done:
		return true
	case <-time.After(d):
		return false
	}
}

// kill ends it as a crash would.
func (p *process) kill() bool { return p.signal(syscall.SIGKILL, true) && p.await(10*time.Second) }

// retire ends it for good, and returns whether it stopped when it was told to.
func (p *process) retire(patience time.Duration) bool {
	p.mu.Lock()
	p.retired = true
	p.mu.Unlock()
	p.signal(syscall.SIGCONT, false)
	p.signal(syscall.SIGTERM, true)
	if p.await(patience) {
		return true
	}
	p.kill()
	return false
}

// history returns its lives, with what its logs say of each.
func (p *process) history() ([]life, error) {
	p.mu.Lock()
	lives := append([]life(nil), p.lives...)
	p.mu.Unlock()
	for i := range lives {
		ids, err := registrations(filepath.Join(p.logs, fmt.Sprintf("%s-%d.log", p.name, i+1)))
		if err != nil {
			return nil, err
		}
		lives[i].Workers = ids
	}
	return lives, nil
}

// registrations are the ids under which a worker registered, by its log.
func registrations(path string) ([]string, error) {
	log, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	var ids []string
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct{ Msg, Worker string }
		if bytes.Contains(lines.Bytes(), []byte(`"registered"`)) && json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "registered" {
			ids = append(ids, line.Worker)
		}
	}
	return ids, lines.Err()
}

// says waits until the newest log has a line with the text.
func (p *process) says(ctx context.Context, text string, patience time.Duration) error {
	for end := time.Now().Add(patience); ; {
		p.mu.Lock()
		path := filepath.Join(p.logs, fmt.Sprintf("%s-%d.log", p.name, len(p.lives)))
		p.mu.Unlock()
		said, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(said), text) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s did not say %s within %s: %s", p.name, text, patience, last(said, 2000))
		}
		if !pause.For(ctx, 50*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// last is the end of a text.
func last(text []byte, n int) []byte { return text[max(0, len(text)-n):] }
