package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// target is an event for one generation.
type target struct {
	Job        int64
	Generation int32
	Event      machine.Event
	// Kind overrides the ledger's own where a worker decided under its own policy.
	Kind *machine.Kind
	// Version and Classifier are recorded with the event.
	Version, Classifier string
}

// decision is what became of a target. Found is false where there is no such row.
type decision struct {
	Found  bool
	Row    machine.Row // as stored
	Change machine.Change
}

// decide is the way of every event that no hot statement took: it locks the rows
// in order, reads the clock, asks the machine for each, and stores rows, events and
// outbox rows. Targets of one row are decided in the order given. It returns one
// decision a target and the instant that they were made at.
func (l *Ledger) decide(ctx context.Context, tx pgx.Tx, targets []target) ([]decision, time.Time, error) {
	locked, now, err := l.lock(ctx, tx, targets)
	if err != nil {
		return nil, now, err
	}
	decisions := make([]decision, len(targets))
	w := newWriter(now)
	for i, t := range targets {
		at := rowID{t.Job, t.Generation}
		before, ok := locked[at]
		if !ok {
			continue
		}
		if t.Kind != nil {
			before.Kind = *t.Kind
		}
		after, change := machine.Next(before, t.Event, now)
		decisions[i] = decision{Found: true, Row: after, Change: change}
		if change.Refused == machine.Applied {
			w.add(before, after, change, t)
			locked[at] = after
		}
	}
	return decisions, now, l.write(ctx, tx, w)
}

type rowID struct {
	job        int64
	generation int32
}

// lock locks the targets' rows in order and reads the clock behind the locks, in
// one round trip.
func (l *Ledger) lock(ctx context.Context, tx pgx.Tx, targets []target) (map[rowID]machine.Row, time.Time, error) {
	ids, generations := make([]int64, len(targets)), make([]int32, len(targets))
	for i, t := range targets {
		ids[i], generations[i] = t.Job, t.Generation
	}
	var now time.Time
	locked := make(map[rowID]machine.Row, len(targets))
	batch := &pgx.Batch{}
	batch.Queue(stmt("decide_lock"), ids, generations)
	batch.Queue(stmt("clock"))
	results := tx.SendBatch(ctx, batch)
	rows, err := results.Query()
	if err != nil {
		return nil, now, errors.Join(fmt.Errorf("locking %d rows: %w", len(targets), err), results.Close())
	}
	raw, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (stored, error) {
		var s stored
		return s, r.Scan(s.scanInto()...)
	})
	if err == nil {
		err = results.QueryRow().Scan(&now)
	}
	if err = errors.Join(err, results.Close()); err != nil {
		return nil, now, fmt.Errorf("locking %d rows: %w", len(targets), err)
	}
	for _, s := range raw {
		r, err := l.row(ctx, s)
		if err != nil {
			return nil, now, err
		}
		locked[rowID{s.ID, s.Generation}] = r
	}
	return locked, now, nil
}

// writer gathers what a batch of decisions writes.
type writer struct {
	now    time.Time
	before map[rowID]machine.Row // as locked
	after  map[rowID]machine.Row
	order  []rowID
	// events and emissions in the order in which they were decided
	events    []event
	emissions []emission
	receipts  map[rowID]*job.Receipt
	details   map[rowID]string
}

type event struct {
	row    machine.Row
	record machine.Record
	target target
}

type emission struct {
	row machine.Row
	machine.Emission
}

func newWriter(now time.Time) *writer {
	return &writer{
		now: now, before: make(map[rowID]machine.Row), after: make(map[rowID]machine.Row),
		receipts: make(map[rowID]*job.Receipt), details: make(map[rowID]string),
	}
}

