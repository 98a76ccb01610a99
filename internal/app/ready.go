package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// ReadyCommand is a command that asks a process whether it is ready, for images that
// hold no other client: `duly ready --url http://127.0.0.1:9090/readyz`.
type ReadyCommand struct {
	URL     string        `name:"url" default:"http://127.0.0.1:9090/readyz" placeholder:"URL" help:"Where the process answers (${default})."`
	Timeout time.Duration `default:"4s" placeholder:"DURATION" help:"Longest wait for the answer (${default})."`
}

// Run prints what the process answers. It fails with ExitFailed when the process is
// not ready, and with ExitUnavailable when it does not answer.
func (c *ReadyCommand) Run(ctx context.Context, p *Process) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL, nil)
	if err != nil {
		return Exit(ExitUsage, fmt.Errorf("--url: %w", err))
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return Exit(ExitUnavailable, err)
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(p.Stdout, io.LimitReader(response.Body, 64<<10)); err != nil {
		return Exit(ExitUnavailable, fmt.Errorf("reading the answer: %w", err))
	}
	if response.StatusCode != http.StatusOK {
		return errors.New("not ready: the process answers " + response.Status)
	}
	return nil
}
