package ledger

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// The flags of a job row.
const (
	flagCancel = 1 << iota
	flagClosed
	flagAnnounced
	flagReported
	flagPinned
)

// stored is a job row as its columns are, in the order in which every statement that
// reads whole rows lists them.
type stored struct {
	ID           int64
	Generation   int32
	Kind         int16
	State        string
	Waiting      *string
	Hold         *string
	Reason       *string
	Attempt      int32
	Unclassified int32
	Fence        int64
	Emission     int32
	CreatedAt    time.Time
	OriginAt     *time.Time
	FirstReadyAt *time.Time
	DueAt        time.Time
	Deadline     *time.Time
	WakeAt       *time.Time
	Worker       *string
	LeasedAt     *time.Time
	LeaseLimit   *time.Duration
	DoubtSince   *time.Time
	DoubtUntil   *time.Time
	Terms        *int16
	Flags        int16
	Successor    *int32
	LastClass    *string
	LastCode     *string
}

// scanInto lists where these columns go.
func (s *stored) scanInto() []any {
	return []any{
		&s.ID, &s.Generation, &s.Kind, &s.State, &s.Waiting, &s.Hold, &s.Reason, &s.Attempt, &s.Unclassified,
		&s.Fence, &s.Emission, &s.CreatedAt, &s.OriginAt, &s.FirstReadyAt, &s.DueAt, &s.Deadline, &s.WakeAt,
		&s.Worker, &s.LeasedAt, &s.LeaseLimit, &s.DoubtSince, &s.DoubtUntil, &s.Terms, &s.Flags, &s.Successor,
		&s.LastClass, &s.LastCode,
	}
}

// row makes the machine's row of it.
func (l *Ledger) row(ctx context.Context, s stored) (machine.Row, error) {
	kind, err := l.kindByID(ctx, s.Kind)
	if err != nil {
		return machine.Row{}, err
	}
	r := machine.Row{
		Job: s.ID, Generation: s.Generation, Kind: kind,
		State: job.State(s.State), Waiting: job.Waiting(value(s.Waiting)), Hold: job.Hold(value(s.Hold)), Reason: job.Reason(value(s.Reason)),
		Attempt: s.Attempt, Unclassified: s.Unclassified, Fence: s.Fence, Emission: s.Emission,
		Created: s.CreatedAt, Origin: value(s.OriginAt), FirstReady: value(s.FirstReadyAt), Due: s.DueAt,
		Deadline: value(s.Deadline), WakeAt: value(s.WakeAt),
		Worker: value(s.Worker), LeasedAt: value(s.LeasedAt), Limit: value(s.LeaseLimit),
		DoubtSince: value(s.DoubtSince), DoubtUntil: value(s.DoubtUntil),
		Pinned: s.Flags&flagPinned != 0, CancelRequested: s.Flags&flagCancel != 0, Closed: s.Flags&flagClosed != 0, Announced: s.Flags&flagAnnounced != 0, Reported: s.Flags&flagReported != 0,
		Successor: value(s.Successor), LastClass: job.Class(value(s.LastClass)), LastCode: job.Code(value(s.LastCode)),
	}
	if s.Terms != nil {
		t, err := l.termsByID(ctx, *s.Terms)
		if err != nil {
			return machine.Row{}, err
		}
		r.Fixed, r.Channel, r.Promises = true, t.channel, t.promises
	}
	return r, nil
}

func flags(r machine.Row) int16 {
	var f int16
	if r.CancelRequested {
		f |= flagCancel
	}
	if r.Closed {
		f |= flagClosed
	}
	if r.Announced {
		f |= flagAnnounced
	}
	if r.Reported {
		f |= flagReported
	}
	if r.Pinned {
		f |= flagPinned
	}
	return f
}

// rowsOf collects machine rows from a query of whole rows.
func (l *Ledger) rowsOf(ctx context.Context, rows pgx.Rows) ([]machine.Row, error) {
	raw, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (stored, error) {
		var s stored
		return s, r.Scan(s.scanInto()...)
	})
	if err != nil {
		return nil, err
	}
	all := make([]machine.Row, len(raw))
	for i, s := range raw {
		if all[i], err = l.row(ctx, s); err != nil {
			return nil, err
		}
	}
	return all, nil
}