func (w *writer) add(before, after machine.Row, change machine.Change, t target) {
	at := rowID{before.Job, before.Generation}
	if _, ok := w.before[at]; !ok {
		w.before[at] = before
		w.order = append(w.order, at)
	}
	w.after[at] = after
	if change.Record != nil {
		w.events = append(w.events, event{after, *change.Record, t})
		w.details[at] = change.Record.Detail
		if change.Record.Receipt != nil && after.State == job.Delivered && before.State != job.Delivered {
			w.receipts[at] = change.Record.Receipt
		}
	}
	for _, e := range change.Emissions {
		w.emissions = append(w.emissions, emission{after, e})
	}
}

// write stores everything in one round trip and checks that each row was there as
// it was decided from.
func (l *Ledger) write(ctx context.Context, tx pgx.Tx, w *writer) error {
	if len(w.order) == 0 {
		return nil
	}
	batch := &pgx.Batch{}
	if err := l.queueRows(ctx, batch, w); err != nil {
		return err
	}
	if err := l.queueEvents(batch, w.events); err != nil {
		return err
	}
	if err := l.queueEmissions(ctx, batch, w.emissions); err != nil {
		return err
	}
	if err := l.queueLists(ctx, batch, w); err != nil {
		return err
	}
	results := tx.SendBatch(ctx, batch)
	tag, err := results.Exec()
	if err == nil && tag.RowsAffected() != int64(len(w.order)) {
		err = fmt.Errorf("%d of %d locked rows were not as decided from", int64(len(w.order))-tag.RowsAffected(), len(w.order))
	}
	if err = errors.Join(err, results.Close()); err != nil {
		return fmt.Errorf("storing %d decisions: %w", len(w.order), err)
	}
	return nil
}

func (l *Ledger) queueRows(ctx context.Context, batch *pgx.Batch, w *writer) error {
	// One writer, one order: whoever stores rows without having locked them does so in id order.
	slices.SortFunc(w.order, func(a, b rowID) int {
		if a.job != b.job {
			return int(min(max(a.job-b.job, -1), 1))
		}
		return int(a.generation - b.generation)
	})
	n := len(w.order)
	var (
		ids                                                          = make([]int64, n)
		generations, attempts, unclassified, emissions               = make([]int32, n), make([]int32, n), make([]int32, n), make([]int32, n)
		was, states                                                  = make([]string, n), make([]string, n)
		wasFence, fences                                             = make([]int64, n), make([]int64, n)
		waiting, hold, reason, worker, class, code                   = make([]*string, n), make([]*string, n), make([]*string, n), make([]*string, n), make([]*string, n), make([]*string, n)
		origin, first, wake, promote, expires, leased, since, until_ = make([]*time.Time, n), make([]*time.Time, n), make([]*time.Time, n), make([]*time.Time, n), make([]*time.Time, n), make([]*time.Time, n), make([]*time.Time, n), make([]*time.Time, n)
		limits                                                       = make([]*time.Duration, n)
		termIDs                                                      = make([]*int16, n)
		flagged                                                      = make([]int16, n)
		successors                                                   = make([]*int32, n)
		receipts                                                     = make([][]byte, n)
	)
	for i, at := range w.order {
		b, r := w.before[at], w.after[at]
		ids[i], generations[i], was[i], wasFence[i] = r.Job, r.Generation, string(b.State), b.Fence
		states[i], waiting[i], hold[i], reason[i] = string(r.State), orNull(r.Waiting), orNull(r.Hold), orNull(r.Reason)
		attempts[i], unclassified[i], fences[i], emissions[i] = r.Attempt, r.Unclassified, r.Fence, r.Emission
		origin[i], first[i], wake[i], promote[i] = null(r.Origin), null(r.FirstReady), null(r.WakeAt), null(r.PromoteAt())
		if r.State.Pending() {
			expires[i] = null(r.ExpiresAt())
		}
		worker[i], leased[i] = orNull(r.Worker), null(r.LeasedAt)
		if r.Limit != 0 {
			limits[i] = &r.Limit
		}
		since[i], until_[i], flagged[i] = null(r.DoubtSince), null(r.DoubtUntil), flags(r)
		if r.Fixed {
			id, err := l.termsID(ctx, terms{r.Channel, r.Promises})
			if err != nil {
				return err
			}
			termIDs[i] = &id
		}
		if r.Successor != 0 {
			successors[i] = &r.Successor
		}
		class[i], code[i] = orNull(r.LastClass), orNull(r.LastCode)
		if receipt := w.receipts[at]; receipt != nil {
			var err error
			if receipts[i], err = json.Marshal(receipt); err != nil {
				return fmt.Errorf("encoding the receipt of job %d: %w", r.Job, err)
			}
		}
	}
	batch.Queue(stmt("decide_store"), ids, generations, was, wasFence, states, waiting, hold, reason,
		attempts, unclassified, fences, emissions, origin, first, wake, promote, expires, worker, leased, limits,
		since, until_, termIDs, flagged, successors, w.now, class, code, receipts)
	return nil
}

