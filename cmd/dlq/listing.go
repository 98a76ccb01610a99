package main

import (
	"context"
	"fmt"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/ledger"
)

// listing is a list that is asked of the ledger and printed: as JSON, as a table, or, where
// there is nothing, as a word about that.
type listing[T any] struct {
	name    string // in JSON
	ask     func(*ledger.Ledger) ([]T, error)
	none    string
	heading []string
	row     func(T) []string
}

func (l listing[T]) show(ctx context.Context, p *app.Process, s *shared) error {
	from, closing, err := s.open(ctx, p)
	defer closing()
	if err != nil {
		return err
	}
	all, err := l.ask(from)
	switch {
	case err != nil:
		return err
	case s.JSON && all == nil:
		return printJSON(p.Stdout, map[string][]T{l.name: {}})
	case s.JSON:
		return printJSON(p.Stdout, map[string][]T{l.name: all})
	case len(all) == 0:
		_, err := fmt.Fprintln(p.Stdout, l.none)
		return err
	}
	rows := make([][]string, len(all))
	for i, one := range all {
		rows[i] = l.row(one)
	}
	return table(p.Stdout, l.heading, rows)
}
