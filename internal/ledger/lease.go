package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"duly.dev/duly/internal/failpoint"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// Lease leases every reference of the request at once, in one round trip where all
// are plainly leasable. machine.ErrWorkerEnded means that nothing was leased, ErrUnclear
// that nobody knows: the caller reads back with LeasedBy before anything else.
func (l *Ledger) Lease(ctx context.Context, req machine.LeaseRequest) (machine.Leases, error) {
	if err := failpoint.At(failpoint.LeaseCall); err != nil {
		return machine.Leases{}, err
	}
	refs := slices.SortedFunc(slices.Values(req.Refs), job.Ref.Compare)
	refs = slices.Compact(refs)
	doing := fmt.Sprintf("leasing %d references of %s", len(refs), req.Kind.Name)
	kind, err := l.kindID(ctx, req.Kind.Name)
	if err != nil {
		return machine.Leases{}, fmt.Errorf("%s: %w", doing, err)
	}
	termsID, err := l.termsID(ctx, terms{req.Kind.Channel, req.Kind.Promises})
	if err != nil {
		return machine.Leases{}, fmt.Errorf("%s: %w", doing, err)
	}
	leases, err := l.leasePlain(ctx, req, refs, kind, termsID)
	if err == nil {
		err = l.leaseRest(ctx, req, refs, kind, &leases)
	}
	if err == nil && failpoint.Enabled {
		err = unclear(failpoint.At(failpoint.LeaseReply))
	}
	if err != nil {
		l.unclear.note(req.Worker.ID, refs, err)
		return leases, fmt.Errorf("%s: %w", doing, err)
	}
	return leases, nil
}

// leasePlain is the hot path: one statement in a transaction of its own.
func (l *Ledger) leasePlain(ctx context.Context, req machine.LeaseRequest, refs []job.Ref, kind, termsID int16) (machine.Leases, error) {
	jobs, generations, emissions := columns(refs)
	batch := &pgx.Batch{}
	batch.Queue(keyedHurry, rowPatience)
	queueByKeys(batch, "lease_refs", jobs,
		jobs, generations, emissions, req.Worker.ID, kind, req.Kind.Policy.Limit, req.Kind.Policy.LeaseTime, termsID, req.Kind.Hash())
	results := l.pool.SendBatch(ctx, batch)
	var leases machine.Leases
	_, err := results.Exec()
	if err == nil {
		leases, err = l.scanLeases(ctx, results, req)
	}
	err = unclear(errors.Join(err, results.Close()))
	switch {
	case inUse(err): // nothing was leased; whatever is free is decided one by one
		return machine.Leases{}, nil
	case err != nil:
		return machine.Leases{}, err
	}
	return leases, nil
}

// askAgain is when a row that somebody has locked is asked about again.
const askAgain = 500 * time.Millisecond

func columns(refs []job.Ref) (jobs []int64, generations, emissions []int32) {
	jobs, generations, emissions = make([]int64, len(refs)), make([]int32, len(refs)), make([]int32, len(refs))
	for i, r := range refs {
		jobs[i], generations[i], emissions[i] = r.Job, r.Generation, r.Emission
	}
	return jobs, generations, emissions
}

// leased is a row that lease_refs returns; values, not pointers, so that a batch is read
// into one. Its id is null in the one row that comes when nothing was leased.
type leased struct {
	now                                                   pgtype.Timestamptz
	id, fence                                             pgtype.Int8
	generation, emission, attempt, unclassified           pgtype.Int4
	created, origin, firstReady, due, deadline, leasedAt  pgtype.Timestamptz
	flags, terms                                          pgtype.Int2
	key, subject, period, destination, zone, local, trace pgtype.Text
	payload                                               []byte
}

