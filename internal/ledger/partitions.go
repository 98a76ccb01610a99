package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/machine"
)

const (
	// daysAhead is how many daily partitions are made before they are needed.
	daysAhead = 3
	// maxStrays bounds the rows that are moved out of a default partition to make way for
	// a new one. With more of them, the day stays where it is.
	maxStrays = 10_000
	// oldStrays bounds the old rows that one call removes from a default partition.
	oldStrays = 10_000
	// partitionPatience, in milliseconds, is how long the table is waited for. Meanwhile
	// everybody else waits behind.
	partitionPatience = 200
)

// KeepPartitions makes the daily partitions of events, results and leases, today's and those of
// the next days, and drops those in which nothing is younger than keep. Rows that no
// partition was made for lie in a default one: a few are moved when their partition is
// made; many stay, and are removed in turn when they are old. Several may call it at
// once; one does it, and whoever finds a table in use leaves it to a later call.
func (l *Ledger) KeepPartitions(ctx context.Context, keep time.Duration) (machine.Partitions, error) {
	const name = "partitions"
	var done machine.Partitions
	var errs []error
	_, err := l.turn(ctx, name, time.Second, "keeping the partitions", func(tx pgx.Tx, at progress) error {
		done, errs = machine.Partitions{}, nil
		there, err := l.partitions(ctx, tx)
		if err != nil {
			return err
		}
		for _, table := range partitioned {
			errs = append(errs, l.keepTable(ctx, table, there, at.now, keep, &done))
		}
		return move(ctx, tx, name, at.now, 0)
	})
	return done, errors.Join(append(errs, err)...)
}

// partition is a daily partition of a table.
type partition struct{ Table, Name string }

const dayFormat = "20060102"

func partitionOf(table string, day time.Time) partition {
	return partition{table, table + "_" + day.Format(dayFormat)}
}

// day is the beginning of the partition's day; false for a name that is not ours.
func (p partition) day() (time.Time, bool) {
	day, err := time.Parse(dayFormat, strings.TrimPrefix(p.Name, p.Table+"_"))
	return day, err == nil
}

// sql makes a statement that stands for a partition that of this one.
func (p partition) sql(name string) string {
	day, _ := p.day()
	return strings.NewReplacer(
		"duly.parent", "duly."+p.Table, "duly.partition", "duly."+p.Name,
		"'begin'", "'"+day.Format(time.RFC3339)+"'", "'end'", "'"+day.AddDate(0, 0, 1).Format(time.RFC3339)+"'",
	).Replace(stmt(name))
}

func (l *Ledger) keepTable(ctx context.Context, table string, there []partition, now time.Time, keep time.Duration, done *machine.Partitions) error {
	today := now.UTC().Truncate(24 * time.Hour)
	made, err := l.makeAhead(ctx, table, there, today)
	done.Made += made
	errs := []error{err}
	for _, p := range there {
		day, ok := p.day()
		if p.Table != table || !ok || day.AddDate(0, 0, 1).After(now.Add(-keep)) {
			continue
		}
		dropped, err := l.dropPartition(ctx, p)
		if dropped {
			done.Dropped++
		}
		errs = append(errs, err)
	}
	return errors.Join(append(errs, l.dropStrays(ctx, partitionOf(table, today), now.Add(-keep)))...)
}

// makeAhead makes the table's partitions of today and of the next days.
func (l *Ledger) makeAhead(ctx context.Context, table string, there []partition, today time.Time) (made int, err error) {
	var errs []error
	for n := range daysAhead + 1 {
		p := partitionOf(table, today.AddDate(0, 0, n))
		if slices.Contains(there, p) {
			continue
		}
		done, err := l.makePartition(ctx, p)
		if done {
			made++
		}
		errs = append(errs, err)
	}
	return made, errors.Join(errs...)
}

// firstPartitions makes the partitions of a ledger that has none, so that the first
// rows do not lie in a default one, which would have to be moved under their writers.
func (l *Ledger) firstPartitions(ctx context.Context) error {
	there, err := l.partitions(ctx, l.pool)
	if err != nil || len(there) > 0 {
		return err
	}
	var now time.Time
	if err := l.pool.QueryRow(ctx, stmt("clock")).Scan(&now); err != nil {
		return fmt.Errorf("reading the clock: %w", err)
	}
	for _, table := range partitioned {
		if _, err := l.makeAhead(ctx, table, nil, now.UTC().Truncate(24*time.Hour)); err != nil {
			return err
		}
	}
	return nil
}

// partitioned are the tables with daily partitions.
var partitioned = []string{"event", "done", "lease"}

// partitions lists the daily partitions that are there.
func (l *Ledger) partitions(ctx context.Context, q Querier) ([]partition, error) {
	rows, err := q.Query(ctx, stmt("partitions_list"))
	if err != nil {
		return nil, fmt.Errorf("listing the partitions: %w", err)
	}
	there, err := pgx.CollectRows(rows, pgx.RowToStructByPos[partition])
	if err != nil {
		return nil, fmt.Errorf("listing the partitions: %w", err)
	}
	return there, nil
}

// makePartition makes the partition beside the table, fills it with what lies in the
// default one of its day, and attaches it: the table itself is never locked.
func (l *Ledger) makePartition(ctx context.Context, p partition) (bool, error) {
	day, _ := p.day()
	end := day.AddDate(0, 0, 1)
	err := l.inTx(ctx, "making partition "+p.Name, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, stmt("hurry"), strconv.Itoa(partitionPatience)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, p.sql("partition_lock")); err != nil {
			return err
		}
		var strays int
		if err := tx.QueryRow(ctx, p.sql("partition_strays"), day, end, maxStrays+1).Scan(&strays); err != nil {
			return err
		}
		if strays > maxStrays {
			return errManyStrays
		}
		if _, err := tx.Exec(ctx, p.sql("partition_make")); err != nil {
			return err
		}
		if strays > 0 {
			if _, err := tx.Exec(ctx, p.sql("partition_move"), day, end); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, p.sql("partition_attach"))
		return err
	})
	if inUse(err) || errors.Is(err, errManyStrays) {
		return false, nil
	}
	return err == nil, err
}

// errManyStrays: a default partition holds so much of a day that moving it would make
// writers wait.
var errManyStrays = errors.New("the default partition holds much of the day")

func (l *Ledger) dropPartition(ctx context.Context, p partition) (bool, error) {
	err := l.inTx(ctx, "dropping partition "+p.Name, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, stmt("hurry"), strconv.Itoa(partitionPatience)); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, p.sql("partition_drop"))
		return err
	})
	if inUse(err) {
		return false, nil
	}
	return err == nil, err
}

func (l *Ledger) dropStrays(ctx context.Context, p partition, before time.Time) error {
	return l.inTx(ctx, "removing old rows from the default partition of "+p.Table, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, p.sql("partition_old"), before, oldStrays)
		return err
	})
}
