package ledger

import (
	"cmp"
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
		if !leases(*change.Record) {
			w.events = append(w.events, event{after, *change.Record, t})
		}
		w.details[at] = change.Record.Detail
		if change.Record.Receipt != nil && after.State == job.Delivered && before.State != job.Delivered {
			w.receipts[at] = change.Record.Receipt
		}
	}
	for _, e := range change.Emissions {
		w.emissions = append(w.emissions, emission{after, e})
	}
}

// leases reports whether the record is of a lease, whose event is its lease row.
func leases(r machine.Record) bool { return r.Name == machine.Lease && r.To == job.Leased }

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
	if err := l.queueEvents(batch, w.events, w.now); err != nil {
		return err
	}
	if err := l.queueEmissions(ctx, batch, w.emissions); err != nil {
		return err
	}
	if err := l.queueLists(ctx, batch, w); err != nil {
		return err
	}
	queueCleanups(batch, w)
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

// queueRows stores the rows as they are decided. The order is that of the locks.
func (l *Ledger) queueRows(ctx context.Context, batch *pgx.Batch, w *writer) error {
	slices.SortFunc(w.order, func(a, b rowID) int {
		return cmp.Or(cmp.Compare(a.job, b.job), cmp.Compare(a.generation, b.generation))
	})
	var c rowColumns
	for _, at := range w.order {
		row := w.after[at]
		var termsID *int16
		if row.Fixed {
			id, err := l.termsID(ctx, terms{row.Channel, row.Promises})
			if err != nil {
				return err
			}
			termsID = &id
		}
		receipt, err := encodeReceipt(w.receipts[at])
		if err != nil {
			return fmt.Errorf("job %d: %w", row.Job, err)
		}
		c.add(w.before[at], row, termsID, receipt)
	}
	c.queue(batch, w.now)
	return nil
}

// rowColumns are job rows, column by column, as decide_store takes them.
type rowColumns struct {
	ids, wasFences, fences                         []int64
	generations, attempts, unclassified, emissions []int32
	was, states                                    []string
	waitings, holds, reasons, workers              []*string
	classes, codes                                 []*string
	origins, firsts, wakes, promotes, expires      []*time.Time
	leased, doubtSince, doubtUntil                 []*time.Time
	limits                                         []*time.Duration
	terms                                          []*int16
	flags                                          []int16
	successors                                     []*int32
	receipts                                       []*string
}

func (c *rowColumns) add(before, r machine.Row, termsID *int16, receipt *string) {
	c.ids, c.generations = append(c.ids, r.Job), append(c.generations, r.Generation)
	c.was, c.wasFences = append(c.was, string(before.State)), append(c.wasFences, before.Fence)
	c.states, c.waitings = append(c.states, string(r.State)), append(c.waitings, orNull(r.Waiting))
	c.holds, c.reasons = append(c.holds, orNull(r.Hold)), append(c.reasons, orNull(r.Reason))
	c.attempts, c.unclassified = append(c.attempts, r.Attempt), append(c.unclassified, r.Unclassified)
	c.fences, c.emissions = append(c.fences, r.Fence), append(c.emissions, r.Emission)
	c.origins, c.firsts = append(c.origins, null(r.Origin)), append(c.firsts, null(r.FirstReady))
	c.wakes, c.promotes = append(c.wakes, null(r.WakeAt)), append(c.promotes, null(r.PromoteAt()))
	var expires time.Time // what has ended expires no more: the index entry stays as it is
	if r.State.Pending() {
		expires = r.ExpiresAt()
	}
	c.expires = append(c.expires, null(expires))
	c.workers, c.leased, c.limits = append(c.workers, orNull(r.Worker)), append(c.leased, null(r.LeasedAt)), append(c.limits, orNone(r.Limit))
	c.doubtSince, c.doubtUntil = append(c.doubtSince, null(r.DoubtSince)), append(c.doubtUntil, null(r.DoubtUntil))
	c.terms, c.flags, c.successors = append(c.terms, termsID), append(c.flags, flags(r)), append(c.successors, orNone(r.Successor))
	c.classes, c.codes = append(c.classes, orNull(r.LastClass)), append(c.codes, orNull(r.LastCode))
	c.receipts = append(c.receipts, receipt)
}

func (c *rowColumns) queue(batch *pgx.Batch, now time.Time) {
	batch.Queue(stmt("decide_store"), c.ids, c.generations, c.was, c.wasFences, c.states, c.waitings, c.holds, c.reasons,
		c.attempts, c.unclassified, c.fences, c.emissions, c.origins, c.firsts, c.wakes, c.promotes, c.expires,
		c.workers, c.leased, c.limits, c.doubtSince, c.doubtUntil, c.terms, c.flags, c.successors, now,
		c.classes, c.codes, c.receipts)
}

// encodeReceipt makes a receipt the text of a jsonb; a connection that does not ask the
// server first would take bytes for a bytea.
func encodeReceipt(r *job.Receipt) (*string, error) {
	if r == nil {
		return nil, nil
	}
	b, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encoding a receipt: %w", err)
	}
	text := string(b)
	return &text, nil
}