func (l *Ledger) scanLeases(ctx context.Context, results pgx.BatchResults, req machine.LeaseRequest) (machine.Leases, error) {
	rows, err := results.Query()
	if err != nil {
		return machine.Leases{}, err
	}
	leases := machine.Leases{Grants: make([]machine.Grant, 0, len(req.Refs))}
	var r leased
	for rows.Next() {
		r.payload = nil // a grant's own
		err := rows.Scan(&r.now, &r.id, &r.generation, &r.emission, &r.attempt, &r.unclassified, &r.fence, &r.created, &r.origin, &r.firstReady,
			&r.due, &r.deadline, &r.leasedAt, &r.flags, &r.terms, &r.key, &r.subject, &r.period, &r.destination, &r.payload,
			&r.zone, &r.local, &r.trace)
		if err != nil {
			rows.Close()
			return machine.Leases{}, err
		}
		leases.Now = r.now.Time
		if !r.id.Valid {
			continue
		}
		grant, err := l.grant(ctx, &r, req)
		if err != nil {
			rows.Close()
			return machine.Leases{}, err
		}
		leases.Grants = append(leases.Grants, grant)
	}
	return leases, rows.Err()
}

func (l *Ledger) grant(ctx context.Context, r *leased, req machine.LeaseRequest) (machine.Grant, error) {
	t, err := l.termsByID(ctx, r.terms.Int16)
	if err != nil {
		return machine.Grant{}, err
	}
	f := r.flags.Int16
	return machine.Grant{
		Row: machine.Row{
			Job: r.id.Int64, Generation: r.generation.Int32, Kind: req.Kind, State: job.Leased,
			Attempt: r.attempt.Int32, Unclassified: r.unclassified.Int32, Fence: r.fence.Int64, Emission: r.emission.Int32,
			Created: r.created.Time, Origin: r.origin.Time, FirstReady: r.firstReady.Time, Due: r.due.Time, Deadline: r.deadline.Time,
			Worker: req.Worker.ID, LeasedAt: r.leasedAt.Time, Limit: req.Kind.Policy.Limit,
			Fixed: true, Channel: t.channel, Promises: t.promises,
			Pinned: f&flagPinned != 0, CancelRequested: f&flagCancel != 0, Closed: f&flagClosed != 0, Announced: f&flagAnnounced != 0,
		},
		Key: r.key.String, Subject: r.subject.String, Period: r.period.String, Destination: r.destination.String, Payload: r.payload,
		DeadlineZone: r.zone.String, DeadlineLocal: r.local.String, TraceParent: r.trace.String,
	}, nil
}

// leaseRest asks the machine about every reference that the hot path left.
func (l *Ledger) leaseRest(ctx context.Context, req machine.LeaseRequest, refs []job.Ref, kind int16, leases *machine.Leases) error {
	granted := make(map[job.Ref]bool, len(leases.Grants))
	for _, g := range leases.Grants {
		granted[job.Ref{Job: g.Row.Job, Generation: g.Row.Generation, Emission: g.Row.Emission}] = true
	}
	var rest []job.Ref
	for _, r := range refs {
		if !granted[r] {
			rest = append(rest, r)
		}
	}
	if len(rest) == 0 {
		return nil
	}
	return l.inTx(ctx, "deciding about the rest", func(tx pgx.Tx) error {
		var more machine.Leases // this try's alone: a repeated transaction begins anew
		if err := l.leaseDecided(ctx, tx, req, rest, kind, &more); err != nil {
			return err
		}
		leases.Now = more.Now
		leases.Grants = append(leases.Grants, more.Grants...)
		leases.Early, leases.Stale = more.Early, more.Stale
		return nil
	})
}

