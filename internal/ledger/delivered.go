package ledger

import (
	"slices"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/machine"
)

// delivered are reports of deliveries, column by column, as settle_done takes them, in
// order of (job, generation).
type delivered struct {
	at                 []int // index of the report
	jobs, fences       []int64
	generations, rules []int32
	receipts           []*string
	known              []rules
	// Of the rules, as they are stored: the classifier and the hash of the policy.
	classifiers []*string
	hashes      []string
	// gates are those of them whose kind has a cleanup gate. What was not delivered by the
	// statement is none of them by what its row says.
	gates gates
	// changed says which of them the statement delivered.
	changed []bool
}

// rules are what an attempt was decided by, and their number in the statement, from 1.
type rules struct {
	kind, classifier string
	number           int32
}

// has reports whether the batch ends with another report of the row; reports are sorted.
func (d *delivered) has(r *machine.Report) bool {
	n := len(d.jobs) - 1
	return n >= 0 && d.jobs[n] == r.Job && d.generations[n] == r.Generation
}

func (d *delivered) add(i int, r *machine.Report) error {
	receipt, err := encodeReceipt(r.Result.Receipt)
	if err != nil {
		return err
	}
	d.at = append(d.at, i)
	d.jobs, d.generations, d.fences = append(d.jobs, r.Job), append(d.generations, r.Generation), append(d.fences, r.Fence)
	d.receipts, d.rules = append(d.receipts, receipt), append(d.rules, d.rulesOf(r))
	if rule := r.Kind.Cleanup; rule != nil {
		d.gates.add(rowID{r.Job, r.Generation}, *rule, nil)
	}
	return nil
}

// rulesOf is the number of the rules of a report. There are few in a batch.
func (d *delivered) rulesOf(r *machine.Report) int32 {
	for _, k := range d.known {
		if k.kind == r.Kind.Name && k.classifier == r.Classifier {
			return k.number
		}
	}
	d.hashes, d.classifiers = append(d.hashes, r.Kind.Hash()), append(d.classifiers, orNull(r.Classifier))
	n := int32(len(d.hashes)) //nolint:gosec // at most one a report
	d.known = append(d.known, rules{r.Kind.Name, r.Classifier, n})
	return n
}

// scan notes what settle_done delivered.
func (d *delivered) scan(results pgx.BatchResults) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	d.changed = make([]bool, len(d.jobs))
	var jobs []int64
	var generations []int32 // null where each is 1
	_, err = pgx.ForEachRow(rows, []any{&jobs, &generations}, func() error {
		for i, id := range jobs {
			n, _ := slices.BinarySearch(d.jobs, id)
			for generations != nil && d.generations[n] != generations[i] {
				n++
			}
			d.changed[n] = true
		}
		return nil
	})
	return err
}
