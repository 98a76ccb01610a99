package ledger

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// Batcher is a transaction, the caller's own perhaps, or a pool.
type Batcher interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// maxTrace is the length of a W3C trace context; a longer one is none.
const maxTrace = 55

// EnqueueBatch is the most requests that one statement takes; larger calls are split.
// The references of one statement fit into one outbox row, on one page, uncompressed.
const EnqueueBatch = maxOutboxRefs

// Enqueue accepts requests in the caller's transaction and returns one Enqueued a
// request, in their order. Requests must have passed job.Spec.Validate; what only
// the ledger can say (unknown kind, a deadline passed by its clock, a conflict) is
// refused here, and costs the neighbours nothing. The error is the transaction's.
func (l *Ledger) Enqueue(ctx context.Context, tx Batcher, specs []job.Spec) ([]machine.Enqueued, error) {
	in, err := l.takeIn(ctx, specs)
	if err == nil {
		err = l.enqueueAll(ctx, tx, in, noRun)
	}
	if err != nil {
		return nil, fmt.Errorf("enqueueing %d jobs: %w", len(specs), err)
	}
	return in.all, nil
}

// request is a spec on its way into the ledger; at is its place in the call.
type request struct {
	*job.Spec
	at         int
	kindID     int16
	hash, body job.Hash
	// late: the deadline has passed by the ledger's clock.
	late bool
}

// intake are the requests of a call: the answers as far as they are known, in the order of
// the call, and those that have none yet, in the order of their keys.
type intake struct {
	all   []machine.Enqueued
	order []*request
}

// takeIn prepares requests, without a transaction.
func (l *Ledger) takeIn(ctx context.Context, specs []job.Spec) (intake, error) {
	in := intake{make([]machine.Enqueued, len(specs)), make([]*request, 0, len(specs))}
	for i := range specs {
		s := &specs[i]
		kind, err := l.kindID(ctx, s.Kind)
		var refusal *job.Refusal
		switch {
		case errors.As(err, &refusal):
			in.all[i].Refused = refusal
		case err != nil:
			return intake{}, err
		default:
			in.order = append(in.order, &request{Spec: s, at: i, kindID: kind, hash: job.KeyHash(s.Kind, s.Key), body: s.BodyHash()})
		}
	}
	slices.SortFunc(in.order, func(a, b *request) int { return cmp.Or(bytes.Compare(a.hash[:], b.hash[:]), cmp.Compare(a.at, b.at)) })
	return in, nil
}

// noRun: jobs that become members of no run.
const noRun int64 = 0

// enqueueAll inserts what was taken in. The jobs that it makes become members of the run.
func (l *Ledger) enqueueAll(ctx context.Context, tx Batcher, in intake, run int64) error {
	for part := range slices.Chunk(in.order, EnqueueBatch) {
		if err := l.enqueue(ctx, tx, part, in.all, run); err != nil {
			return err
		}
	}
	return nil
}

func (l *Ledger) enqueue(ctx context.Context, tx Batcher, part []*request, all []machine.Enqueued, run int64) error {
	batch := &pgx.Batch{}
	if len(part) == 1 && run == noRun {
		l.queueOne(batch, part[0])
	} else {
		l.queueMany(batch, part, run)
	}
	var ids, created []int64
	var late []int32
	results := tx.SendBatch(ctx, batch)
	err := results.QueryRow().Scan(&ids, &created, &late)
	if err = errors.Join(err, results.Close()); err != nil {
		return err
	}
	for _, n := range late {
		part[n-1].late = true
	}
	var rest []*request
	for i, r := range part {
		if len(created) == 0 || ids[i] != created[0] {
			rest = append(rest, r)
			continue
		}
		all[r.at] = machine.Enqueued{Job: ids[i], Created: true}
		created = created[1:]
	}
	return l.answerRest(ctx, tx, rest, all)
}

// enqueueOne is enqueue for one request, whose arguments are no arrays: most transactions
// ask for no more, and the plan for a batch costs them more.
var enqueueOne = strings.Replace(
	regexp.MustCompile(`unnest\((\$\d+::\w+)\[\]\)`).ReplaceAllString(stmt("enqueue"), "$1"),
	"generate_subscripts($1::uuid[], 1)", "1", 1)

// enqueueMembers is enqueue for members of a run, whose number is one more argument.
var enqueueMembers = strings.NewReplacer(
	"RETURNING job\n", "RETURNING job, hash\n",
	"), announced AS (", `), members AS (
    INSERT INTO duly.run_member (run, job, hash) SELECT $15, job, hash FROM keys
), announced AS (`,
).Replace(stmt("enqueue"))

