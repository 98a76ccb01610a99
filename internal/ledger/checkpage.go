package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// checked is a generation as Check reads it.
type checked struct {
	stored
	row                     machine.Row
	key                     string
	promote, expires, ended *time.Time
	quarantined, unknown    bool // listed so
	closes                  *time.Time
	closed                  bool
	lookup                  string // by which means it is asked about
}

// checkedJob is all that a page holds about a job but its events.
type checkedJob struct {
	generations []*checked
	leases      []machine.Logged
	redrives    []machine.RedriveNote
}

// jobs checks the jobs behind after up to last.
func (c *checker) jobs(ctx context.Context, tx pgx.Tx, after, last int64, since time.Time) error {
	p := &checkPage{checker: c, tx: tx, after: after, last: last, since: since, byID: make(map[int64]*checkedJob)}
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"rows", p.rows}, {"leases", p.leases}, {"decisions", p.redrives}, {"lists", p.lists}, {"cleanups", p.cleanups}, {"keys", p.keys}, {"events", p.events},
	} {
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

// checkPage is a page of jobs, read from one snapshot.
type checkPage struct {
	*checker
	tx          pgx.Tx
	after, last int64
	since       time.Time
	ids         []int64
	byID        map[int64]*checkedJob
	// strays are entries of the lists that no generation stands behind.
	strays []machine.Disagreement
}

func (p *checkPage) query(ctx context.Context, name string) (pgx.Rows, error) {
	return p.tx.Query(ctx, stmt(name), p.after, p.last)
}

func (p *checkPage) rows(ctx context.Context) error {
	rows, err := p.query(ctx, "check_rows")
	if err != nil {
		return err
	}
	all, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (*checked, error) {
		var g checked
		return &g, r.Scan(append(g.scanInto(), &g.key, &g.promote, &g.expires, &g.ended)...)
	})
	if err != nil {
		return err
	}
	for _, g := range all {
		if g.row, err = p.l.row(ctx, g.stored); err != nil {
			return err
		}
		if p.byID[g.ID] == nil {
			p.byID[g.ID] = &checkedJob{}
			p.ids = append(p.ids, g.ID)
		}
		j := p.byID[g.ID]
		j.generations = append(j.generations, g)
	}
	return nil
}

func (p *checkPage) leases(ctx context.Context) error {
	rows, err := p.query(ctx, "check_leases")
	if err != nil {
		return err
	}
	var id int64
	e := machine.Logged{Record: machine.Record{Name: machine.Lease, To: job.Leased}}
	_, err = pgx.ForEachRow(rows, []any{&id, &e.Generation, &e.Fence, &e.Attempt, &e.At, &e.EndsAt, &e.Worker, &e.Policy}, func() error {
		p.byID[id].leases = append(p.byID[id].leases, e)
		p.done.Leases++
		return nil
	})
	return err
}

func (p *checkPage) redrives(ctx context.Context) error {
	rows, err := p.query(ctx, "check_redrives")
	if err != nil {
		return err
	}
	var id int64
	var n machine.RedriveNote
	_, err = pgx.ForEachRow(rows, []any{&id, &n.Predecessor, &n.Successor, &n.Forced}, func() error {
		if j := p.byID[id]; j != nil { // decisions outlive their jobs
			j.redrives = append(j.redrives, n)
		}
		return nil
	})
	return err
}

// lists notes what is listed, and what is listed and not there.
func (p *checkPage) lists(ctx context.Context) error {
	rows, err := p.query(ctx, "check_lists")
	if err != nil {
		return err
	}
	var id int64
	var generation int32
	var list string
	var closes *time.Time
	var closed bool
	var lookup *string
	_, err = pgx.ForEachRow(rows, []any{&id, &generation, &list, &closes, &closed, &lookup}, func() error {
		g := p.generation(id, generation)
		switch {
		case g == nil:
			p.strays = append(p.strays, machine.Disagreement{
				Job: id, Generation: generation, Rule: ruleOf(list), Stored: "listed as " + list, Folded: "no such generation",
			})
		case list == string(job.Unknown):
			g.unknown, g.closes, g.closed, g.lookup = true, closes, closed, value(lookup)
		default:
			g.quarantined = true
		}
		return nil
	})
	return err
}

func (p *checkPage) generation(id int64, generation int32) *checked {
	if j := p.byID[id]; j != nil {
		for _, g := range j.generations {
			if g.Generation == generation {
				return g
			}
		}
	}
	return nil
}

// ruleOf is the rule of a list, which is called as its state.
func ruleOf(list string) machine.Rule {
	if list == string(job.Unknown) {
		return machine.RuleUnknown
	}
	return machine.RuleQuarantine
}

// keys looks whether every job has its key. It needs no more of it than that: keys are
// walked in their own order.
func (p *checkPage) keys(ctx context.Context) error {
	hashes := make([]pgtype.UUID, len(p.ids))
	for i, id := range p.ids {
		g := p.byID[id].generations[0]
		hashes[i] = uuid(job.KeyHash(g.row.Kind.Name, g.key))
	}
	rows, err := p.tx.Query(ctx, stmt("check_keys_of"), hashes)
	if err != nil {
		return err
	}
	holds := make(map[[16]byte]int64, len(hashes))
	var hash [16]byte
	var id int64
	if _, err := pgx.ForEachRow(rows, []any{&hash, &id}, func() error { holds[hash] = id; return nil }); err != nil {
		return err
	}
	for i, id := range p.ids {
		switch at, ok := holds[hashes[i].Bytes]; {
		case !ok:
			p.strays = append(p.strays, machine.Disagreement{Job: id, Rule: machine.RuleKey, Stored: "a job without a key", Folded: "its key"})
		case at != id:
			p.strays = append(p.strays, machine.Disagreement{
				Job: id, Rule: machine.RuleKey, Stored: fmt.Sprintf("its key leads to job %d", at), Folded: "its key leads to it",
			})
		}
	}
	return nil
}

