package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/pkg/job"
)

// evidence is everything that a run has left: what the receiver did, what the ledger says,
// what was asked for, and what was broken when.
type evidence struct {
	journal     []entry
	generations []generation
	doubts      []doubt
	redrives    []redriven
	requests    []request
	incidents   []incident
	// workers tells which process registered under an id, and when that life of it ended.
	workers map[string]owner
}

// generation is a generation as the ledger has it at the end.
type generation struct {
	Job                int64
	Kind, Key          string
	Generation         int32
	Current            bool
	State              job.State
	Attempt            int32
	Receipt            bool
	Leases, HandedBack int64
	Deadline           *time.Time
}

func (g generation) name() string { return g.Kind + "/" + g.Key }

func (g generation) effectKey() string { return effectKey(g.Kind, g.Key, g.Generation) }

func effectKey(kind, key string, generation int32) string {
	return job.WireEffectKey(kind, key, generation, "http")
}

func (g generation) String() string {
	return fmt.Sprintf("%s generation %d: %s after %d attempts", g.name(), g.Generation, g.State, g.Attempt)
}

// doubt is an attempt of which nobody knew what came of it.
type doubt struct {
	Kind, Key  string
	Generation int32
	Attempt    int32
	Name, Code string
	Worker     string
	Leased, At time.Time
}

// redriven is a decision in the ledger.
type redriven struct {
	Kind, Key              string
	Predecessor, Successor int32
	At                     time.Time
}

// owner is a life of a process.
type owner struct {
	name string
	life life
}

const selectGenerations = `
WITH leases AS (
    SELECT u.job, u.generation, count(*) AS n
    FROM duly.lease l, unnest(l.jobs, l.generations) u (job, generation) GROUP BY u.job, u.generation
), back AS (
    SELECT job, generation, count(*) AS n FROM duly.event
    WHERE name = 'handed_back' AND from_state = 'leased' AND NOT late GROUP BY job, generation
)
SELECT j.id, k.name, j.key, j.generation, j.successor IS NULL, j.state, j.attempt, j.receipt IS NOT NULL, coalesce(l.n, 0), coalesce(b.n, 0), j.deadline
FROM duly.job j JOIN duly.kind k ON k.id = j.kind
     LEFT JOIN leases l ON l.job = j.id AND l.generation = j.generation
     LEFT JOIN back b ON b.job = j.id AND b.generation = j.generation
ORDER BY j.id, j.generation`

const selectDoubts = `
SELECT k.name, j.key, e.generation, e.attempt, e.name, coalesce(e.code, ''), coalesce(e.worker::text, ''), l.at, e.at
FROM duly.event e
     JOIN duly.job j ON j.id = e.job AND j.generation = e.generation JOIN duly.kind k ON k.id = j.kind
     CROSS JOIN LATERAL (SELECT max(l.at) AS at FROM duly.lease l
                         WHERE l.worker = e.worker AND e.job = ANY (l.jobs) AND l.fences[array_position(l.jobs, e.job)] = e.fence) l
WHERE e.name IN ('may_be_done', 'lease_ended') AND e.from_state = 'leased' AND NOT e.late AND l.at IS NOT NULL
ORDER BY e.id`

const selectRedrives = `
SELECT k.name, j.key, r.predecessor, r.successor, r.at
FROM duly.redrive r JOIN duly.job j ON j.id = r.job AND j.generation = r.successor JOIN duly.kind k ON k.id = j.kind ORDER BY r.at`

// gather reads everything.
func gather(ctx context.Context, w *world, d *driver) (evidence, error) {
	e := evidence{workers: map[string]owner{}}
	var err error
	if e.journal, err = readJournal(w.journal()); err != nil {
		return e, err
	}
	if e.generations, err = collect[generation](ctx, w, selectGenerations); err != nil {
		return e, err
	}
	if e.doubts, err = collect[doubt](ctx, w, selectDoubts); err != nil {
		return e, err
	}
	if e.redrives, err = collect[redriven](ctx, w, selectRedrives); err != nil {
		return e, err
	}
	for _, m := range w.members {
		lives, err := m.history()
		if err != nil {
			return e, err
		}
		for _, l := range lives {
			for _, id := range l.Workers {
				e.workers[id] = owner{m.name, l}
			}
		}
	}
	d.mu.Lock()
	e.requests = append(e.requests, d.requests...)
	d.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, i := range w.incidents {
		e.incidents = append(e.incidents, *i)
	}
	return e, nil
}

func collect[T any](ctx context.Context, w *world, statement string) ([]T, error) {
	rows, err := w.pool.Query(ctx, statement)
	if err != nil {
		return nil, fmt.Errorf("reading the ledger: %w", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[T])
	if err != nil {
		return nil, fmt.Errorf("reading the ledger: %w", err)
	}
	return all, nil
}
