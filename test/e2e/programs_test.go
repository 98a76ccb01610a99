package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The programs, by the names of their files.
const (
	scheduler  = "scheduler"
	dispatcher = "dispatcher"
	worker     = "worker"
	dlq        = "dlq"
	tool       = "duly"
)

// build builds the programs, once a run.
var build = builds(".")

// builds makes what builds the programs into a folder below that of the programs, once.
func builds(folder string, more ...string) func() error {
	return sync.OnceValue(func() error {
		into := filepath.Join(shared.programs, folder) + string(filepath.Separator)
		args := append([]string{"build", "-buildvcs=false", "-ldflags=-w", "-o", into}, more...)
		if raceDetector {
			args = append(args, "-race")
		}
		for _, name := range []string{scheduler, dispatcher, worker, dlq, tool} {
			args = append(args, "duly.dev/duly/cmd/"+name)
		}
		if output, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("building the programs: %w\n%s", err, output)
		}
		return nil
	})
}

// program returns the path of a program.
func program(tb testing.TB, name string) string {
	tb.Helper()
	require.NoError(tb, build())
	return filepath.Join(shared.programs, name)
}

// process is a running program.
type process struct {
	t       *testing.T
	name    string // the program's, and a number
	command *exec.Cmd
	log     *record
	done    chan struct{} // closed once it has ended and was waited for
	// expendable: how it ends is the test's affair.
	expendable bool
}

// processBound is what a process has to become ready, to stop, or to say something.
const processBound = time.Minute

// launch starts a program with the environment and nothing of this process's own.
func launch(t *testing.T, name string, environment []string, path string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, log: &record{}, done: make(chan struct{})}
	p.command = exec.Command(path, args...)
	p.command.Dir = t.TempDir()
	p.command.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.command.Dir, "TMPDIR=" + os.TempDir()}, environment...)
	p.command.Stdout, p.command.Stderr = p.log, p.log
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(p.command.SysProcAttr)
	started := make(chan error)
	go func() {
		// The kernel ends the child when the thread that started it does: this one stays.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.command.Start()
		started <- err
		if err == nil {
			_ = p.command.Wait() // how it ended is in ProcessState
			close(p.done)
		}
	}()
	require.NoError(t, <-started)
	return p
}

// signal sends a signal; a process that is gone takes none.
func (p *process) signal(s syscall.Signal) {
	_ = p.command.Process.Signal(s)
}

// kill ends the process as a crash would, and waits for its end.
func (p *process) kill() {
	p.expendable = true
	p.signal(syscall.SIGKILL)
	<-p.done
}

// pause stops the process in its tracks until resume; it does not know of it.
func (p *process) pause()  { p.signal(syscall.SIGSTOP) }
func (p *process) resume() { p.signal(syscall.SIGCONT) }

// stop tells the process to stop and requires that it does, with exit code 0.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	require.Zero(p.t, p.exit(), "%s: %s", p.name, p.log.last(20))
	p.expendable = true // it has ended as it should
}

// exit waits for the end of the process and returns its exit code.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(processBound):
		require.FailNow(p.t, "a process did not end", "%s: %s", p.name, p.log.last(20))
	}
	return p.command.ProcessState.ExitCode()
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// end is the end of a process that the test has left running.
func (p *process) end() {
	if !p.running() {
		if !p.expendable {
			p.t.Errorf("%s ended by itself: %s: %s", p.name, p.command.ProcessState, p.log.last(20))
		}
		return
	}
	p.resume()
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
		if code := p.command.ProcessState.ExitCode(); code != 0 && !p.expendable {
			p.t.Errorf("%s stopped with exit code %d: %s", p.name, code, p.log.last(20))
		}
	case <-time.After(processBound):
		p.t.Errorf("%s did not stop: %s", p.name, p.log.last(20))
		p.kill()
	}
}

// says waits until the process has written a line with the text.
func (p *process) says(text string) {
	p.t.Helper()
	await(p.t, p.name+" says "+text, processBound, func() bool {
		ended := !p.running()
		said := strings.Contains(p.log.String(), text)
		require.True(p.t, said || !ended, "%s ended before it said %q: %s", p.name, text, p.log.last(20))
		return said
	})
}

// ready waits until the process says that it is.
func (p *process) ready() *process {
	p.t.Helper()
	p.says(`"msg":"running"`)
	await(p.t, p.name+" is ready", processBound, func() bool {
		code, _ := p.admin("/readyz")
		return code == http.StatusOK
	})
	return p
}

// admin asks the process's admin server; the code is 0 where there is no answer.
func (p *process) admin(path string) (code int, body string) {
	var running struct{ Msg, Admin string }
	for line := range strings.Lines(p.log.String()) {
		if json.Unmarshal([]byte(line), &running) == nil && running.Msg == "running" {
			return get("http://" + running.Admin + path)
		}
	}
	return 0, ""
}

func get(url string) (code int, body string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, ""
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return 0, ""
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, ""
	}
	return response.StatusCode, string(content)
}

// record keeps what a process writes.
type record struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (r *record) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buffer.Write(b)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buffer.String()
}

// last returns the last n lines, or what the race detector has found.
func (r *record) last(n int) string {
	lines := strings.Split(strings.TrimSpace(r.String()), "\n")
	if race := slices.Index(lines, "WARNING: DATA RACE"); race >= 0 {
		lines, n = lines[:min(len(lines), race+50)], 50
	}
	return "\n  " + strings.Join(lines[max(0, len(lines)-n):], "\n  ")
}

// await waits until the condition holds, looking often.
func await(t *testing.T, what string, bound time.Duration, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(bound); !holds(); elapse(25 * time.Millisecond) {
		if time.Now().After(end) {
			require.FailNow(t, "waited in vain", "%s: not within %s", what, bound)
		}
	}
}

// elapse lets time go by: where it is time itself that the test is about, or chance.
func elapse(d time.Duration) { <-time.After(d) }
