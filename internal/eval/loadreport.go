package eval

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/barchart"
)

// name says the setting as far as it is not the middle's.
func (p Point) name() string {
	switch p.Varied {
	case "lease":
		return "lease " + p.Lease.String()
	case "ack wait":
		return "ack wait " + p.AckWait.String()
	case "slots":
		return fmt.Sprintf("%d slots a worker", p.Slots)
	}
	return fmt.Sprintf("lease %s, ack wait %s, %d slots", p.Lease, p.AckWait, p.Slots)
}

// column is a measure of a point.
type column struct {
	title, unit string
	value       func(Point) float64
	digits      int
}

// columns are what a report shows of each point.
var columns = []column{
	{"throughput", "jobs/s", func(p Point) float64 { return p.Throughput }, 0},
	{"latency, median", "s", func(p Point) float64 { return p.Latency.P50 }, 2},
	{"latency, 99th", "s", func(p Point) float64 { return p.Latency.P99 }, 2},
	{"until all have ended", "s", func(p Point) float64 { return p.Seconds }, 1},
	{"sends", "", func(p Point) float64 { return float64(p.Sends) }, 0},
	{"cleanup attempts", "", func(p Point) float64 { return float64(p.CleanupTries) }, 0},
	{"retry delay, median", "s", func(p Point) float64 { return p.RetryDelay.P50 }, 2},
	{"retry delay, 99th", "s", func(p Point) float64 { return p.RetryDelay.P99 }, 2},
	{"duplicates prevented", "", func(p Point) float64 { return float64(p.Prevented) }, 0},
	{"unresolved", "", func(p Point) float64 { return float64(p.Unresolved) }, 0},
	{"effects twice", "", func(p Point) float64 { return float64(p.Duplicates) }, 0},
	{"lost", "", func(p Point) float64 { return float64(p.Lost) }, 0},
}

func (c column) text(p Point) string {
	return strings.TrimSpace(fmt.Sprintf("%.*f", c.digits, c.value(p)))
}

func (c column) head() string {
	if c.unit == "" {
		return c.title
	}
	return c.title + " (" + c.unit + ")"
}

// verdict is ErrViolated where anything did not hold.
func (r LoadReport) verdict() error {
	n := 0
	for _, p := range r.Points {
		if len(p.Problems) > 0 {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return app.Exit(app.ExitFailed, fmt.Errorf("%w at %d of %d points", ErrViolated, n, len(r.Points)))
}

// write prints the report, and writes the files that are asked for.
func (r LoadReport) write(p *app.Process, o LoadOptions) error {
	w := p.Stdout
	if o.JSON {
		w = p.Stderr
	}
	if err := r.table(w); err != nil {
		return fmt.Errorf("printing the report: %w", err)
	}
	var page, plot bytes.Buffer
	r.markdown(&page, o.Plot)
	if err := r.draw(&plot); err != nil {
		return err
	}
	for path, content := range map[string][]byte{o.Out: page.Bytes(), o.Plot: plot.Bytes()} {
		if path == "" {
			continue
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
	}
	if o.JSON {
		return encode(p.Stdout, r)
	}
	return nil
}

// table prints the report for people: a row for each measure, since points are few.
func (r LoadReport) table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t)
	for _, p := range r.Points {
		fmt.Fprintf(t, "\t%s", p.name())
	}
	fmt.Fprintln(t, "\t")
	for _, c := range columns {
		fmt.Fprint(t, c.head())
		for _, p := range r.Points {
			fmt.Fprintf(t, "\t%s", c.text(p))
		}
		fmt.Fprintln(t, "\t")
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, p := range r.Points {
		for _, problem := range p.Problems {
			fmt.Fprintf(w, "  %s: %s\n", p.name(), problem)
		}
	}
	_, err := fmt.Fprintf(w, "\n%d customers at each of %d points, %d workers of which one is ended and replaced, %s, in %.0f s.\n",
		r.Customers, len(r.Points), loadWorkers, r.Servers, r.Seconds)
	return err
}

// draw draws a panel a measure.
func (r LoadReport) draw(w io.Writer) error {
	panels := make([]barchart.Panel, 0, len(columns))
	for _, c := range columns {
		p := barchart.Panel{Title: c.head()}
		for _, point := range r.Points {
			v := c.value(point)
			p.Bars = append(p.Bars, barchart.Bar{Name: point.name(), Note: c.text(point), Value: v, Min: v, Max: v, Strong: point.Varied == ""})
		}
		panels = append(panels, p)
	}
	if err := barchart.Write(w, panels); err != nil {
		return fmt.Errorf("drawing the report: %w", err)
	}
	return nil
}

// markdown writes the report as a page.
func (r LoadReport) markdown(b *bytes.Buffer, plot string) {
	fmt.Fprintf(b, "# Load\n\nWritten by `duly eval load --out`. How to read it is in [eval.md](../eval.md#load). Version %s, %s, %s; %s.\n\n", r.Version, r.System, r.At, r.Servers)
	fmt.Fprintf(b, "%d customers at each point, enqueued at once; %d workers, of which one is ended when a third is delivered, and replaced. Receivers take %s, %s for 5 in 100; of 100 customers 1 is refused, 3 are throttled, "+
		"3 meet a breakdown and 2 a receiver that acts and hangs up. Every point has a ledger of its own, fully durable.\n\n", r.Customers, loadWorkers, serviceTime, slowly)
	b.WriteString("| |")
	for _, p := range r.Points {
		fmt.Fprintf(b, " %s |", p.name())
	}
	b.WriteString("\n|---|" + strings.Repeat("--:|", len(r.Points)) + "\n")
	for _, c := range columns {
		fmt.Fprintf(b, "| %s |", c.head())
		for _, p := range r.Points {
			fmt.Fprintf(b, " %s |", c.text(p))
		}
		b.WriteString("\n")
	}
	if plot != "" {
		fmt.Fprintf(b, "\n![All measures](%s)\n", filepath.Base(plot))
	}
	for _, p := range r.Points {
		for _, problem := range p.Problems {
			fmt.Fprintf(b, "\n- **%s**: %s", p.name(), problem)
		}
	}
	fmt.Fprintf(b, "\nAll of it took %s.\n", (time.Duration(r.Seconds) * time.Second).String())
}