func (l *Ledger) queueEvents(batch *pgx.Batch, events []event) error {
	n := len(events)
	if n == 0 {
		return nil
	}
	var (
		jobs, fences                                                     = make([]int64, n), make([]int64, n)
		generations, attempts, emissions                                 = make([]int32, n), make([]int32, n), make([]int32, n)
		late                                                             = make([]bool, n)
		names, from, to                                                  = make([]string, n), make([]string, n), make([]string, n)
		outcome, class, code, why, detail, worker, version, rules, actor = make([]*string, n), make([]*string, n), make([]*string, n), make([]*string, n), make([]*string, n), make([]*string, n), make([]*string, n), make([]*string, n), make([]*string, n)
		hash                                                             = make([]string, n)
		wake                                                             = make([]*time.Time, n)
		receipts                                                         = make([][]byte, n)
	)
	hashes := make(map[string]string)
	for i, e := range events {
		r := e.record
		jobs[i], generations[i], fences[i], attempts[i], emissions[i], late[i] = e.row.Job, e.row.Generation, r.Fence, r.Attempt, r.Emission, r.Late
		names[i], from[i], to[i] = string(r.Name), string(r.From), string(r.To)
		outcome[i], class[i], code[i], why[i], detail[i] = orNull(r.Outcome), orNull(r.Class), orNull(r.Code), orNull(r.Why), orNull(r.Detail)
		worker[i], version[i], rules[i], actor[i] = orNull(r.Worker), orNull(e.target.Version), orNull(e.target.Classifier), orNull(r.Actor)
		wake[i] = null(r.WakeAt)
		if _, ok := hashes[e.row.Kind.Name]; !ok {
			hashes[e.row.Kind.Name] = e.row.Kind.Hash()
		}
		hash[i] = hashes[e.row.Kind.Name]
		if r.Receipt != nil {
			var err error
			if receipts[i], err = json.Marshal(r.Receipt); err != nil {
				return fmt.Errorf("encoding the receipt of job %d: %w", e.row.Job, err)
			}
		}
	}
	batch.Queue(stmt("decide_events"), jobs, generations, fences, attempts, emissions, late, names, from, to,
		outcome, class, code, wake, why, detail, worker, version, rules, hash, actor, receipts)
	return nil
}

