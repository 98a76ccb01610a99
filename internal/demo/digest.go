package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"duly.dev/duly/examples"
	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/calendar"
	"duly.dev/duly/internal/compose"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/progress"
	"duly.dev/duly/internal/schedule"
	"duly.dev/duly/pkg/job"
)

// digestSchedule is the schedule of examples/digest.yaml, and digestLines how many lines
// each digest has.
const (
	digestSchedule = "weekly-digest"
	digestLines    = 3
)

// DigestOptions say how to demonstrate the weekly digest.
type DigestOptions struct {
	Options

	// Customers is how many there are. Default 5000.
	Customers int
	// Stay keeps everything running after the result, until the context ends.
	Stay bool
}

// DigestResult is what a demonstration of the digest came to.
type DigestResult struct {
	Result

	// Period is the run's. Selected are the rows of its selection: Refused and Expected, and
	// Expected are the members of States, each once. Complete says that this holds.
	Period   string `json:"period"`
	Selected int64  `json:"selected"`
	Expected int64  `json:"expected"`
	Complete bool   `json:"complete"`
	// Moved counts customers whose address changed after their digest was written, and
	// Reached those of them who got it at the new one.
	Moved   int `json:"moved"`
	Reached int `json:"reached"`
	// Written are the rows that were generated; cleanup Removed some and Kept the others.
	Written int `json:"written"`
	Removed int `json:"removed"`
	Kept    int `json:"kept"`
}

// Digest demonstrates the weekly digest: tables of customers in six zones, a run of the real
// scheduler, a mail server that acts and hangs up, customers who moved, and rows that are
// removed behind what was surely sent. It fails with ErrDisagree where the ledger, the mail
// server and the tables do not agree.
func Digest(ctx context.Context, p *app.Process, o DigestOptions) (DigestResult, error) {
	if o.Customers == 0 {
		o.Customers = 5000
	}
	d := &digest{stage: newStage(p, o.Options), stay: o.Stay, customers: customers(o.Customers), say: statements(examples.DigestSQL)}
	err := d.run(ctx, p, d.setup, func() any {
		if d.result.Selected == 0 {
			return nil
		}
		return d.result
	})
	return d.result, err
}

// digest is a demonstration of the digest under way.
type digest struct {
	stage

	stay      bool
	customers []customer
	// say are the statements of the customer's side by their names.
	say    map[string]string
	mail   *mailServer
	intro  func() error
	result DigestResult
}

// statements are the texts of a file by their names.
func statements(file string) map[string]string {
	all := map[string]string{}
	for _, part := range strings.Split(file, "\n-- name: ")[1:] {
		name, text, _ := strings.Cut(part, "\n")
		all[name] = strings.TrimSpace(text)
	}
	return all
}

func (d *digest) setup(ctx context.Context, s *app.Service) (play, error) {
	d.sayf("Starting PostgreSQL and the bus in %s …", d.Dir)
	servers, err := startServers(ctx, s, serverOptions{dir: d.Dir, bus: d.Bus})
	if err != nil {
		return nil, err
	}
	pool, err := compose.Pool(ctx, s, servers.postgres.URL(), logConns)
	if err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, d.say["tables"]); err != nil { // before a scheduler checks its statements
		return nil, fmt.Errorf("making the customer's tables: %w", err)
	}
	d.mail, err = startMail("127.0.0.1:0", d.path("received-mail.ndjson"), digestAt, d.logs(pool))
	if err != nil {
		return nil, err
	}
	s.Stack.Push("mail server", stopServers, d.mail.stop)
	if err := os.WriteFile(d.path("duly.yaml"), renderConfig(examples.DigestConfig, d.mail.address()), 0o644); err != nil {
		return nil, fmt.Errorf("writing the configuration: %w", err)
	}
	config, err := app.LoadConfig(d.path("duly.yaml"))
	if err != nil {
		return nil, err
	}
	servers.apart(config)
	run, err := servers.addLoops(ctx, s, config, nil)
	if err != nil {
		return nil, err
	}
	d.sayf("Running: %s, scheduler, dispatcher and worker in one process; what the ledger commits is durable.\n", servers.describe())
	d.intro = func() error { return d.introduce(servers) }
	return func(ctx context.Context) error { return d.play(ctx, run, config) }, nil
}

// logConns are the connections by which the mail server writes its log.
const logConns = 8

// logs is the mail server's log, a table that others may read.
func (d *digest) logs(pool *pgxpool.Pool) mailLog {
	return func(message string, accepted *bool) error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, err := pool.Exec(ctx, d.say["logged"], message, "Q"+strings.ToUpper(message[len(message)-10:]), accepted)
		return err
	}
}