// events folds job after job, as their events come.
func (p *checkPage) events(ctx context.Context) error {
	rows, err := p.query(ctx, "check_events")
	if err != nil {
		return err
	}
	defer rows.Close()
	next, ok, err := p.event(rows)
	if err != nil {
		return err
	}
	for _, id := range p.ids {
		var events []machine.Logged
		for ok && next.job <= id {
			if next.job == id { // events outlive their jobs
				events = append(events, next.Logged)
			}
			if next, ok, err = p.event(rows); err != nil {
				return err
			}
		}
		if err := p.fold(id, events); err != nil {
			return err
		}
	}
	rows.Close()
	for _, d := range p.strays {
		if err := p.tell(p.named(d)); err != nil {
			return err
		}
	}
	return rows.Err()
}

type jobEvent struct {
	job int64
	machine.Logged
}

// event reads the next event; false behind the last.
func (p *checkPage) event(rows pgx.Rows) (jobEvent, bool, error) {
	if !rows.Next() {
		return jobEvent{}, false, rows.Err()
	}
	var e jobEvent
	var err error
	e.Logged, err = scanLogged(withJob{rows, &e.job})
	p.done.Events++
	return e, err == nil, err
}

// withJob is a row of events with the job behind the columns of an event.
type withJob struct {
	pgx.Rows
	job *int64
}

// Scan scans an event and its job.
func (r withJob) Scan(dest ...any) error { return r.Rows.Scan(append(dest, r.job)...) }

// named says which job a disagreement is about.
func (p *checkPage) named(d machine.Disagreement) machine.Disagreement {
	if j := p.byID[d.Job]; j != nil {
		d.Kind, d.Key = j.generations[0].row.Kind.Name, j.generations[0].key
	}
	return d
}

// fold folds a job and holds what stands beside its rows against them.
func (p *checkPage) fold(id int64, events []machine.Logged) error {
	j := p.byID[id]
	h := machine.History{Events: events, Leases: j.leases, Redrives: j.redrives, Since: p.since}
	for _, g := range j.generations {
		h.Rows = append(h.Rows, g.row)
	}
	all, partly := machine.Fold(h)
	p.done.Jobs++
	p.done.Generations += len(h.Rows)
	p.done.Partly += partly
	for _, g := range j.generations {
		all = append(all, g.beside()...)
	}
	slices.SortStableFunc(all, func(a, b machine.Disagreement) int { return int(a.Generation - b.Generation) })
	for _, d := range all {
		if err := p.tell(p.named(d)); err != nil {
			return err
		}
	}
	return nil
}

// beside tells where what is found by other means than the row is not in step with it.
func (g *checked) beside() []machine.Disagreement {
	var all []machine.Disagreement
	differ := func(rule machine.Rule, stored, folded string) {
		if stored != folded {
			all = append(all, machine.Disagreement{Job: g.ID, Generation: g.Generation, Rule: rule, Stored: stored, Folded: folded})
		}
	}
	r := g.row
	differ(machine.RuleQuarantine, listing(g.quarantined, "", nil, false, ""), listing(listed(r, job.Quarantined), "", nil, false, ""))
	closes := null(r.ClosesAt().Truncate(time.Microsecond))
	differ(machine.RuleUnknown, listing(g.unknown, "closes", g.closes, g.closed, g.lookup), listing(listed(r, job.Unknown), "closes", closes, r.Closed, asked(r)))
	promote := null(r.PromoteAt())
	differ(machine.RuleInstants, "promote_at "+when(g.promote), "promote_at "+when(promote))
	if late := g.expires == nil || !r.Deadline.IsZero() && g.expires.After(r.Deadline); r.State.Pending() && !r.Deadline.IsZero() && late {
		differ(machine.RuleInstants, "expires_at "+when(g.expires), "at the deadline, "+when(&r.Deadline)+", or before")
	}
	if (g.ended == nil) != r.State.Pending() {
		differ(machine.RuleInstants, fmt.Sprintf("%s, ended_at %s", r.State, when(g.ended)), "an end that goes with the state")
	}
	return all
}

// asked is by which means a row is to be asked about.
func asked(r machine.Row) string {
	if !r.PersonOnly() && listed(r, job.Unknown) {
		return string(r.Promises.Lookup)
	}
	return ""
}

// listing describes an entry of a list.
func listing(is bool, what string, at *time.Time, closed bool, lookup string) string {
	switch {
	case !is:
		return "not listed"
	case what == "":
		return "listed"
	case closed:
		return "listed, closed, " + what + " " + when(at)
	}
	asked := ""
	if lookup != "" {
		asked = ", asked by " + lookup
	}
	return "listed, open, " + what + " " + when(at) + asked
}

func when(t *time.Time) string {
	if t == nil {
		return "none"
	}
	return t.UTC().Format(time.RFC3339Nano)
}
