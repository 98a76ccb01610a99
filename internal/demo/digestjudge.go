package demo

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"duly.dev/duly/internal/channel/smtpchan"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// verdict is the ledger against the mail server and the customer's tables.
type verdict struct {
	comparison

	run            machine.Run
	counts         machine.RunCounts
	moved, reached int
	written, kept  int
}

// judge compares and shows what came out.
func (d *digest) judge(ctx context.Context, run running, period string) error {
	v := verdict{comparison: comparison{states: map[job.State]int{}}}
	var err error
	if v.run, err = run.ledger.Run(ctx, digestSchedule, period); err != nil {
		return err
	}
	if v.counts, err = run.ledger.RunCounts(ctx, v.run.ID); err != nil {
		return err
	}
	states, err := statesOf(ctx, run.ledger)
	if err != nil {
		return err
	}
	seen, err := readLogbook(d.path("received-mail.ndjson"))
	if err != nil {
		return err
	}
	left, err := d.rowsLeft(ctx, run.pool)
	if err != nil {
		return err
	}
	d.compare(&v, period, states, seen, left)
	d.result = DigestResult{
		Result: Result{
			Rows: int(v.run.Selected), Refused: int(v.run.Refused), SameKey: int(v.run.Linked), States: v.states,
			Effects: v.effects, DuplicateEffects: v.duplicates, Lost: v.lost, Disagreements: len(v.problems),
			Seconds: time.Since(d.began).Round(10 * time.Millisecond).Seconds(),
		},
		Period: period, Selected: v.run.Selected, Expected: v.run.Expected(), Complete: v.complete(),
		Moved: v.moved, Reached: v.reached, Written: v.written, Removed: v.written - v.kept, Kept: v.kept,
	}
	if err := d.show(v); err != nil {
		return err
	}
	if len(v.problems) > 0 {
		return fmt.Errorf("%w: %d disagreements", ErrDisagree, len(v.problems))
	}
	return nil
}

// effect is what the mail server knows a job's effect by.
func (d *digest) effect(key string) string {
	return smtpchan.Identity(job.WireEffectKey("digest", key, 1, smtpchan.Name))
}

// complete is the completeness equation of the run.
func (v *verdict) complete() bool {
	return v.run.Selected == v.run.Refused+v.run.Expected() && v.run.Expected() == v.counts.All()
}

// statesOf reads where every job stands, by its key, as an operator's tool would: by its lists.
func statesOf(ctx context.Context, l *ledger.Ledger) (map[string]job.State, error) {
	states := map[string]job.State{}
	for _, state := range job.States() {
		request := machine.ListRequest{State: state, Limit: 500}
		for more := true; more; more = request.After != (machine.ListPlace{}) {
			page, err := l.List(ctx, request)
			if err != nil {
				return nil, err
			}
			for _, e := range page.Entries {
				states[e.Key] = e.State
			}
			request.After = page.Next
		}
	}
	return states, nil
}

// rowsLeft reads how many rows each digest still has.
func (d *digest) rowsLeft(ctx context.Context, pool *pgxpool.Pool) (map[string]int, error) {
	rows, err := pool.Query(ctx, d.say["rows"])
	if err != nil {
		return nil, fmt.Errorf("reading what was generated: %w", err)
	}
	left := map[string]int{}
	var key string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&key, &n}, func() error { left[key] = n; return nil })
	if err != nil {
		err = fmt.Errorf("reading what was generated: %w", err)
	}
	return left, err
}

