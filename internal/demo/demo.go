package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"duly.dev/duly/examples"
	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/importer"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/progress"
	"duly.dev/duly/internal/redrive"
	"duly.dev/duly/pkg/job"
)

// Options say how to demonstrate.
type Options struct {
	// Dir keeps everything that the demonstration makes, and must not exist or be
	// empty. Empty: a temporary folder, removed at the end unless something went wrong.
	Dir string
	// Bus is BusNATS (default), BusMemory or BusKafka.
	Bus string
	// JSON prints the result as one line of JSON on standard output, and everything
	// else on standard error.
	JSON bool
	// File replaces examples/renewals.csv; of the same form.
	File []byte
	// Patience is how long the jobs may take to come to an end. Default 2 minutes.
	Patience time.Duration
}

// Result is what a demonstration came to.
type Result struct {
	Rows             int               `json:"rows"`
	Refused          int               `json:"refused"`
	SameKey          int               `json:"same_key"`
	States           map[job.State]int `json:"states"`
	Effects          int               `json:"effects"`
	DuplicateEffects int               `json:"duplicate_effects"`
	Lost             int               `json:"lost"`
	// Disagreements is how many things the ledger and the receivers do not agree on,
	// whatever they are.
	Disagreements int     `json:"disagreements"`
	Seconds       float64 `json:"seconds"`
}

// ErrDisagree: the ledger and the receivers do not agree.
var ErrDisagree = errors.New("the ledger and the receivers do not agree")

// Run demonstrates: see the package's documentation. It prints what happens and the
// comparison, and fails with ErrDisagree where there is anything to explain.
func Run(ctx context.Context, p *app.Process, o Options) (Result, error) {
	d := &demonstration{stage: newStage(p, o)}
	err := d.run(ctx, p, d.setup, func() any {
		if d.result.Rows == 0 {
			return nil
		}
		return d.result
	})
	return d.result, err
}

// demonstration is the one of renewals under way.
type demonstration struct {
	stage

	file    []byte // the rendered rows
	counts  importer.Counts
	redrive redriven // its generation is 0 where nothing was to be redriven
	result  Result
}

// setup starts servers, receivers and loops, and returns what is to be played on them.
func (d *demonstration) setup(ctx context.Context, s *app.Service) (play, error) {
	d.sayf("Starting PostgreSQL and the bus in %s …", d.Dir)
	servers, err := startServers(ctx, s, serverOptions{dir: d.Dir, bus: d.Bus})
	if err != nil {
		return nil, err
	}
	letters, err := startMail("127.0.0.1:0", d.path("received-mail.ndjson"), mailAt, nil)
	if err != nil {
		return nil, err
	}
	s.Stack.Push("mail server", stopServers, letters.stop)
	hooks, err := startHooks("127.0.0.1:0", d.path("received-webhooks.ndjson"))
	if err != nil {
		return nil, err
	}
	s.Stack.Push("receiver of webhooks", stopServers, hooks.stop)
	config, err := d.render(letters.address(), hooks.address())
	if err != nil {
		return nil, err
	}
	servers.apart(config)
	run, err := servers.addLoops(ctx, s, config, nil)
	if err != nil {
		return nil, err
	}
	d.sayf("Running: %s, scheduler, dispatcher and worker in one process; what the ledger commits is durable.\n", servers.describe())
	return func(ctx context.Context) error { return d.play(ctx, run, config) }, nil
}

// render writes the configuration and the rows as they are for this run.
func (d *demonstration) render(mail, hooks string) (*app.Config, error) {
	config := renderConfig(examples.Config, mail)
	rows := d.File
	if rows == nil {
		rows = examples.Renewals
	}
	d.file = render(rows, time.Now(), hooks)
	for name, content := range map[string][]byte{"duly.yaml": config, "renewals.csv": d.file} {
		if err := os.WriteFile(d.path(name), content, 0o644); err != nil {
			return nil, fmt.Errorf("writing the example: %w", err)
		}
	}
	return app.LoadConfig(d.path("duly.yaml"))
}

// play imports, waits, redrives, waits and compares.
func (d *demonstration) play(ctx context.Context, run running, config *app.Config) error {
	ctx, cancel := context.WithTimeout(ctx, d.Patience)
	defer cancel()
	if err := d.importRows(ctx, run, config); err != nil {
		return err
	}
	settled, err := d.settle(ctx, run.ledger, "delivering")
	if err != nil {
		return err
	}
	if settled {
		if err := d.correct(ctx, run.ledger, config); err != nil {
			return err
		}
		if _, err := d.settle(ctx, run.ledger, "redriving "); err != nil {
			return err
		}
	}
	return d.judge(context.WithoutCancel(ctx), run.ledger)
}

