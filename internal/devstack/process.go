package devstack

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a running child.
type process struct {
	command *exec.Cmd
	output  *tail
	done    chan struct{} // closed once the child has ended and was waited for
	err     error         // how it ended; read only after done
}

// startProcess starts a program in the folder as the account. What it prints
// goes to the log and, in part, into the errors about it.
func startProcess(as *account, folder string, log io.Writer, program string, args ...string) (*process, error) {
	output := &tail{next: log}
	command := exec.Command(program, args...)
	command.Dir = folder
	command.Env = childEnvironment(folder)
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = childAttributes(as)
	// A grandchild that outlives the child must not keep Wait waiting for the
	// end of its output.
	command.WaitDelay = 5 * time.Second

	p := &process{command: command, output: output, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel tells a child that its parent died when the *thread* that
		// started it ends, so this goroutine keeps its thread until then.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := command.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = command.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// run waits for a program that ends by itself, and ends it with ctx.
func run(ctx context.Context, as *account, folder string, log io.Writer, program string, args ...string) error {
	p, err := startProcess(as, folder, log, program, args...)
	if err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		p.signal(os.Kill)
		<-p.done
		return ctx.Err()
	}
	if p.err != nil {
		return p.failure()
	}
	return nil
}

// stop sends the signal and waits for the end of the child, which it forces,
// in two steps, if ctx ends first. It says whether it had to.
func (p *process) stop(ctx context.Context, signal os.Signal) (forced bool) {
	p.signal(signal)
	select {
	case <-p.done:
		return false
	case <-ctx.Done():
	}
	p.signal(syscall.SIGQUIT)
	select {
	case <-p.done:
	case <-time.After(5 * time.Second):
		p.signal(os.Kill)
		<-p.done
	}
	return true
}

// signal cannot fail in a way that matters: a child that is gone closes done.
func (p *process) signal(signal os.Signal) {
	_ = p.command.Process.Signal(signal)
}

// failure is the error of a child that ended, with the last of what it said.
func (p *process) failure() error {
	err := p.err
	if err == nil {
		err = errors.New("it ended by itself")
	}
	if said := p.output.String(); said != "" {
		return errors.Join(err, errors.New(said))
	}
	return err
}

// childEnvironment is what a child needs and no more: nothing that would
// redirect PostgreSQL (PGDATA), no secrets, and messages in English, since
// [Postgres] reads them.
func childEnvironment(folder string) []string {
	environment := []string{"HOME=" + folder, "LC_ALL=C", "TZ=UTC"}
	for _, name := range []string{"PATH", "LD_LIBRARY_PATH", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			environment = append(environment, name+"="+value)
		}
	}
	return environment
}

// tail passes on what is written to it and remembers the end.
type tail struct {
	next io.Writer // may be nil

	mu   sync.Mutex
	kept []byte
}

// tailSize is how much of a child's output an error may show.
const tailSize = 4 << 10

// Write keeps the end of what was written. It never fails: a child must not
// stop because its log cannot be written.
func (t *tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, text...)
	if surplus := len(t.kept) - tailSize; surplus > 0 {
		t.kept = append(t.kept[:0], t.kept[surplus:]...)
	}
	if t.next != nil {
		_, _ = t.next.Write(text)
	}
	return len(text), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(bytes.ToValidUTF8(t.kept, nil)))
}
