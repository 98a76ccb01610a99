package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// cleanups looks whether what is due to be cleaned up is over. That everything that is
// over is to be cleaned up cannot be told from the rows: its kind may have got its gate
// later.
func (p *checkPage) cleanups(ctx context.Context) error {
	rows, err := p.query(ctx, "check_cleanups")
	if err != nil {
		return err
	}
	var id int64
	var generation int32
	var accepted bool
	_, err = pgx.ForEachRow(rows, []any{&id, &generation, &accepted}, func() error {
		g := p.generation(id, generation)
		is := "no such generation"
		if g != nil {
			is = string(g.row.State)
		}
		if g == nil || !g.row.Over() || accepted && g.row.State != job.Delivered {
			p.strays = append(p.strays, machine.Disagreement{
				Job: id, Generation: generation, Rule: machine.RuleCleanup, Stored: fmt.Sprintf("to be cleaned up (accepted=%t)", accepted), Folded: is,
			})
		}
		return nil
	})
	return err
}