func (d *demonstration) importRows(ctx context.Context, run running, config *app.Config) error {
	limits, checkers, err := importer.Rules(config)
	if err != nil {
		return err
	}
	report, err := os.Create(d.path("refused.csv"))
	if err != nil {
		return fmt.Errorf("opening the report of refused rows: %w", err)
	}
	defer func() { _ = report.Close() }()
	refused, err := importer.NewReport(report, importer.CSV)
	if err != nil {
		return err
	}
	bar := progress.New(d.progress, "importing ")
	d.counts, err = importer.Run(ctx, bytes.NewReader(d.file), importer.Options{
		Format: importer.CSV, Door: importer.NewLedgerDoor(run.pool, config.MaxPayload), Limits: limits, Checkers: checkers, Refused: refused.Add,
		Progress: func(c importer.Counts, read int64) {
			bar.Show(float64(read)/float64(len(d.file)), fmt.Sprintf("%d rows", c.Rows))
		},
	})
	bar.Done(1, fmt.Sprintf("%d rows: %d jobs, %d of a known key, %d refused", d.counts.Rows, d.counts.Jobs, d.counts.SameKey, d.counts.Refused))
	return errors.Join(err, refused.Flush())
}

// settle waits until no job is pending; false: patience was over before, and the
// comparison will say which jobs still are.
func (d *demonstration) settle(ctx context.Context, l *ledger.Ledger, doing string) (bool, error) {
	bar := progress.New(d.progress, doing)
	every := time.NewTicker(200 * time.Millisecond)
	defer every.Stop()
	for {
		tally, err := l.Tally(context.WithoutCancel(ctx))
		if err != nil {
			return false, err
		}
		pending := tally[job.Scheduled] + tally[job.Ready] + tally[job.Leased]
		share := 1 - float64(pending)/float64(max(1, d.counts.Jobs))
		note := endedText(tally)
		if pending == 0 {
			bar.Done(1, note)
			return true, nil
		}
		bar.Show(share, note)
		select {
		case <-every.C:
		case <-ctx.Done():
			bar.Done(share, note)
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return false, nil
			}
			return false, ctx.Err()
		}
	}
}

// redriven is the reminder whose address was corrected.
type redriven struct {
	key, from, to string
	generation    int32
}

// correct redrives one quarantined reminder to the address that was meant, as dlq does.
func (d *demonstration) correct(ctx context.Context, l *ledger.Ledger, config *app.Config) error {
	e, wrong, err := misaddressed(ctx, l)
	if err != nil || wrong == "" {
		return err
	}
	checkers, err := config.Checkers()
	if err != nil {
		return err
	}
	desk := redrive.NewDesk(l, l, redrive.Options{MaxPayload: config.MaxPayload, Check: checkers.Check})
	right := strings.TrimSuffix(wrong, typo) + correct
	successor, err := desk.Redrive(ctx, machine.RedriveRequest{
		Kind: e.Kind, Key: e.Key, Generation: e.Generation, RecoveryKey: "demo:" + e.Key, Destination: right,
		Approver: "demo", Actor: "demo", Reason: "a slip of the pen in the domain",
	})
	if err != nil {
		return fmt.Errorf("redriving %s/%s: %w", e.Kind, e.Key, err)
	}
	d.redrive = redriven{key: e.Kind + "/" + e.Key, from: wrong, to: right, generation: successor.Generation}
	return nil
}

// misaddressed finds a quarantined reminder whose domain is the slip of the pen; an
// empty address where there is none.
func misaddressed(ctx context.Context, l *ledger.Ledger) (machine.Entry, string, error) {
	page, err := l.List(ctx, machine.ListRequest{State: job.Quarantined, Code: job.CodeDestinationInvalid, Limit: 1000})
	if err != nil {
		return machine.Entry{}, "", err
	}
	for _, e := range page.Entries {
		story, err := l.Find(ctx, e.Kind, e.Key)
		if err != nil {
			return machine.Entry{}, "", err
		}
		if current, _ := story.Current(); strings.HasSuffix(current.Destination, "@"+typo) {
			return e, current.Destination, nil
		}
	}
	return machine.Entry{}, "", nil
}

// judge compares and shows what came out.
func (d *demonstration) judge(ctx context.Context, l *ledger.Ledger) error {
	claims, err := readClaims(ctx, l)
	if err != nil {
		return err
	}
	letters, err := readLogbook(d.path("received-mail.ndjson"))
	if err != nil {
		return err
	}
	hooks, err := readLogbook(d.path("received-webhooks.ndjson"))
	if err != nil {
		return err
	}
	c := compare(rowsOf(d.file), d.counts, claims, effects(letters, hooks))
	d.result = Result{
		Rows: d.counts.Rows, Refused: d.counts.Refused, SameKey: d.counts.SameKey, States: c.states,
		Effects: c.effects, DuplicateEffects: c.duplicates, Lost: c.lost, Disagreements: len(c.problems),
		Seconds: time.Since(d.began).Round(10 * time.Millisecond).Seconds(),
	}
	if err := d.show(c, repeats(hooks)); err != nil {
		return err
	}
	if len(c.problems) > 0 {
		return fmt.Errorf("%w: %d disagreements", ErrDisagree, len(c.problems))
	}
	return nil
}