func (l *Ledger) queueOne(batch *pgx.Batch, r *request) {
	batch.Queue(enqueueOne, uuid(r.hash), uuid(r.body), r.kindID, r.Key, orNull(r.Subject), orNull(r.Period), orNull(r.Destination), r.Payload,
		null(r.Due), null(r.Deadline), orNull(r.DeadlineZone), orNull(r.DeadlineLocal), orNull(job.Storable(r.TraceParent, maxTrace)), l.age(r.kindID))
}

// age is how long a job of the kind may take, from when it is first ready.
func (l *Ledger) age(kind int16) time.Duration {
	l.mu.RLock()
	defer l.mu.RUnlock()
	p := l.kinds[kind].Policy
	return min(p.MaxAge, p.MaxLifetime)
}

func (l *Ledger) queueMany(batch *pgx.Batch, part []*request, run int64) {
	n := len(part)
	var (
		hashes, bodies                                         = make([]pgtype.UUID, n), make([]pgtype.UUID, n)
		kinds                                                  = make([]int16, n)
		keys                                                   = make([]string, n)
		subjects, periods, destinations, zones, locals, traces sparse[string]
		payloads                                               = make([][]byte, n)
		dues, deadlines                                        sparse[time.Time]
		ages                                                   = make([]time.Duration, n)
	)
	for i, r := range part {
		hashes[i], bodies[i], kinds[i], keys[i] = uuid(r.hash), uuid(r.body), r.kindID, r.Key
		subjects.set(i, n, orNull(r.Subject))
		periods.set(i, n, orNull(r.Period))
		destinations.set(i, n, orNull(r.Destination))
		zones.set(i, n, orNull(r.DeadlineZone))
		locals.set(i, n, orNull(r.DeadlineLocal))
		traces.set(i, n, orNull(job.Storable(r.TraceParent, maxTrace)))
		dues.set(i, n, null(r.Due))
		deadlines.set(i, n, null(r.Deadline))
		payloads[i], ages[i] = r.Payload, l.age(r.kindID)
	}
	args := []any{
		hashes, bodies, kinds, keys, []*string(subjects), []*string(periods), []*string(destinations), payloads,
		[]*time.Time(dues), []*time.Time(deadlines), []*string(zones), []*string(locals), []*string(traces), ages,
	}
	if run == noRun {
		batch.Queue(stmt("enqueue"), args...)
		return
	}
	batch.Queue(enqueueMembers, append(args, run)...)
}

// sparse is a column of which most requests give nothing: nil, and so null as a whole,
// until one gives something.
type sparse[T any] []*T

func (s *sparse[T]) set(i, n int, v *T) {
	if v == nil {
		return
	}
	if *s == nil {
		*s = make([]*T, n)
	}
	(*s)[i] = v
}

// answerRest answers requests whose key is taken or that are late. The same body is
// the same request, however late it is repeated; another one is a conflict; what is
// late and new is refused.
func (l *Ledger) answerRest(ctx context.Context, tx Batcher, rest []*request, all []machine.Enqueued) error {
	if len(rest) == 0 {
		return nil
	}
	type holder struct {
		Hash, Body [16]byte
		Job        int64
		State      *string
	}
	hashes := make([]pgtype.UUID, len(rest))
	for i, r := range rest {
		hashes[i] = uuid(r.hash)
	}
	batch := &pgx.Batch{}
	batch.Queue(stmt("enqueue_lookup"), hashes)
	results := tx.SendBatch(ctx, batch)
	rows, err := results.Query()
	if err != nil {
		return errors.Join(err, results.Close())
	}
	holders, err := pgx.CollectRows(rows, pgx.RowToStructByPos[holder])
	if err = errors.Join(err, results.Close()); err != nil {
		return err
	}
	byHash := make(map[job.Hash]holder, len(holders))
	for _, h := range holders {
		byHash[h.Hash] = h
	}
	for _, r := range rest {
		h, ok := byHash[r.hash]
		switch {
		case !ok && r.late:
			all[r.at].Refused = refuseLate(*r.Spec)
		case !ok:
			return fmt.Errorf("the key of %s/%s is taken, but by nothing that this transaction sees: repeat it", r.Kind, r.Key)
		case h.Body != r.body:
			all[r.at] = machine.Enqueued{Job: h.Job, State: job.State(value(h.State)), Refused: job.Refuse("key", r.Key, job.RuleConflict, "")}
		default:
			all[r.at] = machine.Enqueued{Job: h.Job, State: job.State(value(h.State))}
		}
	}
	return nil
}

func refuseLate(s job.Spec) *job.Refusal {
	return job.Refuse("deadline", s.Deadline.UTC().Format(time.RFC3339), job.RuleDeadlinePast, "")
}
