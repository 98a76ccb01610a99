package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/pkg/handler"
	"duly.dev/duly/pkg/worker"
)

// buildPrograms builds programs of the product into the folder, as scripts/build does.
func buildPrograms(ctx context.Context, folder string, names ...string) error {
	args := []string{"build", "-trimpath", "-ldflags=-s -w", "-o", folder + string(filepath.Separator)}
	for _, name := range names {
		args = append(args, "./cmd/"+name)
	}
	build := exec.CommandContext(ctx, "go", args...)
	build.Dir, build.Env = "..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w: %s", strings.Join(names, ", "), err, out)
	}
	return nil
}

// workCommand is a worker of one's own, as pkg/worker's documentation shows it, with a
// handler that does nothing, in a process of its own.
type workCommand struct{}

// Run works until it is told to stop.
func (workCommand) Run(ctx context.Context, p *app.Process) error {
	nothing := handler.Func(func(context.Context, handler.Job) error { return nil })
	return worker.Run(ctx, worker.Config{Log: p.Log}, worker.Handlers{dulyKind: nothing})
}

// program is a running program of the product.
type program struct {
	name    string
	process *exec.Cmd
	log     bytes.Buffer
	admin   string
	watched sync.WaitGroup
	end     context.CancelFunc

	mu         sync.Mutex
	goroutines int // the most that were seen
}

// startProgram starts a program with the configuration text, on the ground's ledger and
// broker, and watches it.
func startProgram(ctx context.Context, g *ground, path, config string, args ...string) (*program, error) {
	admin, err := freeAddress()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(g.stack.Dir, filepath.Base(path)+".yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	p := &program{name: filepath.Base(path), admin: admin, process: exec.CommandContext(context.WithoutCancel(ctx), path, args...)}
	p.process.Stdout, p.process.Stderr = &p.log, &p.log
	p.process.Env = append(os.Environ(), "DULY_DATABASE_URL="+g.url, "DULY_BUS_URL="+g.nats.URL(), "DULY_CONFIG="+file, "DULY_ADMIN_ADDR="+admin)
	if err := p.process.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.name, err)
	}
	watching, end := context.WithCancel(context.WithoutCancel(ctx))
	p.end = end
	p.watched.Go(func() { p.watch(watching) })
	return p, nil
}

// freeAddress is one of this machine that nobody listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("looking for a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

// watch notes how many goroutines there are, again and again.
func (p *program) watch(ctx context.Context) {
	for waitFor(ctx, 500*time.Millisecond) == nil {
		n, err := p.metric(ctx, "go_goroutines")
		if err != nil {
			continue // it starts, or it ends
		}
		p.mu.Lock()
		p.goroutines = max(p.goroutines, int(n))
		p.mu.Unlock()
	}
}

// metric asks the process for one of its metrics.
func (p *program) metric(ctx context.Context, name string) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.admin+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	client := http.Client{Timeout: 10 * time.Second}
	answer, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, errors.Join(fmt.Errorf("there is no metric %s", name), lines.Err())
}

// footprint is how large a process became.
type footprint struct {
	// Peak is the most resident memory that it ever had, in bytes (VmHWM).
	Peak int64 `json:"peak_rss_bytes"`
	// Goroutines is the most that were seen, twice a second.
	Goroutines int `json:"goroutines"`
}

// stop orders the program to stop, after it was asked how large it became.
func (p *program) stop() (footprint, error) {
	p.end()
	p.watched.Wait()
	f := footprint{Goroutines: p.goroutines}
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.process.Process.Pid), "status"))
	if err == nil {
		f.Peak, err = peakOf(status)
	}
	_ = p.process.Process.Signal(syscall.SIGTERM)
	if e := p.process.Wait(); e != nil {
		err = errors.Join(err, fmt.Errorf("%s ended: %w: %s", p.name, e, tail(p.log.Bytes(), 2000)))
	}
	return f, err
}

// tail is the end of a text.
func tail(text []byte, n int) []byte { return text[max(0, len(text)-n):] }

// peakOf reads VmHWM from /proc/PID/status.
func peakOf(status []byte) (int64, error) {
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte("VmHWM:")); ok {
			kilobytes, err := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte("kB")))), 10, 64)
			return kilobytes << 10, err
		}
	}
	return 0, errStat
}
