package ledger

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// queueEvents appends the events in the order in which they were decided, as of the
// instant of the decisions.
func (l *Ledger) queueEvents(batch *pgx.Batch, events []event, now time.Time) error {
	if len(events) == 0 {
		return nil
	}
	var c eventColumns
	hashes := make(map[string]string)
	for _, e := range events {
		kind := e.row.Kind
		if _, ok := hashes[kind.Name]; !ok {
			hashes[kind.Name] = kind.Hash()
		}
		receipt, err := encodeReceipt(e.record.Receipt)
		if err != nil {
			return fmt.Errorf("job %d: %w", e.row.Job, err)
		}
		c.add(e, hashes[kind.Name], receipt)
	}
	c.queue(batch, now)
	return nil
}

// eventColumns are events, column by column, as decide_events takes them.
type eventColumns struct {
	jobs, fences                     []int64
	generations, attempts, emissions []int32
	late                             []bool
	names, from, to                  []string
	outcomes, classes, codes         []*string
	wakes                            []*time.Time
	whys, details, workers, versions []*string
	classifiers, actors              []*string
	hashes                           []string
	receipts                         []*string
}

func (c *eventColumns) add(e event, hash string, receipt *string) {
	r := e.record
	c.jobs, c.generations, c.fences = append(c.jobs, e.row.Job), append(c.generations, e.row.Generation), append(c.fences, r.Fence)
	c.attempts, c.emissions, c.late = append(c.attempts, r.Attempt), append(c.emissions, r.Emission), append(c.late, r.Late)
	c.names, c.from, c.to = append(c.names, string(r.Name)), append(c.from, string(r.From)), append(c.to, string(r.To))
	c.outcomes, c.classes, c.codes = append(c.outcomes, orNull(r.Outcome)), append(c.classes, orNull(r.Class)), append(c.codes, orNull(r.Code))
	c.wakes, c.whys, c.details = append(c.wakes, null(r.WakeAt)), append(c.whys, orNull(r.Why)), append(c.details, orNull(r.Detail))
	c.workers, c.versions = append(c.workers, orNull(r.Worker)), append(c.versions, orNull(e.target.Version))
	c.classifiers, c.actors = append(c.classifiers, orNull(e.target.Classifier)), append(c.actors, orNull(r.Actor))
	c.hashes, c.receipts = append(c.hashes, hash), append(c.receipts, receipt)
}

func (c *eventColumns) queue(batch *pgx.Batch, now time.Time) {
	batch.Queue(stmt("decide_events"), c.jobs, c.generations, c.fences, c.attempts, c.emissions, c.late, c.names, c.from, c.to,
		c.outcomes, c.classes, c.codes, c.wakes, c.whys, c.details, c.workers, c.versions, c.classifiers, c.hashes, c.actors, c.receipts, now)
}
