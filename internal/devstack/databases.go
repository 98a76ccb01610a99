package devstack

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Databases makes databases on one server, each a copy of one that was prepared once. Its
// methods may be called from several goroutines at once.
type Databases struct {
	address  *url.URL // of a database that exists
	admin    *pgxpool.Pool
	template string // the database that is copied, and the prefix of the copies
	copies   atomic.Int64
}

// OpenDatabases makes a database on the server at the URL (postgres://…), whose role may
// create some, and has prepare fill it. The names of all begin with the prefix. The caller
// must call Close.
func OpenDatabases(ctx context.Context, address, prefix string, prepare func(ctx context.Context, address string) error) (_ *Databases, err error) {
	d := &Databases{template: prefix + "_" + strings.ToLower(rand.Text()[:12])}
	if d.address, err = url.Parse(address); err != nil {
		return nil, fmt.Errorf("the URL of the server: %w", errors.Unwrap(err)) // its own text quotes the password
	}
	if d.admin, err = pgxpool.New(ctx, address); err != nil {
		return nil, err
	}
	if err = d.exec(ctx, "create database "+quoted(d.template)); err != nil {
		d.admin.Close()
		return nil, err
	}
	if err = prepare(ctx, d.url(d.template)); err != nil {
		return nil, errors.Join(err, d.Close(ctx))
	}
	return d, nil
}

// Close drops the database that was prepared; copies are their makers' to drop.
func (d *Databases) Close(ctx context.Context) error {
	err := d.drop(ctx, d.template)
	d.admin.Close()
	return err
}

// Create makes a copy, and returns its URL and what drops it, whoever is still connected.
func (d *Databases) Create(ctx context.Context) (address string, drop func(context.Context) error, err error) {
	name := fmt.Sprintf("%s_%d", d.template, d.copies.Add(1))
	if err := d.exec(ctx, "create database "+quoted(name)+" template "+quoted(d.template)); err != nil {
		return "", nil, err
	}
	return d.url(name), func(ctx context.Context) error { return d.drop(ctx, name) }, nil
}

func (d *Databases) drop(ctx context.Context, name string) error {
	return d.exec(ctx, "drop database if exists "+quoted(name)+" with (force)")
}

func (d *Databases) exec(ctx context.Context, statement string) error {
	if _, err := d.admin.Exec(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

// url returns the URL of a database of the server.
func (d *Databases) url(name string) string {
	address := *d.address
	address.Path = "/" + name
	return address.String()
}

func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }
