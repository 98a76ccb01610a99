package importer

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/calendar"
	"duly.dev/duly/pkg/duly"
	"duly.dev/duly/pkg/job"
)

// Rules are what the configuration says about requests: limits, known kinds, and what
// the kinds' channels can use.
func Rules(config *app.Config) (job.Limits, app.Checkers, error) {
	checkers, err := config.Checkers()
	limits := job.Limits{
		MaxPayload: config.MaxPayload,
		KnownKind:  func(kind string) bool { _, ok := config.Kind(kind); return ok },
		KnownZone:  calendar.KnownZone,
	}
	return limits, checkers, err
}

// LedgerDoor is the door for producers in Go, a transaction a batch.
type LedgerDoor struct {
	pool   *pgxpool.Pool
	client *duly.Client
}

// NewLedgerDoor makes a door to the ledger on the pool, which takes payloads up to
// maxPayload bytes.
func NewLedgerDoor(pool *pgxpool.Pool, maxPayload int) *LedgerDoor {
	return &LedgerDoor{pool, duly.NewClient(pool, duly.MaxPayload(maxPayload))}
}

// Enqueue takes a batch in a transaction of its own.
func (d *LedgerDoor) Enqueue(ctx context.Context, specs []job.Spec) ([]Accepted, error) {
	var all []duly.Scheduled
	err := pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) (err error) {
		all, err = d.client.ScheduleMany(ctx, tx, specs)
		return err
	})
	if err != nil {
		return nil, err
	}
	answers := make([]Accepted, len(all))
	for i, s := range all {
		answers[i] = Accepted{Created: s.Status == duly.Created, Refused: s.Reason}
	}
	return answers, nil
}
