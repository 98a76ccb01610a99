package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/failpoint"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// The relay reads the outbox by snapshot difference. A sequence number as cursor
// would skip a transaction that drew an early number and committed late; waiting
// until every older transaction has ended would let one long transaction stop
// everybody. A snapshot knows exactly which transactions it has seen: what the next
// one sees besides is what is to be relayed, and a transaction that runs for an hour
// delays nobody but itself.

// Topics lists every topic of the outbox: the lanes that were ever configured, and
// machine.DeadTopic.
func (l *Ledger) Topics(ctx context.Context) ([]string, error) {
	rows, err := l.pool.Query(ctx, stmt("topics"))
	if err != nil {
		return nil, fmt.Errorf("reading the topics: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("reading the topics: %w", err)
	}
	return names, nil
}

// ClaimTopic takes the topic for the holder, a random id of its process, or renews
// its claim; false means that another holds it. The claim ends d later, by the
// database's clock; d is at most a minute.
func (l *Ledger) ClaimTopic(ctx context.Context, topic, holder string, d time.Duration) (bool, error) {
	tag, err := l.pool.Exec(ctx, stmt("topic_claim"), topic, holder, d)
	if err != nil {
		return false, fmt.Errorf("claiming topic %s: %w", topic, err)
	}
	return tag.RowsAffected() == 1, nil
}

// ReleaseTopic gives the topic up, so that another need not wait for the claim's end.
// It does nothing where another holds it.
func (l *Ledger) ReleaseTopic(ctx context.Context, topic, holder string) error {
	if _, err := l.pool.Exec(ctx, stmt("topic_release"), topic, holder); err != nil {
		return fmt.Errorf("releasing topic %s: %w", topic, err)
	}
	return nil
}

// place is where a topic's relay stands.
type place struct {
	relayed string // snapshot that was relayed
	cursor  machine.Cursor
	open    bool // a pass is open; else one would begin now
	moved   bool // the pass's snapshot is another than the one that was relayed
	ended   bool // the pass sees another set of running transactions
}

// ReadOutbox reads the next page of the topic, at most limit rows, for its holder. A
// page without rows means that everything committed until now was relayed.
// machine.ErrLostTopic: another holds the topic.
func (l *Ledger) ReadOutbox(ctx context.Context, topic, holder string, limit int) (machine.Page, error) {
	for {
		p, err := l.place(ctx, topic, holder)
		if err != nil {
			return machine.Page{}, fmt.Errorf("reading the place of topic %s: %w", topic, err)
		}
		page, err := l.page(ctx, topic, p, limit)
		if err != nil || len(page.Rows) > 0 || !p.open && !p.ended {
			return page, err
		}
		// Nothing is announced by moving on, but a pass that came to its end is closed,
		// and the next need not look up again what ended transactions did not write.
		if err := l.Advance(ctx, topic, holder, page); err != nil || !p.open {
			return page, err
		}
	}
}

// page reads the page behind the place; one without rows ends the pass.
func (l *Ledger) page(ctx context.Context, topic string, p place, limit int) (machine.Page, error) {
	page := machine.Page{Last: true, Cursor: p.cursor}
	if !p.moved || l.idle.knows(topic, p) {
		return page, nil
	}
	rows, err := l.between(ctx, l.pool, span{topic, p.relayed, p.cursor.Pass, p.cursor.XID, p.cursor.ID}, limit)
	if err != nil {
		return page, fmt.Errorf("reading the outbox of topic %s: %w", topic, err)
	}
	page.Last = len(rows) < limit
	for _, r := range rows {
		row, err := l.outboxRow(ctx, r)
		if err != nil {
			return page, err
		}
		page.Rows = append(page.Rows, row)
		page.Cursor.XID, page.Cursor.ID = r.XID, r.ID
	}
	if len(rows) == 0 {
		l.idle.learn(topic, p)
	}
	return page, nil
}

// idleTopics remembers, for each topic, the snapshot in which there was nothing behind
// the cursor. An idle ledger shows the same snapshot again and again, and need not be
// searched for each.
type idleTopics struct{ known sync.Map } // topic → place

func (i *idleTopics) knows(topic string, p place) bool {
	known, ok := i.known.Load(topic)
	return ok && known == p
}

func (i *idleTopics) learn(topic string, p place) { i.known.Store(topic, p) }

func (l *Ledger) place(ctx context.Context, topic, holder string) (place, error) {
	var p place
	err := l.pool.QueryRow(ctx, stmt("topic_place"), topic, holder).Scan(
		&p.relayed, &p.cursor.Pass, &p.cursor.XID, &p.cursor.ID, &p.cursor.Version, &p.open, &p.moved, &p.ended)
	if errors.Is(err, pgx.ErrNoRows) {
		return p, machine.ErrLostTopic
	}
	return p, err
}

// Advance moves the topic's cursor behind the page, whose rows the broker has
// acknowledged. machine.ErrLostTopic: another holds the topic or has moved its
// cursor; then the page may be announced twice, which is harmless.
func (l *Ledger) Advance(ctx context.Context, topic, holder string, page machine.Page) error {
	c := page.Cursor
	tag, err := l.pool.Exec(ctx, stmt("topic_advance"), topic, holder, c.Version, c.Pass, page.Last, c.XID, c.ID)
	if err == nil {
		err = failpoint.At(failpoint.RelayAdvanced)
	}
	switch {
	case err != nil:
		return fmt.Errorf("advancing topic %s: %w", topic, err)
	case tag.RowsAffected() == 0 && len(page.Rows) > 0:
		return fmt.Errorf("advancing topic %s: %w", topic, machine.ErrLostTopic)
	}
	return nil
}

// OutboxDepth counts the topic's committed rows that were not relayed, no further
// than most.
func (l *Ledger) OutboxDepth(ctx context.Context, topic string, most int) (int, error) {
	var n int
	err := l.seek(ctx, l.pool, func(r pgx.BatchResults) error { return r.QueryRow().Scan(&n) }, stmt("outbox_depth"), topic, most)
	if err != nil {
		return 0, fmt.Errorf("measuring the outbox of topic %s: %w", topic, err)
	}
	return n, nil
}

// Notices returns what the dead topic says about the generations, one a reference. The
// notice of a generation that was removed is zero.
func (l *Ledger) Notices(ctx context.Context, refs []job.Ref) ([]machine.Notice, error) {
	ids, generations, _ := columns(refs)
	rows, err := l.pool.Query(ctx, stmt("notices"), ids, generations)
	if err != nil {
		return nil, fmt.Errorf("reading %d notices: %w", len(refs), err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[storedNotice])
	if err != nil {
		return nil, fmt.Errorf("reading %d notices: %w", len(refs), err)
	}
	notices := make([]machine.Notice, len(found))
	for i, n := range found {
		if n.Kind == nil {
			continue
		}
		kind, err := l.kindByID(ctx, *n.Kind)
		if err != nil {
			return nil, err
		}
		notices[i] = n.notice(kind.Name)
	}
	return notices, nil
}

// storedNotice is a notice as its columns are; all are null for a removed generation.
type storedNotice struct {
	Kind                                                *int16
	Key                                                 *string
	Generation                                          *int32
	Subject, Period, State, Reason, LastClass, LastCode *string
	Attempts                                            *int32
	Created, FirstAttempt, LastAttempt                  *time.Time
}

func (n storedNotice) notice(kind string) machine.Notice {
	return machine.Notice{
		Kind: kind, Key: value(n.Key), Generation: value(n.Generation), Subject: value(n.Subject), Period: value(n.Period),
		State: job.State(value(n.State)), Reason: job.Reason(value(n.Reason)),
		LastClass: job.Class(value(n.LastClass)), LastCode: job.Code(value(n.LastCode)), Attempts: value(n.Attempts),
		Created: value(n.Created), FirstAttempt: value(n.FirstAttempt), LastAttempt: value(n.LastAttempt),
	}
}

// span is a part of a topic's outbox: what new sees and old did not, behind a row.
type span struct {
	topic, old, new string
	xid             uint64
	id              int64
}

// outboxRow is a row of the outbox as its columns are.
type outboxRow struct {
	XID         uint64
	ID          int64
	Kind        int16
	At          *time.Time
	Jobs        []int64
	Generations []int32
	Emissions   []int32
	TraceParent *string
}

func (r outboxRow) refs() []job.Ref {
	refs := make([]job.Ref, len(r.Jobs))
	for i := range r.Jobs {
		refs[i] = job.Ref{Job: r.Jobs[i], Generation: r.Generations[i], Emission: r.Emissions[i]}
	}
	return refs
}

func (l *Ledger) outboxRow(ctx context.Context, r outboxRow) (machine.OutboxRow, error) {
	kind, err := l.kindByID(ctx, r.Kind)
	if err != nil {
		return machine.OutboxRow{}, fmt.Errorf("reading outbox row %d: %w", r.ID, err)
	}
	return machine.OutboxRow{ID: r.ID, Kind: kind.Name, Refs: r.refs(), At: value(r.At), TraceParent: value(r.TraceParent)}, nil
}

// between reads the first rows of the span, in order.
func (l *Ledger) between(ctx context.Context, db Batcher, s span, limit int) ([]outboxRow, error) {
	var found []outboxRow
	err := l.seek(ctx, db, func(r pgx.BatchResults) error {
		rows, err := r.Query()
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, pgx.RowToStructByPos[outboxRow])
		return err
	}, stmt("outbox_between"), s.topic, s.old, s.new, s.xid, s.id, limit)
	return found, err
}