// queueEmissions writes immediate work as one row a kind, everything else as one
// row an emission.
func (l *Ledger) queueEmissions(ctx context.Context, batch *pgx.Batch, emissions []emission) error {
	type group struct {
		lane                   string
		kind                   int16
		jobs                   []int64
		generations, emissions []int32
	}
	together := make(map[string]*group)
	var topics []string
	var kinds []int16
	var jobs []int64
	var generations, numbers []int32
	var at []*time.Time
	for _, e := range emissions {
		kind, err := l.kindID(ctx, e.row.Kind.Name)
		if err != nil {
			return err
		}
		if !e.Dead && e.At.IsZero() {
			g := together[e.row.Kind.Name]
			if g == nil {
				g = &group{lane: e.row.Kind.Lane, kind: kind}
				together[e.row.Kind.Name] = g
			}
			g.jobs, g.generations, g.emissions = append(g.jobs, e.row.Job), append(g.generations, e.row.Generation), append(g.emissions, e.Number)
			continue
		}
		topic := e.row.Kind.Lane
		if e.Dead {
			topic = machine.DeadTopic
		}
		topics, kinds, jobs = append(topics, topic), append(kinds, kind), append(jobs, e.row.Job)
		generations, numbers, at = append(generations, e.row.Generation), append(numbers, e.Number), append(at, null(e.At))
	}
	for _, g := range together {
		for i := 0; i < len(g.jobs); i += maxOutboxRefs {
			end := min(i+maxOutboxRefs, len(g.jobs))
			batch.Queue(stmt("outbox_batch"), g.lane, g.kind, g.jobs[i:end], g.generations[i:end], g.emissions[i:end])
		}
	}
	if len(jobs) > 0 {
		batch.Queue(stmt("outbox_each"), topics, kinds, jobs, generations, numbers, at)
	}
	return nil
}

// maxOutboxRefs bounds the references of one outbox row; the dispatcher packs and
// splits rows for the bus as the lane asks.
const maxOutboxRefs = 500

// queueLists keeps the lists of quarantined and unknown generations in step.
func (l *Ledger) queueLists(ctx context.Context, batch *pgx.Batch, w *writer) error {
	var q, u listRows
	var qGone, uGone listRows
	for _, at := range w.order {
		b, r := w.before[at], w.after[at]
		kind, err := l.kindID(ctx, r.Kind.Name)
		if err != nil {
			return err
		}
		inQ, inU := r.Current() && r.State == job.Quarantined, r.Current() && r.State == job.Unknown
		if wasQ := b.Current() && b.State == job.Quarantined; inQ && !wasQ {
			q.add(r, kind, w.details[at])
		} else if wasQ && !inQ {
			qGone.add(r, kind, "")
		}
		if wasU := b.Current() && b.State == job.Unknown; inU && (!wasU || r.Closed != b.Closed) {
			u.add(r, kind, w.details[at])
		} else if wasU && !inU {
			uGone.add(r, kind, "")
		}
	}
	if len(qGone.jobs) > 0 {
		batch.Queue(stmt("quarantine_drop"), qGone.jobs, qGone.generations)
	}
	if len(uGone.jobs) > 0 {
		batch.Queue(stmt("unknown_drop"), uGone.jobs, uGone.generations)
	}
	at := make([]time.Time, max(len(q.jobs), len(u.jobs)))
	for i := range at {
		at[i] = w.now
	}
	if n := len(q.jobs); n > 0 {
		batch.Queue(stmt("quarantine_put"), q.jobs, q.generations, q.kinds, at[:n], q.reasons, q.classes, q.codes, q.prints, q.details)
	}
	if n := len(u.jobs); n > 0 {
		batch.Queue(stmt("unknown_put"), u.jobs, u.generations, u.kinds, at[:n], u.codes, u.prints, u.details, u.closesAt, u.closed)
	}
	return nil
}

// listRows are rows of the quarantine and unknown lists, column by column.
type listRows struct {
	jobs                    []int64
	generations             []int32
	kinds                   []int16
	reasons, prints         []string
	classes, codes, details []*string
	closesAt                []time.Time
	closed                  []bool
}

func (s *listRows) add(r machine.Row, kind int16, detail string) {
	s.jobs, s.generations, s.kinds = append(s.jobs, r.Job), append(s.generations, r.Generation), append(s.kinds, kind)
	s.reasons = append(s.reasons, string(r.Reason))
	s.prints = append(s.prints, job.Fingerprint(r.Kind.Name, r.LastClass, r.LastCode, detail))
	s.classes, s.codes, s.details = append(s.classes, orNull(r.LastClass)), append(s.codes, orNull(r.LastCode)), append(s.details, orNull(detail))
	s.closesAt = append(s.closesAt, r.DoubtSince.Add(r.Promises.ResolveWithin))
	s.closed = append(s.closed, r.Closed)
}
