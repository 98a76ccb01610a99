package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// A clock that can be stepped: the ledger's database finds now() and clock_timestamp() in a
// schema that stands before the server's own functions, and that adds what a table says.
const steppableClock = `
CREATE SCHEMA chaos_clock;
CREATE TABLE chaos_clock.step (one boolean PRIMARY KEY DEFAULT true CHECK (one), by interval NOT NULL);
INSERT INTO chaos_clock.step (by) VALUES ('0');
CREATE FUNCTION chaos_clock.now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
    AS 'SELECT pg_catalog.now() + (SELECT by FROM chaos_clock.step WHERE one)';
CREATE FUNCTION chaos_clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE
    AS 'SELECT pg_catalog.clock_timestamp() + (SELECT by FROM chaos_clock.step WHERE one)';
ALTER DATABASE duly SET search_path = public, chaos_clock, pg_catalog;
`

// makeClock prepares a new, empty database.
func makeClock(ctx context.Context, url string) error {
	return onServer(ctx, url, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, steppableClock)
		return err
	})
}

// step sets the database's clock apart from the machine's, and returns what it says of now.
func step(ctx context.Context, url string, by time.Duration) (says time.Time, err error) {
	err = onServer(ctx, url, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, "UPDATE chaos_clock.step SET by = $1", by); err != nil {
			return err
		}
		return conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&says)
	})
	return says, err
}

// onServer does something on a connection of its own.
func onServer(ctx context.Context, url string, do func(*pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connecting to the server: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return do(conn)
}
