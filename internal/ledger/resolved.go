package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/machine"
)

// Bind stores where the worker is about to send attempts, durably, and says of each, in
// their order, whether it was taken: an attempt whose lease is over is not, nor is one in
// doubt that an earlier one has sent elsewhere. Such an attempt must not begin. Asked again
// after an error it answers the same.
func (l *Ledger) Bind(ctx context.Context, w machine.Worker, bindings []machine.Binding) ([]bool, error) {
	order := make([]int, len(bindings))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(bindings[a].Job, bindings[b].Job), cmp.Compare(bindings[a].Generation, bindings[b].Generation))
	})
	jobs, generations, fences := make([]int64, len(order)), make([]int32, len(order)), make([]int64, len(order))
	addresses, means := make([]string, len(order)), make([]string, len(order))
	for n, i := range order {
		b := bindings[i]
		jobs[n], generations[n], fences[n], addresses[n], means[n] = b.Job, b.Generation, b.Fence, b.Address, string(b.By)
	}
	taken := make(map[rowID]bool, len(order))
	err := l.inTx(ctx, fmt.Sprintf("storing where %d attempts go", len(bindings)), func(tx pgx.Tx) error {
		clear(taken)
		rows, err := tx.Query(ctx, stmt("resolved_put"), jobs, generations, fences, addresses, means, w.ID)
		if err != nil {
			return err
		}
		var id rowID
		_, err = pgx.ForEachRow(rows, []any{&id.job, &id.generation}, func() error { taken[id] = true; return nil })
		return err
	})
	if err != nil {
		return nil, err
	}
	answers := make([]bool, len(bindings))
	for i, b := range bindings {
		answers[i] = taken[rowID{b.Job, b.Generation}]
	}
	return answers, nil
}

// bound are the columns of a stored address, null where there is none.
type bound struct {
	address, by *string
	fence       *int64
	at          *time.Time
}

// scanInto lists where these columns go, in the order address, by, fence, at.
func (b *bound) scanInto() []any { return []any{&b.address, &b.by, &b.fence, &b.at} }

func (b *bound) of() machine.Bound {
	return machine.Bound{Address: value(b.address), By: machine.Means(value(b.by)), Fence: value(b.fence), At: value(b.at)}
}
