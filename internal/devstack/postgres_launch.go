package devstack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The superuser, and the database that URL leads to.
const (
	superuser   = "duly"
	database    = "duly"
	maintenance = "postgres" // the database that always exists
)

// settings are the settings of the server, given to it at every start.
func (p *Postgres) settings() map[string]string {
	settings := map[string]string{
		"cluster_name":            "duly",
		"listen_addresses":        loopback,
		"port":                    strconv.Itoa(p.port),
		"unix_socket_directories": "",
		"max_connections":         "200",

		"fsync":              "on",
		"synchronous_commit": "on",
		"full_page_writes":   "on",

		"shared_buffers": "256MB",
		"max_wal_size":   "2GB",
		"jit":            "off", // no statement is long enough to repay compilation
		"timezone":       "UTC",
		"log_timezone":   "UTC",

		// What a statement held stays out of the log.
		"log_error_verbosity":     "terse",
		"log_min_error_statement": "panic",
		"log_statement":           "none",
	}
	if p.options.UnsafeNoSync {
		settings["fsync"] = "off"
		settings["full_page_writes"] = "off" // they protect against crashes of the machine alone
	}
	maps.Copy(settings, p.options.Settings)
	return settings
}

// launch starts the server once and waits until it accepts connections. With
// an error it returns the process that ended, if there was one.
func (p *Postgres) launch(ctx context.Context) (*process, error) {
	args := []string{"-D", p.cluster()}
	settings := p.settings()
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	process, err := startProcess(p.account, p.folder, p.options.Log, p.binaries.program("postgres"), args...)
	if err != nil {
		return nil, err
	}
	if err := p.awaitReady(ctx, process); err != nil {
		process.stop(ctx, syscall.SIGINT)
		return process, err
	}
	return process, nil
}

// patienceOnRefusal is how long a server may refuse the password: one that
// took our port in the same moment does, until our own ends for want of it.
const patienceOnRefusal = 10 * time.Second

// awaitReady waits until the server accepts connections, however long it has
// to recover, and makes the database if it is missing.
func (p *Postgres) awaitReady(ctx context.Context, process *process) error {
	conn, err := p.dialPatiently(ctx, process)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return ensureDatabase(ctx, conn)
}

func (p *Postgres) dialPatiently(ctx context.Context, process *process) (*pgx.Conn, error) {
	begun := time.Now()
	for {
		conn, err := p.dial(ctx, process)
		if err == nil {
			return conn, nil
		}
		var refused *pgconn.PgError
		if errors.As(err, &refused) && refused.Code == "28P01" && time.Since(begun) > patienceOnRefusal {
			return nil, fmt.Errorf("the password in %s does not open the cluster beside it: %w", p.folder, err)
		}
		select {
		case <-process.done:
			return nil, process.failure()
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// dial connects to the server, as long as its process runs, and makes sure that
// it is ours: another one may have taken the port first.
func (p *Postgres) dial(ctx context.Context, process *process) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	go func() {
		select {
		case <-process.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	conn, err := pgx.Connect(ctx, p.databaseURL(maintenance))
	if err != nil {
		return nil, err
	}
	var folder string
	err = conn.QueryRow(ctx, "select current_setting('data_directory')").Scan(&folder)
	if err == nil && folder != p.cluster() {
		err = fmt.Errorf("the server on port %d keeps its data in %s", p.port, folder)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return conn, nil
}

// ensureDatabase makes the database "duly" if it is missing.
func ensureDatabase(ctx context.Context, conn *pgx.Conn) error {
	var exists bool
	err := conn.QueryRow(ctx, "select exists(select from pg_database where datname = $1)", database).Scan(&exists)
	if err == nil && !exists {
		_, err = conn.Exec(ctx, "create database "+pgx.Identifier{database}.Sanitize())
	}
	if err != nil {
		return fmt.Errorf("making the database %q: %w", database, err)
	}
	return nil
}

func (p *Postgres) databaseURL(name string) string {
	address := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, p.password),
		Host:     net.JoinHostPort(loopback, strconv.Itoa(p.port)),
		Path:     "/" + name,
		RawQuery: "sslmode=disable",
	}
	return address.String()
}
