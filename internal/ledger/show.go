package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// maxShownEvents bounds the events of a story: a job that is held again and again
// has many.
const maxShownEvents = 500

// Show returns everything that the ledger keeps about a job, read from one snapshot;
// job.ErrNotFound where there is none of this kind and key. Of a job that was removed
// after its retention it knows the last state.
func (l *Ledger) Show(ctx context.Context, kind, key string) (machine.Story, error) {
	var story machine.Story
	err := l.reading(ctx, "reading "+kind+"/"+key, func(tx pgx.Tx) error {
		found, at, err := l.find(ctx, tx, kind, key, false)
		story = found
		if err != nil || found.Removed {
			return err
		}
		if err := l.showEvents(ctx, tx, &story); err != nil {
			return err
		}
		if err := l.showRedrives(ctx, tx, &story); err != nil {
			return err
		}
		if story.Cleanup, err = scanCleanup(tx.QueryRow(ctx, stmt("cleanup_show"), at.job)); err != nil {
			return err
		}
		return l.showUnsendable(ctx, tx, at.job, &story)
	})
	return story, err
}

// Find returns a job's current generation, without what happened; job.ErrNotFound
// where there is none of this kind and key.
func (l *Ledger) Find(ctx context.Context, kind, key string) (machine.Story, error) {
	var story machine.Story
	err := l.reading(ctx, "finding "+kind+"/"+key, func(tx pgx.Tx) (err error) {
		story, _, err = l.find(ctx, tx, kind, key, true)
		return err
	})
	return story, err
}

// reading runs do on one snapshot.
func (l *Ledger) reading(ctx context.Context, doing string, do func(pgx.Tx) error) error {
	err := pgx.BeginTxFunc(ctx, l.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, do)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// find reads a job's rows, or the current one alone.
func (l *Ledger) find(ctx context.Context, tx pgx.Tx, kind, key string, current bool) (machine.Story, whereabouts, error) {
	at, err := l.locate(ctx, tx, kind, key)
	if err != nil {
		return machine.Story{}, at, err
	}
	story := machine.Story{Job: at.job, Kind: machine.Kind{Name: kind}, Key: key}
	if err := tx.QueryRow(ctx, stmt("clock")).Scan(&story.Now); err != nil {
		return story, at, fmt.Errorf("reading the clock: %w", err)
	}
	if at.removed != nil {
		story.Removed, story.LastState = true, job.State(*at.removed)
		return story, at, nil
	}
	if err := l.know(ctx, tx, at); err != nil {
		return story, at, err
	}
	return story, at, l.findRows(ctx, tx, at.job, current, &story)
}

func (l *Ledger) findRows(ctx context.Context, tx pgx.Tx, id int64, current bool, story *machine.Story) error {
	rows, err := tx.Query(ctx, stmt("show_generations"), id, current)
	if err != nil {
		return fmt.Errorf("reading its generations: %w", err)
	}
	found, err := pgx.CollectRows(rows, scanShown)
	if err != nil {
		return fmt.Errorf("reading its generations: %w", err)
	}
	if len(found) == 0 {
		return job.ErrNotFound
	}
	for _, s := range found {
		g, err := l.generation(ctx, s)
		if err != nil {
			return err
		}
		story.Generations = append(story.Generations, g)
		story.Kind, story.Subject, story.Period = g.Kind, value(s.subject), value(s.period)
	}
	return nil
}

// shown is a row of show_generations.
type shown struct {
	stored
	subject, period, destination, zone, local *string
	payload                                   []byte
	ended                                     *time.Time
	receipt                                   []byte
	detail, fingerprint                       *string
	asking                                    asking
	bound                                     bound
}

func scanShown(r pgx.CollectableRow) (shown, error) {
	var s shown
	return s, r.Scan(slices.Concat(s.scanInto(), []any{
		&s.subject, &s.period, &s.destination, &s.zone, &s.local, &s.payload, &s.ended, &s.receipt, &s.detail, &s.fingerprint,
	}, s.asking.scanInto(), s.bound.scanInto())...)
}

func (l *Ledger) generation(ctx context.Context, s shown) (machine.Generation, error) {
	row, err := l.row(ctx, s.stored)
	if err != nil {
		return machine.Generation{}, err
	}
	g := machine.Generation{
		Row: row, Destination: value(s.destination), DeadlineZone: value(s.zone), DeadlineLocal: value(s.local), Payload: s.payload,
		Ended: value(s.ended), Detail: value(s.detail), Fingerprint: value(s.fingerprint), Asking: s.asking.of(), Bound: s.bound.of(),
	}
	g.Receipt, err = decodeReceipt(s.receipt)
	return g, err
}

func decodeReceipt(b []byte) (*job.Receipt, error) {
	if b == nil {
		return nil, nil
	}
	var r job.Receipt
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("decoding a receipt: %w", err)
	}
	return &r, nil
}

