package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// scan is how often a table was read from its beginning to its end.
type scan struct {
	Table string `json:"table"`
	// Pages are the table's size; one of at least bigTable pages is big.
	Pages int64 `json:"pages"`
	Scans int64 `json:"scans"`
	Rows  int64 `json:"rows"`
}

// bigTable is from how many pages of 8 KiB on no loop may read a table whole.
const bigTable = 1000

// scans are the sequential scans of the ledger's tables so far.
func (g *ground) scans(ctx context.Context) ([]scan, error) {
	rows, err := g.pool.Query(ctx, `select relname::text, pg_relation_size(relid) / 8192, seq_scan, seq_tup_read from pg_stat_user_tables where schemaname = 'duly'`)
	if err != nil {
		return nil, fmt.Errorf("asking for scans: %w", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[scan])
	if err != nil {
		return nil, fmt.Errorf("asking for scans: %w", err)
	}
	return all, nil
}

// scansBetween are those that were made between two looks, the largest tables first.
func scansBetween(before, after []scan) []scan {
	was := make(map[string]scan, len(before))
	for _, s := range before {
		was[s.Table] = s
	}
	var all []scan
	for _, s := range after {
		s.Scans, s.Rows = s.Scans-was[s.Table].Scans, s.Rows-was[s.Table].Rows
		if s.Scans > 0 {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b scan) int { return cmp.Or(cmp.Compare(b.Pages, a.Pages), cmp.Compare(a.Table, b.Table)) })
	return all
}
