package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"duly.dev/duly/internal/devstack"
	"github.com/jackc/pgx/v5"
)

// Stack is what all contestants share: one PostgreSQL server, and a folder.
type Stack struct {
	// Dir is a temporary folder; what is in it is removed at the end.
	Dir string

	postgres   *devstack.Postgres
	log        *os.File
	admin      *pgx.Conn
	postmaster int
}

// startStack starts the server. settings replace those of devstack, for everybody.
func startStack(ctx context.Context, settings map[string]string, notice func(string)) (s *Stack, err error) {
	dir, err := os.MkdirTemp("", "duly-bench-*")
	if err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	s = &Stack{Dir: dir}
	defer func() {
		if err != nil {
			_ = s.stop()
		}
	}()
	if s.log, err = os.Create(filepath.Join(dir, "postgres.log")); err != nil {
		return nil, fmt.Errorf("making PostgreSQL's log: %w", err)
	}
	s.postgres, err = devstack.StartPostgres(ctx, devstack.PostgresOptions{Log: s.log, Notice: notice, Settings: settings})
	if err != nil {
		return nil, err
	}
	if s.admin, err = pgx.Connect(ctx, s.postgres.URL()); err != nil {
		return nil, fmt.Errorf("connecting to PostgreSQL: %w", err)
	}
	var backend int
	if err = s.admin.QueryRow(ctx, "select pg_backend_pid()").Scan(&backend); err != nil {
		return nil, fmt.Errorf("asking PostgreSQL for its processes: %w", err)
	}
	s.postmaster, err = parent(backend)
	return s, err
}

// stop ends the server and removes the folder.
func (s *Stack) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var err error
	if s.admin != nil {
		_ = s.admin.Close(ctx)
	}
	if s.postgres != nil {
		err = s.postgres.Stop(ctx)
	}
	if s.log != nil {
		_ = s.log.Close()
	}
	if e := os.RemoveAll(s.Dir); err == nil {
		err = e
	}
	return err
}

// Fresh makes an empty database of this name, dropping the one that was there, and
// returns its URL.
func (s *Stack) Fresh(ctx context.Context, name string) (string, error) {
	if err := s.Drop(ctx, name); err != nil {
		return "", err
	}
	if _, err := s.admin.Exec(ctx, "create database "+pgx.Identifier{name}.Sanitize()); err != nil {
		return "", fmt.Errorf("making the database %s: %w", name, err)
	}
	address, err := url.Parse(s.postgres.URL())
	if err != nil {
		return "", fmt.Errorf("the server's address: %w", err)
	}
	address.Path = "/" + name
	return address.String(), nil
}

// Drop drops the database, if there is one, so that no vacuum of it costs the next
// contestant anything.
func (s *Stack) Drop(ctx context.Context, name string) error {
	if _, err := s.admin.Exec(ctx, "drop database if exists "+pgx.Identifier{name}.Sanitize()+" with (force)"); err != nil {
		return fmt.Errorf("dropping the database %s: %w", name, err)
	}
	return nil
}

// settle gives every measurement an equal start: nothing left to be written, and a heap
// without the garbage of whoever was measured before.
func (s *Stack) settle(ctx context.Context) error {
	if _, err := s.admin.Exec(ctx, "checkpoint"); err != nil {
		return fmt.Errorf("CHECKPOINT: %w", err)
	}
	runtime.GC()
	debug.FreeOSMemory()
	return nil
}

const (
	// calmBelow is the share of the machine that others may use.
	calmBelow = 0.1
	// calmLook is how long is looked, calmPatience how long is waited, for calm.
	calmLook, calmPatience = 250 * time.Millisecond, time.Minute
)

// calm waits until others leave the machine alone, or patience is over: what was measured
// then says so.
func calm(ctx context.Context) error {
	for until := time.Now().Add(calmPatience); time.Now().Before(until); {
		before, err := cpuOfMachine()
		if err != nil {
			return err
		}
		if err := waitFor(ctx, calmLook); err != nil {
			return err
		}
		after, err := cpuOfMachine()
		if err != nil || share(after-before, calmLook) < calmBelow {
			return err
		}
	}
	return nil
}

// wal is how many bytes were written ahead since the cluster was made.
func (s *Stack) wal(ctx context.Context) (bytes int64, err error) {
	err = s.admin.QueryRow(ctx, "select (pg_current_wal_insert_lsn() - '0/0')::bigint").Scan(&bytes)
	if err != nil {
		return 0, fmt.Errorf("asking for the write-ahead log's length: %w", err)
	}
	return bytes, nil
}

// stated are the server's settings that figures depend on.
var stated = []string{
	"fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "wal_level", "wal_compression", "wal_buffers", "commit_delay",
	"shared_buffers", "max_wal_size", "checkpoint_timeout", "max_connections", "autovacuum", "jit", "shared_preload_libraries",
}

// settings asks the server for what was stated, with units.
func (s *Stack) settings(ctx context.Context) ([]Setting, error) {
	var all []Setting
	for _, name := range stated {
		var value string
		if err := s.admin.QueryRow(ctx, "select current_setting($1)", name).Scan(&value); err != nil {
			return nil, fmt.Errorf("asking for the setting %s: %w", name, err)
		}
		all = append(all, Setting{name, value})
	}
	return all, nil
}

// durable refuses a server whose commits can be lost.
func durable(settings []Setting) error {
	for _, s := range settings {
		if (s.Name == "fsync" || s.Name == "synchronous_commit" || s.Name == "full_page_writes") && s.Value != "on" {
			return fmt.Errorf("%s is %s: it must be on, no figure is worth anything without it", s.Name, s.Value)
		}
	}
	return nil
}

// assignments reads name=value.
func assignments(all []string) (map[string]string, error) {
	settings := make(map[string]string, len(all))
	for _, a := range all {
		name, value, ok := strings.Cut(a, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--postgres %q: it must be name=value", a)
		}
		settings[name] = value
	}
	return settings, nil
}
