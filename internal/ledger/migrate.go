package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // goose works on database/sql
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"duly.dev/duly/migrations"
)

// Migration is one migration and whether the ledger has it.
type Migration struct {
	Version int64  `json:"version"`
	Name    string `json:"name"`
	Applied bool   `json:"applied"`
}

// MigrateUp brings the schema at the URL to the program's version. Several may run
// at once: they wait for each other. It also makes today's partitions, so that no row
// of the first minute goes to a default one.
func MigrateUp(ctx context.Context, url string) error {
	err := withGoose(url, func(p *goose.Provider) error {
		if _, err := p.Up(ctx); err != nil {
			return fmt.Errorf("migrating up: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return fmt.Errorf("opening the ledger: %w", err)
	}
	defer pool.Close()
	return New(pool).firstPartitions(ctx)
}

// Migrations lists every migration that the program knows.
func Migrations(ctx context.Context, url string) ([]Migration, error) {
	var all []Migration
	err := withGoose(url, func(p *goose.Provider) error {
		status, err := p.Status(ctx)
		if err != nil {
			return fmt.Errorf("reading the schema's version: %w", err)
		}
		for _, s := range status {
			all = append(all, Migration{Version: s.Source.Version, Name: s.Source.Path, Applied: s.State == goose.StateApplied})
		}
		return nil
	})
	return all, err
}

// CheckSchema returns nil if the schema is the program's, else an ErrSchema that
// says which of the two is older and what to do.
func CheckSchema(ctx context.Context, url string) error {
	return withGoose(url, func(p *goose.Provider) error {
		has, wants, err := p.GetVersions(ctx)
		if err != nil {
			return fmt.Errorf("reading the schema's version: %w", err)
		}
		switch {
		case has < wants:
			return fmt.Errorf("%w: the ledger has version %d, this program needs %d: run `duly migrate up`", ErrSchema, has, wants)
		case has > wants:
			return fmt.Errorf("%w: the ledger has version %d, this program knows only %d: start a newer program", ErrSchema, has, wants)
		}
		return nil
	})
}

func withGoose(url string, do func(*goose.Provider) error) (err error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return fmt.Errorf("opening the ledger: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return fmt.Errorf("making the migration lock: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS, goose.WithSessionLocker(locker), goose.WithTableName("public.duly_migrations"))
	if err != nil {
		return fmt.Errorf("preparing the migrations: %w", err)
	}
	return do(p)
}
