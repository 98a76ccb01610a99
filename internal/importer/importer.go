package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/pkg/job"
)

// DefaultBatch is how many rows a transaction enqueues unless told otherwise.
const DefaultBatch = 500

// Format is how a file is written.
type Format string

const (
	// CSV is comma-separated values with a header.
	CSV Format = "csv"
	// NDJSON is a JSON object on each line.
	NDJSON Format = "ndjson"
)

// FormatOf tells the format of a file by the end of its name.
func FormatOf(name string) (Format, error) {
	switch strings.ToLower(path.Ext(name)) {
	case ".csv":
		return CSV, nil
	case ".ndjson", ".jsonl":
		return NDJSON, nil
	}
	return "", fmt.Errorf("file %q: its name must end in .csv or .ndjson", name)
}

// Accepted is what became of one request.
type Accepted struct {
	// Created is false where the key had been accepted before with the same body.
	Created bool
	// Refused says why there is no job; nil otherwise.
	Refused error
}

// Door takes a batch of requests in one transaction and answers each, in order. An
// error means that nothing of the batch was taken, or that this is not known; in both
// cases the batch may be given again.
type Door interface {
	Enqueue(ctx context.Context, specs []job.Spec) ([]Accepted, error)
}

// Options say how to import.
type Options struct {
	Format Format
	// Door takes the jobs. Nil checks the file and enqueues nothing: what only the
	// ledger knows, such as a key that exists, is then not found.
	Door Door
	// Limits are what requests are checked against.
	Limits job.Limits
	// Checkers judge destinations and payloads, by kind. Kinds without one take any.
	Checkers app.Checkers
	// Batch is how many rows a transaction takes. Default DefaultBatch.
	Batch int
	// Refused is told of every reason to refuse a row, in the order of the rows. Nil
	// drops them; an error ends the import.
	Refused func(Refused) error
	// Progress is told after every batch, with the bytes of the file that are read.
	Progress func(counts Counts, bytes int64)
}

// now is the instant against which deadlines are checked here. With a door the
// ledger's clock decides: a job that exists is no new request, even if its deadline
// has passed since.
func (o Options) now() time.Time {
	if o.Door == nil {
		return time.Now()
	}
	return time.Time{}
}

// Counts are how many rows were read, and how each of them ended.
type Counts struct {
	Rows int `json:"rows"`
	// Refused rows became no job; the report has their reasons.
	Refused int `json:"refused"`
	// SameKey rows were accepted before: a key and a body that exist.
	SameKey int `json:"same_key"`
	// Jobs were created. Without a door: rows that pass every check.
	Jobs int `json:"jobs"`
}

// Balanced reports whether every row ended in exactly one way.
func (c Counts) Balanced() bool { return c.Rows == c.Refused+c.SameKey+c.Jobs }

// source yields the rows of a file; io.EOF after the last.
type source interface {
	next() (record, error)
}

// Run imports a file. Rows that are wrong are counted and reported, and are no error.
// An error ends the import between two batches: what the counts say was done stays,
// and running the same import again continues. A header that is refused imports
// nothing.
func Run(ctx context.Context, r io.Reader, o Options) (Counts, error) {
	i := importer{Options: o, lines: newLines(r, o.maxLine())}
	if i.Batch <= 0 {
		i.Batch = DefaultBatch
	}
	src, err := i.open()
	if err != nil {
		return i.counts, err
	}
	for {
		rec, err := src.next()
		switch {
		case errors.Is(err, io.EOF):
			return i.counts, i.flush(ctx)
		case err != nil:
			return i.counts, fmt.Errorf("reading behind line %d: %w", i.lines.number, err)
		}
		i.add(rec)
		if len(i.rows) < i.Batch {
			continue
		}
		if err := i.flush(ctx); err != nil {
			return i.counts, err
		}
	}
}

// maxLine is the longest row, in bytes: a payload that is all quotes doubles in CSV.
func (o Options) maxLine() int {
	payload := o.Limits.MaxPayload
	if payload <= 0 {
		payload = job.DefaultMaxPayload
	}
	return 2*payload + 64<<10
}

// importer is one import under way.
type importer struct {
	Options
	lines  *lines
	rows   []row // the batch
	counts Counts
}

// row is a row of the batch: a request, or why it is none.
type row struct {
	line    int
	spec    job.Spec
	refused []*job.Refusal
}

func (i *importer) open() (source, error) {
	switch i.Format {
	case CSV:
		return newCSV(i.lines)
	case NDJSON:
		return &jsonSource{i.lines}, nil
	default:
		return nil, fmt.Errorf("format %q: it must be %s or %s", i.Format, CSV, NDJSON)
	}
}

func (i *importer) add(rec record) {
	spec, refused := rec.spec(i.Options)
	if len(refused) > 0 { // for the report
		spec = job.Spec{Kind: rec.kind, Key: rec.key}
	}
	i.rows = append(i.rows, row{rec.line, spec, refused})
}

// flush gives the batch to the door and counts how its rows ended.
func (i *importer) flush(ctx context.Context) error {
	if len(i.rows) == 0 {
		return ctx.Err()
	}
	if err := i.enqueue(ctx); err != nil {
		return fmt.Errorf("enqueueing lines %d to %d: %w; import the file again to continue: what was accepted is not made twice",
			i.rows[0].line, i.rows[len(i.rows)-1].line, err)
	}
	for _, r := range i.rows {
		i.counts.Rows++
		if len(r.refused) == 0 {
			continue
		}
		i.counts.Refused++
		if err := i.report(r); err != nil {
			return err
		}
	}
	i.rows = i.rows[:0]
	if i.Progress != nil {
		i.Progress(i.counts, i.lines.read)
	}
	return nil
}

// enqueue fills in what the door says.
func (i *importer) enqueue(ctx context.Context) error {
	var specs []job.Spec
	var at []int
	for n, r := range i.rows {
		if len(r.refused) == 0 {
			specs, at = append(specs, r.spec), append(at, n)
		}
	}
	if i.Door == nil {
		i.counts.Jobs += len(specs)
		return ctx.Err()
	}
	if len(specs) == 0 {
		return ctx.Err()
	}
	answers, err := i.Door.Enqueue(ctx, specs)
	if err != nil {
		return err
	}
	for n, a := range answers {
		switch {
		case a.Refused != nil:
			i.rows[at[n]].refused = job.Refusals(a.Refused)
		case a.Created:
			i.counts.Jobs++
		default:
			i.counts.SameKey++
		}
	}
	return nil
}

func (i *importer) report(r row) error {
	if i.Refused == nil {
		return nil
	}
	for _, why := range r.refused {
		if err := i.Refused(refusedRow(r, why)); err != nil {
			return fmt.Errorf("writing the report of line %d: %w", r.line, err)
		}
	}
	return nil
}