// play writes the digests, lets customers move, fires the run, waits for it and compares.
func (d *digest) play(ctx context.Context, run running, config *app.Config) error {
	bound, cancel := context.WithTimeout(ctx, d.Patience)
	defer cancel()
	opening, kind, err := d.opening(config)
	if err != nil {
		return err
	}
	if err := d.write(bound, run.pool, opening.Period); err != nil {
		return err
	}
	if _, _, err := run.ledger.StartRun(bound, digestSchedule, kind, opening); err != nil {
		return err
	}
	if _, again, err := run.ledger.StartRun(bound, digestSchedule, kind, opening); err != nil || again {
		return errors.Join(err, fmt.Errorf("%w: period %s was started twice", ErrDisagree, opening.Period))
	}
	if err := d.settle(bound, run.ledger, opening.Period); err != nil {
		return err
	}
	judged := d.judge(context.WithoutCancel(ctx), run, opening.Period)
	if !d.stay || ctx.Err() != nil {
		return judged
	}
	if err := d.intro(); err != nil {
		return err
	}
	<-ctx.Done()
	return judged
}

// opening is the newest occurrence that has come for everybody, whatever their zone.
func (d *digest) opening(config *app.Config) (machine.Opening, string, error) {
	schedules, err := compose.Schedules(config)
	if err != nil {
		return machine.Opening{}, "", err
	}
	var weekly schedule.Schedule
	for _, s := range schedules {
		if s.Name == digestSchedule {
			weekly = s
		}
	}
	now := time.Now()
	var past calendar.Occurrence
	for o := range weekly.When.All(now.Add(-15 * 24 * time.Hour)) {
		if weekly.When.LastDue(o).After(now) {
			break
		}
		past = o
	}
	opening, err := weekly.Opening(weekly.When.PeriodOf(past), "demo", now)
	return opening, weekly.Kind, err
}

// write fills the customer's tables: who there was when the digests were written, then what
// has changed since.
func (d *digest) write(ctx context.Context, pool *pgxpool.Pool, period string) error {
	var ids, names, then, inZones, moved, to, left, twice []string
	gone := map[int]bool{}
	for _, c := range d.customers {
		ids, names, then, inZones = append(ids, c.id), append(names, c.name), append(then, c.then), append(inZones, c.zone)
		switch {
		case c.left:
			left = append(left, c.id)
		case c.now != c.then:
			gone[len(to)] = c.now == ""
			moved, to = append(moved, c.id), append(to, c.now)
		}
		if c.twice {
			twice = append(twice, c.id)
		}
	}
	current := make([]*string, len(to))
	for i := range to {
		if !gone[i] {
			current[i] = &to[i]
		}
	}
	for _, step := range []struct {
		name string
		args []any
	}{
		{"customers", []any{ids, names, then, inZones}},
		{"written", []any{period}},
		{"lines", []any{digestLines}},
		{"twice", []any{twice}},
		{"moved", []any{moved, current}},
		{"left", []any{left}},
	} {
		if _, err := pool.Exec(ctx, d.say[step.name], step.args...); err != nil {
			return fmt.Errorf("filling the customer's tables (%s): %w", step.name, err)
		}
	}
	return nil
}

// settle waits until nothing of the run is pending, only those are unknown whom nobody can be
// asked about, and nothing is left to be cleaned up; or until patience is over: the
// comparison then says what is missing.
func (d *digest) settle(ctx context.Context, l *ledger.Ledger, period string) error {
	bar := progress.New(d.progress, "sending   ")
	every := time.NewTicker(200 * time.Millisecond)
	defer every.Stop()
	for {
		over, share, note, err := d.standing(context.WithoutCancel(ctx), l, period)
		if err != nil {
			return err
		}
		if over {
			bar.Done(1, note)
			return nil
		}
		bar.Show(share, note)
		select {
		case <-every.C:
		case <-ctx.Done():
			bar.Done(share, note)
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil
			}
			return ctx.Err()
		}
	}
}

func (d *digest) standing(ctx context.Context, l *ledger.Ledger, period string) (over bool, share float64, note string, err error) {
	run, err := l.Run(ctx, digestSchedule, period)
	if err != nil || run.State != machine.RunFrozen {
		return false, 0, "freezing the selection " + run.Error, err
	}
	counts, err := l.RunCounts(ctx, run.ID)
	if err != nil {
		return false, 0, "", err
	}
	figures, err := l.Figures(ctx, 1)
	states := map[job.State]int{}
	for s, n := range counts {
		states[s] = int(n)
	}
	unclear := 0
	for _, c := range d.customers {
		if !c.refused && c.plan().ends == job.Unknown {
			unclear++
		}
	}
	over = counts.Pending() == 0 && states[job.Unknown] <= unclear && figures.CleanupsDue == 0
	return over, 1 - float64(counts.Pending())/float64(max(1, run.Expected())), endedText(states), err
}

// introduce says where everything is, and how to look at it.
func (d *digest) introduce(servers *servers) error {
	_, err := fmt.Fprintf(d.out, `
Everything goes on running; Ctrl-C stops. In another shell:

  export DULY_DATABASE_URL='%s'
  export DULY_CONFIG='%s'

`, servers.postgres.URL(), d.path("duly.yaml"))
	return err
}
