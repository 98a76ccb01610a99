package ledger

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// queueLists keeps the lists of quarantined and unknown generations in step.
func (l *Ledger) queueLists(ctx context.Context, batch *pgx.Batch, w *writer) error {
	var quarantined, unknown, noQuarantined, noUnknown listRows
	for _, at := range w.order {
		before, row := w.before[at], w.after[at]
		kind, err := l.kindID(ctx, row.Kind.Name)
		if err != nil {
			return err
		}
		switch is, was := listed(row, job.Quarantined), listed(before, job.Quarantined); {
		case is && !was:
			quarantined.add(row, kind, w.details[at])
		case was && !is:
			noQuarantined.add(row, kind, "")
		}
		switch is, was := listed(row, job.Unknown), listed(before, job.Unknown); {
		case is && (!was || row.Closed != before.Closed):
			unknown.add(row, kind, w.details[at])
			unknown.ask(row.BeginAsking(w.now))
		case was && !is:
			noUnknown.add(row, kind, "")
		}
	}
	noQuarantined.queueDrop(batch, "quarantine_drop")
	noUnknown.queueDrop(batch, "unknown_drop")
	if n := len(quarantined.jobs); n > 0 {
		q := quarantined
		batch.Queue(stmt("quarantine_put"), q.jobs, q.generations, q.kinds, slices.Repeat([]time.Time{w.now}, n), q.reasons, q.classes, q.codes, q.prints, q.details)
	}
	if n := len(unknown.jobs); n > 0 {
		u := unknown
		batch.Queue(stmt("unknown_put"), u.jobs, u.generations, u.kinds, slices.Repeat([]time.Time{w.now}, n), u.codes, u.prints, u.details, u.closesAt, u.closed, u.lookups, u.askAt)
	}
	return nil
}

// listed reports whether the list of the state holds the generation.
func listed(r machine.Row, state job.State) bool { return r.Current() && r.State == state }

// listRows are rows of the quarantine and unknown lists, column by column.
type listRows struct {
	jobs                    []int64
	generations             []int32
	kinds                   []int16
	reasons, prints         []string
	classes, codes, details []*string
	closesAt                []time.Time
	closed                  []bool
	lookups                 []*string
	askAt                   []*time.Time
}

func (s *listRows) add(r machine.Row, kind int16, detail string) {
	s.jobs, s.generations, s.kinds = append(s.jobs, r.Job), append(s.generations, r.Generation), append(s.kinds, kind)
	s.reasons = append(s.reasons, string(r.Reason))
	s.prints = append(s.prints, job.Fingerprint(r.Kind.Name, r.LastClass, r.LastCode, detail))
	s.classes, s.codes, s.details = append(s.classes, orNull(r.LastClass)), append(s.codes, orNull(r.LastCode)), append(s.details, orNull(detail))
	s.closesAt = append(s.closesAt, r.DoubtSince.Add(r.Promises.ResolveWithin))
	s.closed = append(s.closed, r.Closed)
}

// ask is how the row added last is asked about.
func (s *listRows) ask(a machine.Asking) {
	s.lookups, s.askAt = append(s.lookups, orNull(a.Means)), append(s.askAt, null(a.NextAt))
}

func (s *listRows) queueDrop(batch *pgx.Batch, statement string) {
	if len(s.jobs) > 0 {
		batch.Queue(stmt(statement), s.jobs, s.generations)
	}
}
