package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"duly.dev/duly/examples"
	"duly.dev/duly/internal/app"
)

// DevOptions say how to develop.
type DevOptions struct {
	// Dir keeps the state; a later run with the same folder continues.
	Dir string
	// Config is the configuration's file; empty: that of the demonstration.
	Config string
	// Bus is BusNATS (default), BusMemory or BusKafka.
	Bus string
	// Admin is where metrics and health are served, host:port.
	Admin string
}

// addresses are kept in the data folder, so that what was sent to one of them before a
// restart finds it afterwards.
type addresses struct {
	PostgresPort int    `json:"postgres_port"`
	NATSPort     int    `json:"nats_port"`
	Mail         string `json:"mail"`
	Hooks        string `json:"hooks"`
}

// Dev runs the demonstration's stack until ctx ends, on data that stays.
func Dev(ctx context.Context, p *app.Process, o DevOptions) error {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return app.Exit(app.ExitUsage, fmt.Errorf("--data: %w", err))
	}
	o.Dir = dir
	return app.Serve(ctx, p, app.AdminSettings{AdminAddr: o.Admin}, func(ctx context.Context, s *app.Service) error {
		return dev(ctx, s, o)
	})
}

func dev(ctx context.Context, s *app.Service, o DevOptions) error {
	kept := filepath.Join(o.Dir, "addresses.json")
	at, err := readAddresses(kept)
	if err != nil {
		return err
	}
	servers, err := startServers(ctx, s, serverOptions{dir: o.Dir, bus: o.Bus, postgresPort: at.PostgresPort, natsPort: at.NATSPort})
	if err != nil {
		return err
	}
	letters, err := startMail(freeOr(at.Mail), filepath.Join(o.Dir, "received-mail.ndjson"), mailAt, nil)
	if err != nil {
		return err
	}
	s.Stack.Push("mail server", stopServers, letters.stop)
	hooks, err := startHooks(freeOr(at.Hooks), filepath.Join(o.Dir, "received-webhooks.ndjson"))
	if err != nil {
		return err
	}
	s.Stack.Push("receiver of webhooks", stopServers, hooks.stop)
	file, config, err := devConfig(o, letters.address())
	if err != nil {
		return err
	}
	if _, err := servers.addLoops(ctx, s, config, nil); err != nil {
		return err
	}
	at = addresses{Mail: letters.address(), Hooks: hooks.address()}
	at.PostgresPort, at.NATSPort = servers.ports()
	if err := writeAddresses(kept, at); err != nil {
		return err
	}
	return introduce(s, servers, o, file, at)
}

// devConfig is the configuration and the file that it is in.
func devConfig(o DevOptions, mail string) (file string, config *app.Config, err error) {
	file = o.Config
	if file == "" {
		file = filepath.Join(o.Dir, "duly.yaml")
		if err := os.WriteFile(file, renderConfig(examples.Config, mail), 0o644); err != nil {
			return file, nil, fmt.Errorf("writing the configuration: %w", err)
		}
	}
	if file, err = filepath.Abs(file); err != nil {
		return file, nil, err
	}
	config, err = app.LoadConfig(file)
	return file, config, app.Exit(app.ExitUsage, err)
}

// ports are the servers', to be taken again; 0 where there is none.
func (srv *servers) ports() (postgres, nats int) {
	if u, err := url.Parse(srv.postgres.URL()); err == nil {
		postgres, _ = strconv.Atoi(u.Port())
	}
	if srv.nats != nil {
		nats = srv.nats.Port()
	}
	return postgres, nats
}

// introduce prints where everything is.
func introduce(s *app.Service, servers *servers, o DevOptions, config string, at addresses) error {
	busURL := "(in memory, of this process)"
	if servers.nats != nil {
		busURL = servers.nats.URL()
	}
	_, err := fmt.Fprintf(s.Process.Stdout, `
Duly runs: %s, scheduler, dispatcher and worker. State is kept in %s.

  export DULY_DATABASE_URL='%s'
  export DULY_BUS_URL='%s'
  export DULY_CONFIG='%s'

  metrics and health    http://%s/metrics  /livez  /readyz
  mail server           %s  (what it accepts: %s)
  receiver of webhooks  http://%s  (what it did: %s)

Set the three variables in another shell to use duly import, dlq and workers of your own. Ctrl-C stops.

`, servers.describe(), o.Dir, servers.postgres.URL(), busURL, config, s.Admin.Addr(),
		at.Mail, filepath.Join(o.Dir, "received-mail.ndjson"), at.Hooks, filepath.Join(o.Dir, "received-webhooks.ndjson"))
	return err
}

// readAddresses reads the addresses of the run before; the first run takes those of
// the example files.
func readAddresses(path string) (addresses, error) {
	at := addresses{Mail: exampleMail, Hooks: exampleHooks}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return at, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &at)
	}
	if err != nil {
		return at, fmt.Errorf("reading the addresses of the run before: %w", err)
	}
	return at, nil
}

func writeAddresses(path string, at addresses) error {
	content, err := json.MarshalIndent(at, "", "  ")
	if err == nil {
		err = os.WriteFile(path, content, 0o644)
	}
	if err != nil {
		return fmt.Errorf("keeping the addresses: %w", err)
	}
	return nil
}

// freeOr is the address if nobody else has it, else one with a free port.
func freeOr(address string) string {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return "127.0.0.1:0"
	}
	_ = l.Close()
	return address
}
