package ledger

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/machine"
)

// runRows is how many runs are checked in one snapshot: each has all its members counted.
const runRows = 10

// runs walks the runs: the completeness equation of each, a job behind every member, and an
// occurrence behind every run; then the occurrences, which have their runs.
func (c *checker) runs(ctx context.Context) error {
	for after, n := int64(0), runRows; n == runRows; {
		err := c.read(ctx, "checking the runs", func(tx pgx.Tx, _ time.Time) (err error) {
			n, err = c.runPage(ctx, tx, &after)
			return err
		})
		if err != nil {
			return err
		}
		c.done.Runs += n
	}
	return c.read(ctx, "checking the occurrences", func(tx pgx.Tx, _ time.Time) error {
		rows, err := tx.Query(ctx, stmt("check_occurrences"))
		if err != nil {
			return err
		}
		d := machine.Disagreement{Rule: machine.RuleOccurrence}
		_, err = pgx.ForEachRow(rows, []any{&d.Schedule, &d.Period, &d.Stored, &d.Folded}, func() error { return c.tell(d) })
		return err
	})
}

// countedRun is a run as it is kept, and as its rows are counted.
type countedRun struct {
	ID                                  int64
	Schedule, Period, State             string
	Selected, Refused, Linked           int64
	Members, MembersLinked, Stray, Rows int64
	Kept                                *int64
	Occurrence                          bool
}

// runPage checks the page of runs behind an id, moves that, and returns how many there were.
func (c *checker) runPage(ctx context.Context, tx pgx.Tx, after *int64) (n int, err error) {
	rows, err := tx.Query(ctx, stmt("check_runs"), *after, runRows)
	if err != nil {
		return 0, err
	}
	page, err := pgx.CollectRows(rows, pgx.RowToStructByPos[countedRun])
	if err != nil {
		return 0, err
	}
	for _, r := range page {
		*after = r.ID
		for _, d := range r.disagreements() {
			d.Schedule, d.Period = r.Schedule, r.Period
			if err := c.tell(d); err != nil {
				return 0, err
			}
		}
	}
	return len(page), nil
}

// disagreements are what does not hold of a run.
func (r countedRun) disagreements() (all []machine.Disagreement) {
	var stored, counted []string
	differ := func(what string, is, should int64) {
		if is != should {
			stored, counted = append(stored, fmt.Sprintf("%s=%d", what, is)), append(counted, fmt.Sprintf("%s=%d", what, should))
		}
	}
	switch {
	case r.State != string(machine.RunFrozen):
		differ("members", 0, r.Members)
		differ("refused", 0, r.Rows)
	case r.Kept != nil: // its rows were removed, and counted before
		differ("expected", r.Selected-r.Refused, *r.Kept)
		differ("members", 0, r.Members)
	default:
		differ("expected", r.Selected-r.Refused, r.Members)
		differ("refused", r.Refused, r.Rows)
		differ("linked", r.Linked, r.MembersLinked)
	}
	if len(stored) > 0 {
		all = append(all, machine.Disagreement{Rule: machine.RuleRun, Stored: strings.Join(stored, " "), Folded: strings.Join(counted, " ")})
	}
	if r.Stray > 0 {
		all = append(all, machine.Disagreement{
			Rule: machine.RuleMember, Stored: fmt.Sprintf("%d members without a job, or a word about how it ended", r.Stray), Folded: "a job behind every member",
		})
	}
	if !r.Occurrence {
		all = append(all, machine.Disagreement{Rule: machine.RuleOccurrence, Stored: "a run without an occurrence", Folded: "an occurrence that fired it"})
	}
	return all
}
