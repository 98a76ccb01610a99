package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// ServerSettings returns the settings of the server that decide whether what it
// acknowledged survives, and how fast it is: a figure without them says nothing.
func (l *Ledger) ServerSettings(ctx context.Context) (map[string]string, error) {
	rows, err := l.pool.Query(ctx, stmt("server_settings"))
	if err != nil {
		return nil, fmt.Errorf("reading the server's settings: %w", err)
	}
	settings := make(map[string]string)
	var name, value string
	if _, err := pgx.ForEachRow(rows, []any{&name, &value}, func() error { settings[name] = value; return nil }); err != nil {
		return nil, fmt.Errorf("reading the server's settings: %w", err)
	}
	return settings, nil
}