// compare goes through the customers: each has one member at most, which ended as planned,
// with one effect at most, at the address that the customer has now; and its rows are there
// unless it was delivered.
func (d *digest) compare(v *verdict, period string, states map[string]job.State, seen []sighting, left map[string]int) {
	at := map[string][]string{} // where each effect was seen
	for _, s := range seen {
		at[s.Effect] = append(at[s.Effect], s.To)
	}
	byPlan := map[string]*group{}
	others, refused := maps.Clone(states), 0
	for _, c := range d.customers {
		key := "digest:" + period + ":" + c.id
		effect := d.effect(key)
		state, is := states[key]
		went := at[effect]
		delete(others, key)
		delete(at, effect)
		v.written += digestLines
		v.kept += left[key]
		v.effects += len(went)
		if c.twice {
			refused++
		}
		if c.refused {
			refused++
			if is || len(went) > 0 || left[key] != digestLines {
				v.problemf("%s was to be refused, and is %s with %d effects and %d rows", key, state, len(went), left[key])
			}
			continue
		}
		v.states[state]++
		v.customer(c, key, state, went, left[key])
		plan := c.plan()
		if byPlan[plan.does] == nil {
			byPlan[plan.does] = &group{receiver: mail, behaviour: plan, states: map[job.State]int{}}
		}
		byPlan[plan.does].add(claim{State: state}, len(went))
		if c.moved() {
			v.moved++
			if len(went) == 1 && went[0] == c.now {
				v.reached++
			}
		}
		if plan.where == "hangs-up.example" && d.mail.tries.of(c.now) > 1 {
			v.problemf("%s was accepted, and sent again", key)
		}
	}
	for key := range others {
		v.problemf("%s is a job of nobody", key)
	}
	for effect := range at {
		v.problemf("the mail server saw %s, of which the ledger knows nothing", effect)
	}
	if int(v.run.Refused) != refused {
		v.problemf("the run refused %d rows, and %d were wrong", v.run.Refused, refused)
	}
	if !v.complete() {
		v.problemf("the run selected %d rows, refused %d, expects %d members, and %d were counted", v.run.Selected, v.run.Refused, v.run.Expected(), v.counts.All())
	}
	for _, does := range slices.Sorted(maps.Keys(byPlan)) {
		v.groups = append(v.groups, *byPlan[does])
	}
	slices.SortStableFunc(v.groups, func(a, b group) int { return b.jobs - a.jobs })
}

// customer checks what became of one customer's digest.
func (v *verdict) customer(c customer, key string, state job.State, went []string, rows int) {
	plan := c.plan()
	switch {
	case state == "":
		v.lost++
		v.problemf("%s was selected, and there is no job", key)
		return
	case state.Pending():
		v.lost++
		v.problemf("%s is still %s", key, state)
		return
	case state != plan.ends:
		v.problemf("%s is %s, but was planned to end %s (its receiver %s)", key, state, plan.ends, plan.does)
	}
	if n := len(went); n > 1 {
		v.duplicates += n - 1
	}
	if len(went) != c.effects() {
		v.problemf("%s had %d effects, and was to have %d", key, len(went), c.effects())
	}
	if state == job.Delivered && len(went) == 0 {
		v.lost++
	}
	for _, to := range went {
		if to != c.now {
			v.problemf("%s went to %s, and its customer is at %s", key, to, c.now)
		}
	}
	want := digestLines
	if state == job.Delivered {
		want = 0
	}
	if rows != want {
		v.problemf("%s is %s, and %d of its rows are left", key, state, rows)
	}
}

// show prints the verdict for people.
func (d *digest) show(v verdict) error {
	t := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "\nTHE MAIL SERVER\tJOBS\tTHE LEDGER SAYS\tEFFECTS SEEN\tTWICE\tBECAUSE\n")
	for _, g := range v.groups {
		fmt.Fprintf(t, "%s\t%d\t%s\t%d\t%d\t%s\n", g.does, g.jobs, statesText(g.states), g.effects, g.duplicates, g.why)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("showing the comparison: %w", err)
	}
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(d.out, format+"\n", args...) }
	r := d.result
	line("\nrun:       %s %s, of customers in %d zones, each at 09:00 on their own clocks", digestSchedule, r.Period, len(zones))
	line("selected:  %d = %d refused + %d expected", v.run.Selected, v.run.Refused, v.run.Expected())
	line("expected:  %d = %d delivered + %d quarantined + %d cancelled + %d unknown + %d pending", v.run.Expected(),
		v.counts[job.Delivered], v.counts[job.Quarantined], v.counts[job.Cancelled], v.counts[job.Unknown], v.counts.Pending())
	line("effects:   %d seen by the mail server, %d of them twice", r.Effects, r.DuplicateEffects)
	line("moved:     %d customers changed their address after their digest was written; %d got it at the new one", r.Moved, r.Reached)
	line("rows:      %d written = %d removed behind what was surely sent + %d kept", r.Written, r.Removed, r.Kept)
	for i, problem := range v.problems {
		if i == maxProblems {
			line("  … and %d more", len(v.problems)-maxProblems)
			break
		}
		line("  DISAGREE: %s", problem)
	}
	verdict := "The ledger, the mail server and the tables agree"
	if len(v.problems) > 0 {
		verdict = "THE LEDGER, THE MAIL SERVER AND THE TABLES DO NOT AGREE"
	}
	line("\n%s: %d lost, %d effects twice, in %.1f s.", verdict, r.Lost, r.DuplicateEffects, r.Seconds)
	return nil
}