// showEvents reads what happened, and puts the leases where they belong.
func (l *Ledger) showEvents(ctx context.Context, tx pgx.Tx, story *machine.Story) error {
	rows, err := tx.Query(ctx, stmt("show_events"), story.Job, maxShownEvents+1)
	if err != nil {
		return fmt.Errorf("reading its events: %w", err)
	}
	events, err := pgx.CollectRows(rows, scanLogged)
	if err != nil {
		return fmt.Errorf("reading its events: %w", err)
	}
	if story.EventsCut = len(events) > maxShownEvents; story.EventsCut {
		events = events[:maxShownEvents]
	}
	slices.Reverse(events)
	leases, err := l.showLeases(ctx, tx, story, events)
	if err != nil {
		return err
	}
	story.Events = slices.Concat(leases, events)
	slices.SortStableFunc(story.Events, func(a, b machine.Logged) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Generation, b.Generation))
	})
	return nil
}

func scanLogged(r pgx.CollectableRow) (machine.Logged, error) {
	var e machine.Logged
	var outcome, class, code, why, detail, worker, actor, version, classifier, policy *string
	var wake *time.Time
	var receipt []byte
	err := r.Scan(&e.At, &e.Generation, &e.Name, &e.From, &e.To, &e.Attempt, &e.Fence, &e.Emission, &outcome, &class, &code, &wake, &why, &detail,
		&worker, &actor, &receipt, &e.Late, &version, &classifier, &policy)
	if err != nil {
		return e, err
	}
	e.Outcome, e.Class, e.Code = job.Outcome(value(outcome)), job.Class(value(class)), job.Code(value(code))
	e.WakeAt, e.Why, e.Detail, e.Worker, e.Actor = value(wake), value(why), value(detail), value(worker), value(actor)
	e.Version, e.Classifier, e.Policy = value(version), value(classifier), value(policy)
	e.Receipt, err = decodeReceipt(receipt)
	return e, err
}

// leaseSlack is more than what lies between the end of a lease and its event.
const leaseSlack = 10 * time.Minute

// showLeases finds the leases of the job. No index leads from a job to them: the row
// knows its newest, and the event that ended an earlier one names the worker and an
// instant that the lease cannot be far from.
func (l *Ledger) showLeases(ctx context.Context, tx pgx.Tx, story *machine.Story, events []machine.Logged) ([]machine.Logged, error) {
	var workers []string
	var since, until []time.Time
	add := func(worker string, from, to time.Time) {
		workers, since, until = append(workers, worker), append(since, from), append(until, to)
	}
	for _, g := range story.Generations {
		if g.Worker != "" {
			add(g.Worker, g.LeasedAt, g.LeasedAt)
		}
	}
	longest := story.Kind.Policy.Limit + story.Kind.Policy.LeaseTime + leaseSlack
	for _, e := range events {
		if e.Worker != "" && !e.Late {
			add(e.Worker, e.At.Add(-longest), e.At)
		}
	}
	if len(workers) == 0 {
		return nil, nil
	}
	rows, err := tx.Query(ctx, stmt("show_leases"), story.Job, workers, since, until)
	if err != nil {
		return nil, fmt.Errorf("reading its leases: %w", err)
	}
	leases, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (machine.Logged, error) {
		e := machine.Logged{Record: machine.Record{Name: machine.Lease, To: job.Leased, Actor: "worker"}}
		var version *string
		err := r.Scan(&e.At, &e.EndsAt, &e.Worker, &e.Policy, &e.Generation, &e.Fence, &e.Attempt, &version)
		e.Version = value(version)
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading its leases: %w", err)
	}
	return leases, nil
}

func (l *Ledger) showRedrives(ctx context.Context, tx pgx.Tx, story *machine.Story) error {
	rows, err := tx.Query(ctx, stmt("show_redrives"), story.Job)
	if err == nil {
		story.Redrives, err = pgx.CollectRows(rows, pgx.RowToStructByPos[machine.RedriveNote])
	}
	if err != nil {
		return fmt.Errorf("reading its redrives: %w", err)
	}
	return nil
}

func (l *Ledger) showUnsendable(ctx context.Context, tx pgx.Tx, id int64, story *machine.Story) error {
	rows, err := tx.Query(ctx, stmt("show_unsendable"), id)
	if err == nil {
		story.Unsendable, err = l.scanUnsendable(ctx, rows)
	}
	if err != nil {
		return fmt.Errorf("looking for emissions that are set aside: %w", err)
	}
	return nil
}
