package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/machine"
)

// figureLeases bounds the lease rows that Figures looks at.
const figureLeases = 20

// Figures measures the ledger as a whole, with counts that go no further than most. It
// reads small tables and the ends of indexes; its cost does not grow with the ledger.
func (l *Ledger) Figures(ctx context.Context, most int) (machine.Figures, error) {
	var f machine.Figures
	var unknown, quarantined, due *time.Duration
	var held *int64
	err := l.seek(ctx, l.pool, func(r pgx.BatchResults) error {
		return r.QueryRow().Scan(&f.UnknownOpen, &f.Quarantined, &unknown, &quarantined, &due, &f.Workers, &f.Strays, &held)
	}, stmt("figures"), most)
	if err != nil {
		return f, fmt.Errorf("measuring the ledger: %w", err)
	}
	f.OldestUnknown, f.OldestQuarantined, f.OldestDue, f.HeldXIDs = value(unknown), value(quarantined), value(due), value(held)
	var cleanup *time.Duration
	err = l.seek(ctx, l.pool, func(r pgx.BatchResults) error {
		return r.QueryRow().Scan(&f.CleanupsDue, &f.CleanupsOverdue, &f.CleanupsFailing, &f.CleanupsParked, &cleanup)
	}, stmt("cleanup_figures"), most, machine.CleanupOverdue)
	if err != nil {
		return f, fmt.Errorf("measuring the cleanups: %w", err)
	}
	f.OldestCleanup = value(cleanup)
	err = l.seek(ctx, l.pool, func(r pgx.BatchResults) error { return r.QueryRow().Scan(&f.CleanupsGateless) }, stmt("cleanup_gateless"), most)
	if err != nil {
		return f, fmt.Errorf("measuring the cleanups without a gate: %w", err)
	}
	var rows int
	var running, youngest *time.Duration
	err = l.seek(ctx, l.pool, func(r pgx.BatchResults) error {
		return r.QueryRow().Scan(&rows, &running, &youngest)
	}, stmt("figures_lease"), figureLeases)
	if err != nil {
		return f, fmt.Errorf("measuring the leases: %w", err)
	}
	if f.OldestLease = value(running); running == nil && rows == figureLeases {
		f.OldestLease = value(youngest) // whatever runs is younger than what was looked at
	}
	return f, nil
}

// Now is the ledger's clock.
func (l *Ledger) Now(ctx context.Context) (time.Time, error) {
	var now time.Time
	if err := l.pool.QueryRow(ctx, stmt("clock")).Scan(&now); err != nil {
		return now, fmt.Errorf("reading the ledger's clock: %w", err)
	}
	return now, nil
}
