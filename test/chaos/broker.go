package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"duly.dev/duly/internal/devstack"
	"duly.dev/duly/internal/pause"
)

// The buses.
const (
	busNATS  = "nats"
	busKafka = "kafka"
	busBoth  = "both"
)

// broker is the bus's server, a process that can be ended and emptied.
type broker interface {
	url() string
	// stop ends it as an operator does, kill as a crash.
	stop(ctx context.Context) error
	kill() error
	start(ctx context.Context) error
	// wipe removes all that it has stored; it does not run.
	wipe() error
	pause(paused bool) bool
	close()
}

// mostStored is what the streams of a broker may take together.
const mostStored = 64 << 20

// natsBroker is a NATS server in a process of this program.
type natsBroker struct {
	process *process
	store   string
	port    int
}

// serveBroker is the program of a NATS server.
func serveBroker(args []string) error {
	flags := flag.NewFlagSet("broker", flag.ContinueOnError)
	store := flags.String("store", "", "folder of the streams")
	port := flags.Int("port", 0, "to listen on")
	if err := flags.Parse(args); err != nil {
		return err
	}
	told, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	server, err := devstack.StartNATS(devstack.NATSOptions{StoreDir: *store, Port: *port, MaxStore: mostStored})
	if err != nil {
		return err
	}
	<-told.Done()
	return server.Stop()
}

func newNATS(home string, programs programs) (*natsBroker, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	b := &natsBroker{store: filepath.Join(home, "nats"), port: port}
	b.process = &process{
		name: "broker", path: programs.self, logs: filepath.Join(home, "logs"),
		args: []string{"broker", "-store", b.store, "-port", strconv.Itoa(port)},
	}
	return b, nil
}

func (b *natsBroker) url() string {
	return "nats://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(b.port))
}

func (b *natsBroker) start(ctx context.Context) error {
	if err := b.process.start(); err != nil {
		return err
	}
	return awaitPort(ctx, b.port)
}

func (b *natsBroker) stop(context.Context) error {
	b.process.signal(syscall.SIGTERM, true)
	if !b.process.await(20 * time.Second) {
		return errors.New("the broker did not stop")
	}
	return nil
}

func (b *natsBroker) kill() error {
	if !b.process.kill() {
		return errors.New("the broker did not run")
	}
	return nil
}

func (b *natsBroker) wipe() error { return os.RemoveAll(b.store) }

func (b *natsBroker) pause(paused bool) bool { return pauseProcess(b.process, paused) }

func (b *natsBroker) close() { b.process.retire(20 * time.Second) }

// fill fills the broker's disk up to its bound with a stream of another's, and reports
// whether it was full. What it returns removes the stream.
func (b *natsBroker) fill(ctx context.Context) (full bool, empty func() error, err error) {
	conn, err := nats.Connect(b.url(), nats.Timeout(2*time.Second))
	if err != nil {
		return false, nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return false, nil, err
	}
	const name = "FILLER"
	empty = func() error {
		defer conn.Close()
		bound, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return js.DeleteStream(bound, name)
	}
	bound, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := js.CreateStream(bound, jetstream.StreamConfig{Name: name, Subjects: []string{"filler"}, Storage: jetstream.FileStorage}); err != nil {
		return false, empty, err
	}
	for size := 512 << 10; size > 0; { // ever smaller, until nothing fits any more
		if _, err := js.Publish(bound, "filler", make([]byte, size)); err != nil {
			if _, ok := errors.AsType[jetstream.JetStreamError](err); !ok {
				return false, empty, err
			}
			full = true
			size /= 8
		}
	}
	return full, empty, nil
}

// kafkaBroker is a real Kafka, which scripts/kafka starts.
type kafkaBroker struct {
	root, logs string
	port       int
	command    []string // of the broker, as it was started
	process    *process // that runs it once it was ended
}

func newKafka(p plan, home string) (*kafkaBroker, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	// Brokers of runs at the same time, and their controllers, must not meet.
	return &kafkaBroker{root: root, logs: filepath.Join(home, "logs"), port: 29_300 + 10*(p.number%8)}, nil
}

func (b *kafkaBroker) url() string { return "kafka://127.0.0.1:" + strconv.Itoa(b.port) }

func (b *kafkaBroker) script(ctx context.Context, action string) error {
	output, err := exec.CommandContext(ctx, filepath.Join(b.root, "scripts/kafka"), action, "--port", strconv.Itoa(b.port)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("scripts/kafka %s: %w: %s", action, err, output)
	}
	return nil
}

// start starts it: the first time, and after a wipe, by the script.
func (b *kafkaBroker) start(ctx context.Context) error {
	if b.process != nil {
		if err := b.process.start(); err != nil {
			return err
		}
		return awaitPort(ctx, b.port)
	}
	if err := b.script(ctx, "start"); err != nil {
		return err
	}
	pid, err := b.pid()
	if err != nil {
		return err
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return err
	}
	b.command = strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	return nil
}

func (b *kafkaBroker) pid() (int, error) {
	text, err := os.ReadFile(filepath.Join(os.TempDir(), fmt.Sprintf("duly-kafka-%d", b.port), "1.pid"))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// own makes the broker that the script has started one of ours, which it is once it was
// ended: it is started again as it was.
func (b *kafkaBroker) own(s syscall.Signal) error {
	if b.process != nil {
		if !b.process.signal(s, true) || !b.process.await(30*time.Second) {
			return errors.New("the broker did not end")
		}
		return nil
	}
	pid, err := b.pid()
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, s); err != nil {
		return err
	}
	for end := time.Now().Add(30 * time.Second); syscall.Kill(pid, 0) == nil && !zombie(pid); {
		if time.Now().After(end) {
			return errors.New("the broker did not end")
		}
		<-time.After(20 * time.Millisecond)
	}
	b.process = &process{name: "broker", path: b.command[0], args: b.command[1:], logs: b.logs}
	return nil
}

// zombie reports whether a process has ended that nobody has waited for.
func zombie(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return strings.HasPrefix(rest, "Z")
}

func (b *kafkaBroker) stop(context.Context) error { return b.own(syscall.SIGTERM) }

func (b *kafkaBroker) kill() error { return b.own(syscall.SIGKILL) }

func (b *kafkaBroker) wipe() error {
	b.process = nil
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return b.script(ctx, "stop")
}

func (b *kafkaBroker) pause(paused bool) bool {
	s := syscall.SIGCONT
	if paused {
		s = syscall.SIGSTOP
	}
	if b.process != nil {
		return pauseProcess(b.process, paused)
	}
	pid, err := b.pid()
	return err == nil && syscall.Kill(pid, s) == nil
}

func (b *kafkaBroker) close() {
	if b.process != nil {
		b.process.retire(20 * time.Second)
	}
	_ = b.wipe() // what is left of it is in a temporary folder
}

func pauseProcess(p *process, paused bool) bool {
	if paused {
		return p.signal(syscall.SIGSTOP, false)
	}
	return p.signal(syscall.SIGCONT, false)
}

// freePort is a port on which nobody listens.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// awaitPort waits until somebody listens on the port.
func awaitPort(ctx context.Context, port int) error {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	for end := time.Now().Add(time.Minute); ; {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(end) || !pause.For(ctx, 50*time.Millisecond) {
			return fmt.Errorf("nobody listens on %s: %w", address, err)
		}
	}
}

// moduleRoot is the folder of the repository.
func moduleRoot() (string, error) {
	output, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "duly.dev/duly").Output()
	if err != nil {
		return "", fmt.Errorf("looking for the repository: %w", err)
	}
	return strings.TrimSpace(string(output)), nil
}
