package compose

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/app"
)

// Reach waits until the PostgreSQL server at the URL answers, for programs that use it
// before, or whether or not, it has the ledger's schema. A server that refuses is an
// error.
func Reach(ctx context.Context, log *slog.Logger, url string) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return app.Exit(app.ExitUsage, fmt.Errorf("the ledger's URL: %w", err))
	}
	return app.Retry(ctx, log, "the ledger at "+app.Where(url), func(ctx context.Context) error {
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return refused(err)
		}
		return conn.Close(ctx)
	})
}