func (l *Ledger) leaseDecided(ctx context.Context, tx pgx.Tx, req machine.LeaseRequest, refs []job.Ref, kind int16, leases *machine.Leases) error {
	var alive bool
	if err := tx.QueryRow(ctx, stmt("worker_alive"), req.Worker.ID).Scan(&alive); errors.Is(err, pgx.ErrNoRows) || err == nil && !alive {
		return machine.ErrWorkerEnded
	} else if err != nil {
		return fmt.Errorf("reading the worker's row: %w", err)
	}
	targets := make([]target, len(refs))
	for i, r := range refs {
		targets[i] = target{
			Job: r.Job, Generation: r.Generation, Kind: &req.Kind,
			Event: machine.Event{Name: machine.Lease, Emission: r.Emission, Worker: req.Worker.ID, Actor: "worker"},
		}
	}
	decisions, now, err := l.decideFree(ctx, tx, targets)
	if err != nil {
		return err
	}
	taken, err := l.takenByOthers(ctx, tx, targets, decisions)
	if err != nil {
		return err
	}
	leases.Now = now
	var rows []machine.Row
	for i, d := range decisions {
		switch {
		case d.Found && d.Change.Refused == machine.Applied && d.Row.State == job.Leased:
			rows = append(rows, d.Row)
		case d.Found && d.Change.Refused == machine.Early:
			leases.Early = append(leases.Early, machine.EarlyRef{Ref: refs[i], In: d.Row.WakeAt.Sub(now)})
		case taken[rowID{refs[i].Job, refs[i].Generation}]:
			leases.Early = append(leases.Early, machine.EarlyRef{Ref: refs[i], In: askAgain, Locked: true})
		default:
			leases.Stale = append(leases.Stale, refs[i])
		}
	}
	if len(rows) == 0 {
		return nil
	}
	n := newNote(rows)
	if _, err := tx.Exec(ctx, stmt("lease_note"), req.Worker.ID, kind, req.Kind.Policy.Limit, req.Kind.Policy.LeaseTime, req.Kind.Hash(),
		n.jobs, n.generations, n.fences, n.attempts, now); err != nil {
		return fmt.Errorf("writing the lease row: %w", err)
	}
	leases.Grants, err = l.bodies(ctx, tx, rows)
	return err
}

// note are the columns of a lease row.
type note struct {
	jobs, fences          []int64
	generations, attempts []int32
}

func newNote(rows []machine.Row) note {
	var n note
	for _, r := range rows {
		n.jobs, n.generations = append(n.jobs, r.Job), append(n.generations, r.Generation)
		n.fences, n.attempts = append(n.fences, r.Fence), append(n.attempts, r.Attempt)
	}
	return n
}

// bodies reads what the effects of leased rows need.
func (l *Ledger) bodies(ctx context.Context, q Querier, rows []machine.Row) ([]machine.Grant, error) {
	n := newNote(rows)
	found, err := q.Query(ctx, stmt("lease_bodies"), n.jobs, n.generations)
	if err != nil {
		return nil, fmt.Errorf("reading the bodies of %d jobs: %w", len(rows), err)
	}
	byID := make(map[rowID]machine.Grant, len(rows))
	var (
		at                                               rowID
		key                                              string
		subject, period, destination, zone, local, trace *string
		payload                                          []byte
		to                                               bound
	)
	columns := append([]any{&at.job, &at.generation, &key, &subject, &period, &destination, &payload, &zone, &local, &trace}, to.scanInto()...)
	_, err = pgx.ForEachRow(found, columns, func() error {
		byID[at] = machine.Grant{
			Key: key, Subject: value(subject), Period: value(period), Destination: value(destination),
			Payload: slices.Clone(payload), DeadlineZone: value(zone), DeadlineLocal: value(local), TraceParent: value(trace),
			Bound: to.of(),
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the bodies of %d jobs: %w", len(rows), err)
	}
	grants := make([]machine.Grant, len(rows))
	for i, r := range rows {
		g := byID[rowID{r.Job, r.Generation}]
		g.Row = r
		grants[i] = g
	}
	return grants, nil
}

// LeasedBy returns what the worker holds among the references: what a caller reads
// back when the reply to a lease was lost. Nothing held now may still become held
// while the lost statement runs; Heartbeat tells of that.
func (l *Ledger) LeasedBy(ctx context.Context, workerID string, refs []job.Ref) ([]machine.Grant, error) {
	jobs, generations, emissions := columns(refs)
	found, err := l.pool.Query(ctx, stmt("lease_held"), workerID, jobs, generations, emissions)
	if err != nil {
		return nil, fmt.Errorf("reading back %d leases: %w", len(refs), err)
	}
	rows, err := l.rowsOf(ctx, found)
	if err != nil {
		return nil, fmt.Errorf("reading back %d leases: %w", len(refs), err)
	}
	return l.bodies(ctx, l.pool, rows)
}
