package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"duly.dev/duly/internal/app"
)

// receiveCommand is the receiver's own process. It ends when its standard input does, and
// then prints how many requests it took.
type receiveCommand struct{}

// Run serves.
func (receiveCommand) Run(p *app.Process) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	var taken atomic.Int64
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		taken.Add(1)
		w.WriteHeader(http.StatusNoContent)
	})}
	go func() { _ = server.Serve(listener) }()
	fmt.Fprintln(p.Stdout, listener.Addr())
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	fmt.Fprintln(p.Stdout, taken.Load())
	return server.Close()
}

// receiver is such a process, seen from here.
type receiver struct {
	url     string
	process *exec.Cmd
	in      io.Closer
	out     *bufio.Reader
}

// startReceiver starts this program again, as a receiver.
func startReceiver(ctx context.Context) (*receiver, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("looking for this program: %w", err)
	}
	r := &receiver{process: exec.CommandContext(context.WithoutCancel(ctx), program, "receive")}
	r.process.Stderr = os.Stderr
	if r.in, err = r.process.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := r.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	r.out = bufio.NewReader(out)
	if err := r.process.Start(); err != nil {
		return nil, fmt.Errorf("starting a receiver: %w", err)
	}
	address, err := r.out.ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("waiting for the receiver: %w", err), r.stop())
	}
	r.url = "http://" + strings.TrimSpace(address) + "/"
	return r, nil
}

// check ends the receiver and asks how many requests it took.
func (r *receiver) check(wanted int) error {
	if err := r.in.Close(); err != nil {
		return err
	}
	line, err := r.out.ReadString('\n')
	if err != nil {
		return fmt.Errorf("asking the receiver: %w", err)
	}
	taken, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return fmt.Errorf("asking the receiver: %w", err)
	}
	if taken != wanted {
		return fmt.Errorf("%w: the receiver took %d requests, %d jobs were delivered", errWrongCount, taken, wanted)
	}
	return nil
}

// stop ends the receiver.
func (r *receiver) stop() error {
	_ = r.in.Close()
	if err := r.process.Wait(); err != nil {
		return fmt.Errorf("stopping the receiver: %w", err)
	}
	return nil
}
