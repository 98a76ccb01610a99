package ledger

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/machine"
)

// maxOutboxRefs bounds the references of one outbox row, so that it stays on its page
// uncompressed; the dispatcher packs and splits rows for the bus as the lane asks.
const maxOutboxRefs = 400

// queueEmissions writes immediate work as one row a kind, everything else as one
// row an emission.
func (l *Ledger) queueEmissions(ctx context.Context, batch *pgx.Batch, emissions []emission) error {
	now := make(map[string]*outboxGroup)
	var single outboxColumns
	for _, e := range emissions {
		kind, err := l.kindID(ctx, e.row.Kind.Name)
		switch {
		case err != nil:
			return err
		case e.Dead:
			single.add(machine.DeadTopic, kind, e)
		case !e.At.IsZero():
			single.add(e.row.Kind.Lane, kind, e)
		default:
			g := now[e.row.Kind.Name]
			if g == nil {
				g = &outboxGroup{lane: e.row.Kind.Lane, kind: kind}
				now[e.row.Kind.Name] = g
			}
			g.add(e)
		}
	}
	for _, g := range now {
		g.queue(batch)
	}
	single.queue(batch)
	return nil
}

// outboxGroup is the immediate work of one kind in a batch.
type outboxGroup struct {
	lane                   string
	kind                   int16
	jobs                   []int64
	generations, emissions []int32
}

func (g *outboxGroup) add(e emission) {
	g.jobs, g.generations, g.emissions = append(g.jobs, e.row.Job), append(g.generations, e.row.Generation), append(g.emissions, e.Number)
}

func (g *outboxGroup) queue(batch *pgx.Batch) {
	for i := 0; i < len(g.jobs); i += maxOutboxRefs {
		end := min(i+maxOutboxRefs, len(g.jobs))
		batch.Queue(stmt("outbox_batch"), g.lane, g.kind, g.jobs[i:end], g.generations[i:end], g.emissions[i:end])
	}
}

// outboxColumns are outbox rows of one reference each, column by column.
type outboxColumns struct {
	topics                 []string
	kinds                  []int16
	jobs                   []int64
	generations, emissions []int32
	at                     []*time.Time
}

func (c *outboxColumns) add(topic string, kind int16, e emission) {
	c.topics, c.kinds, c.jobs = append(c.topics, topic), append(c.kinds, kind), append(c.jobs, e.row.Job)
	c.generations, c.emissions, c.at = append(c.generations, e.row.Generation), append(c.emissions, e.Number), append(c.at, null(e.At))
}

func (c *outboxColumns) queue(batch *pgx.Batch) {
	if len(c.jobs) > 0 {
		batch.Queue(stmt("outbox_each"), c.topics, c.kinds, c.jobs, c.generations, c.emissions, c.at)
	}
}
