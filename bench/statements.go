package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// preload are the settings of a server that keeps count of its statements. They cost
// everything that is measured on it the same few per cent.
func preload() map[string]string {
	return map[string]string{
		"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track": "top",
		"pg_stat_statements.max": "10000", "track_io_timing": "off",
	}
}

// statement is what pg_stat_statements has counted of a statement.
type statement struct {
	Name  string `json:"name"`
	Calls int64  `json:"calls"`
	Rows  int64  `json:"rows"`
	// Millis is the time of all calls together.
	Millis float64 `json:"total_ms"`
	WAL    int64   `json:"wal_bytes"`
	// Median is the median of the mean times of the seconds in which it ran: the server
	// keeps no median itself, and one checkpoint does not move this one.
	Median float64 `json:"median_ms"`
}

// Mean is the mean time of a call, in milliseconds.
func (s statement) Mean() float64 { return s.Millis / float64(max(1, s.Calls)) }

// statementsWatch counts the statements of one database from its start to its end.
type statementsWatch struct {
	conn     *pgx.Conn
	database string
	names    statementNames
	seconds  []map[string]statement // totals so far, by name
	end      context.CancelFunc
	ended    chan error
}

// watchStatements starts to count.
func watchStatements(ctx context.Context, s *Stack, database string) (*statementsWatch, error) {
	names, err := readStatementNames("../internal/ledger")
	if err != nil {
		return nil, err
	}
	w := &statementsWatch{database: database, names: names, ended: make(chan error, 1)}
	if w.conn, err = pgx.Connect(ctx, s.postgres.URL()); err != nil {
		return nil, fmt.Errorf("connecting to PostgreSQL: %w", err)
	}
	if _, err = w.conn.Exec(ctx, "create extension if not exists pg_stat_statements; select pg_stat_statements_reset()"); err != nil {
		return nil, fmt.Errorf("beginning to count statements: %w", err)
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w.end = cancel
	go func() {
		for waitFor(running, time.Second) == nil {
			if err := w.look(ctx); err != nil {
				w.ended <- err
				return
			}
		}
		w.ended <- nil
	}()
	return w, nil
}

// look notes the totals of now.
func (w *statementsWatch) look(ctx context.Context) error {
	rows, err := w.conn.Query(ctx, `select s.query, s.calls, s.rows, s.total_exec_time, s.wal_bytes::bigint
		from pg_stat_statements s join pg_database d on d.oid = s.dbid where d.datname = $1`, w.database)
	if err != nil {
		return fmt.Errorf("counting statements: %w", err)
	}
	now := make(map[string]statement)
	var one statement
	var text string
	_, err = pgx.ForEachRow(rows, []any{&text, &one.Calls, &one.Rows, &one.Millis, &one.WAL}, func() error {
		name := w.names.of(text)
		sum := now[name]
		now[name] = statement{Name: name, Calls: sum.Calls + one.Calls, Rows: sum.Rows + one.Rows, Millis: sum.Millis + one.Millis, WAL: sum.WAL + one.WAL}
		return nil
	})
	if err != nil {
		return fmt.Errorf("counting statements: %w", err)
	}
	w.seconds = append(w.seconds, now)
	return nil
}

// stop ends it and returns what was counted, the dearest first.
func (w *statementsWatch) stop(ctx context.Context) ([]statement, error) {
	w.end()
	err := <-w.ended
	if err == nil {
		err = w.look(ctx)
	}
	if e := w.conn.Close(ctx); err == nil {
		err = e
	}
	return summarise(w.seconds), err
}

// summarise makes of the totals of each second those of all, with medians.
func summarise(seconds []map[string]statement) []statement {
	if len(seconds) == 0 {
		return nil
	}
	means := make(map[string][]float64)
	before := make(map[string]statement)
	for _, now := range seconds {
		for name, s := range now {
			if calls := s.Calls - before[name].Calls; calls > 0 {
				means[name] = append(means[name], (s.Millis-before[name].Millis)/float64(calls))
			}
		}
		before = now
	}
	all := make([]statement, 0, len(before))
	for name, s := range before {
		s.Median = spread(means[name]).Median
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b statement) int { return cmp.Or(cmp.Compare(b.Millis, a.Millis), cmp.Compare(a.Name, b.Name)) })
	return all
}

// statementNames finds the ledger's name of a statement by the comment above it, which the
// server keeps where it replaces every constant.
type statementNames map[string]string

// readStatementNames reads the ledger's statements from the sources.
func readStatementNames(folder string) (statementNames, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.sql"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("there is no .sql file in %s: run this in the folder bench of the sources", folder)
	}
	names := make(statementNames)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, part := range strings.Split("\n"+string(text), "\n-- name: ")[1:] {
			name, body, _ := strings.Cut(part, "\n")
			names[comment(body)] = strings.TrimSpace(name)
		}
	}
	return names, nil
}

// comment is the comment that a statement begins with.
func comment(text string) string {
	var lines []string
	for line := range strings.Lines(strings.TrimSpace(text)) {
		if !strings.HasPrefix(line, "--") {
			break
		}
		lines = append(lines, strings.TrimSpace(strings.TrimPrefix(line, "--")))
	}
	return strings.Join(lines, " ")
}

// of names a statement; one that is not the ledger's, by how it begins.
func (n statementNames) of(text string) string {
	if name, ok := n[comment(text)]; ok {
		return name
	}
	words := strings.Fields(text)
	return strings.ToLower(strings.Join(words[:min(len(words), 5)], " "))
}
