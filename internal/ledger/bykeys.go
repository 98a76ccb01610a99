package ledger

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// keyedHurry is keyed and hurry in one statement.
var keyedHurry = stmt("keyed") + ", set_config('lock_timeout', $1::text, true)"

// byKeys is how a statement finds the rows of a batch: along the primary key, in order.
const byKeys = "j.id = ANY ($1::bigint[])"

// queueByKeys queues the statement, whose first argument are the jobs in order. The jobs
// of one message mostly have ids in a row: they were given in one statement. Then one
// descent of the primary key finds them all, and what lies between is passed over; where
// they are scattered, each is looked up.
func queueByKeys(batch *pgx.Batch, name string, jobs []int64, args ...any) {
	first, last, dense := spanOf(jobs)
	if !dense {
		batch.Queue(stmt(name), args...)
		return
	}
	batch.Queue(inSpan[name], append(args, first, last)...)
}

// inSpan are the statements that find rows byKeys, each with two more arguments behind its
// own: the rows between these jobs are looked at.
var inSpan = func() map[string]string {
	argument := regexp.MustCompile(`\$(\d+)`)
	all := make(map[string]string)
	for name, text := range statements {
		if !strings.Contains(text, byKeys) {
			continue
		}
		n := 0
		for _, m := range argument.FindAllStringSubmatch(text, -1) {
			i, _ := strconv.Atoi(m[1]) // digits, few of them
			n = max(n, i)
		}
		all[name] = strings.Replace(text, byKeys, fmt.Sprintf("j.id BETWEEN $%d AND $%d", n+1, n+2), 1)
	}
	return all
}()

// spanOf returns the first and the last of the jobs, and whether at least every second id
// between them is one of theirs.
func spanOf(jobs []int64) (first, last int64, dense bool) {
	if len(jobs) == 0 {
		return 1, 0, true
	}
	first, last = jobs[0], jobs[len(jobs)-1]
	return first, last, last-first < 2*int64(len(jobs))
}
