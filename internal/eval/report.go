package eval

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"duly.dev/duly/internal/app"
)

// Verdict says what a case has shown.
type Verdict string

// The verdicts.
const (
	// Passed: the fault happened, and everything held.
	Passed Verdict = "pass"
	// Violated: something did not hold.
	Violated Verdict = "VIOLATED"
	// NotCovered: the fault did not happen, so that nothing was shown. It fails.
	NotCovered Verdict = "NOT COVERED"
	// Found: the receiver broke a promise, and the report says so.
	Found Verdict = "finding"
	// NotApplicable: the adapter has nothing that the case could be about.
	NotApplicable Verdict = "–"
)

// fails reports whether the verdict fails an evaluation.
func (v Verdict) fails() bool { return v == Violated || v == NotCovered }

// Row is what one case came to on one adapter.
type Row struct {
	Case       string  `json:"case"`
	Title      string  `json:"title"`
	Adapter    string  `json:"adapter"`
	Guarantees string  `json:"guarantees"`
	Expect     string  `json:"expect"`
	Verdict    Verdict `json:"verdict"`
	// Injected is how often the fault happened.
	Injected int `json:"injected"`
	Counts
	// Problems are what did not hold, in words.
	Problems []string `json:"problems,omitempty"`
	// Note names a promise that was broken, or says why nothing was tried.
	Note    string  `json:"note,omitempty"`
	Seconds float64 `json:"seconds"`
}

// judge comes to a verdict. breaks names the promise that the case's receiver breaks.
func (r *Row) judge(breaks string) {
	if breaks != "" && r.Injected > 0 && r.Duplicates == 0 {
		r.Problems = append(r.Problems, "the receiver broke its "+breaks+", and nothing shows it")
	}
	switch {
	case len(r.Problems) > 0:
		r.Verdict = Violated
	case r.Injected == 0:
		r.Verdict = NotCovered
	case breaks != "":
		r.Verdict = Found
		r.Note = fmt.Sprintf("the receiver broke its %s: %d of its effects happened twice", breaks, r.Duplicates)
	default:
		r.Verdict = Passed
	}
}

// Report is what an evaluation came to.
type Report struct {
	Version string `json:"version"`
	System  string `json:"system"`
	At      string `json:"at"`
	// Servers are what was tried, by adapter.
	Servers map[string]string `json:"servers"`
	Rows    []Row             `json:"rows"`
	Seconds float64           `json:"seconds"`
}

func newReport(version string, sites []*site) Report {
	r := Report{
		Version: version, System: fmt.Sprintf("%s/%s, %d processors", runtime.GOOS, runtime.GOARCH, runtime.NumCPU()),
		At: time.Now().UTC().Format(time.DateOnly), Servers: make(map[string]string),
	}
	for _, s := range sites {
		r.Servers[s.adapter] = s.what
	}
	return r
}

// verdict is ErrViolated unless everything passed.
func (r Report) verdict() error {
	n := r.count(Verdict.fails)
	if n == 0 {
		return nil
	}
	return app.Exit(app.ExitFailed, fmt.Errorf("%w: %d of %d cases", ErrViolated, n, len(r.Rows)))
}

// count counts the rows of some verdicts.
func (r Report) count(is func(Verdict) bool) (n int) {
	for _, row := range r.Rows {
		if is(row.Verdict) {
			n++
		}
	}
	return n
}

// write prints the report, and writes it to a file where one is named.
func (r Report) write(p *app.Process, asJSON bool, out string) error {
	w := p.Stdout
	if asJSON {
		w = p.Stderr
	}
	if err := r.table(w); err != nil {
		return fmt.Errorf("printing the report: %w", err)
	}
	if out != "" {
		var b bytes.Buffer
		r.markdown(&b)
		if err := os.WriteFile(out, b.Bytes(), 0o644); err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
	}
	if asJSON {
		return encode(p.Stdout, r)
	}
	return nil
}

// table prints the report for people.
func (r Report) table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "\nCASE\tADAPTER\tHOLDS\tINJECTED\tJOBS\tENDED\tSENT\tEFFECTS\tTWICE\tLOST\tSTALE\tVERDICT\tSECONDS\n")
	for _, row := range r.Rows {
		if row.Verdict == NotApplicable {
			fmt.Fprintf(t, "%s\t%s\t%s\t\t\t%s\t\t\t\t\t\t%s\t\n", row.Case, row.Adapter, row.Guarantees, row.Note, row.Verdict)
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%s\t%d\t%d\t%d\t%d\t%d\t%s\t%.1f\n", row.Case, row.Adapter, row.Guarantees, row.Injected,
			row.Jobs, statesText(row.States), row.Sends, row.Effects, row.Duplicates, row.Lost, row.Stale, row.Verdict, row.Seconds)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, row := range r.Rows {
		for _, problem := range row.Problems {
			fmt.Fprintf(w, "  %s on %s: %s\n", row.Case, row.Adapter, problem)
		}
		if row.Verdict == Found {
			fmt.Fprintf(w, "  %s on %s: %s\n", row.Case, row.Adapter, row.Note)
		}
	}
	_, err := fmt.Fprintf(w, "\n%s, in %.0f s.\n", r.summary(), r.Seconds)
	return err
}

// summary counts the verdicts in words.
func (r Report) summary() string {
	parts := []string{fmt.Sprintf("%d passed", r.count(func(v Verdict) bool { return v == Passed }))}
	for _, one := range []struct {
		verdict Verdict
		text    string
	}{
		{Violated, "%d violated"},
		{NotCovered, "%d not covered"},
		{Found, "%d findings about receivers that were made to break a promise"},
		{NotApplicable, "%d that their adapter has nothing for"},
	} {
		if n := r.count(func(v Verdict) bool { return v == one.verdict }); n > 0 {
			parts = append(parts, fmt.Sprintf(one.text, n))
		}
	}
	return fmt.Sprintf("%d cases: %s", len(r.Rows), strings.Join(parts, ", "))
}

// markdown writes the report as a page.
func (r Report) markdown(b *bytes.Buffer) {
	fmt.Fprintf(b, "# Evaluation\n\nWritten by `duly eval --out`. How to read it is in [eval.md](../eval.md). Version %s, %s, %s.\n\n%s, in %.0f s.\n\n", r.Version, r.System, r.At, r.summary(), r.Seconds)
	for _, adapter := range Adapters() {
		if what, ok := r.Servers[adapter]; ok {
			fmt.Fprintf(b, "- `%s`: %s\n", adapter, what)
		}
	}
	b.WriteString("\n| case | what goes wrong | what must come of it |\n|---|---|---|\n")
	var told []string
	for _, row := range r.Rows {
		if !slices.Contains(told, row.Case) {
			told = append(told, row.Case)
			fmt.Fprintf(b, "| `%s` | %s | %s |\n", row.Case, row.Title, row.Expect)
		}
	}
	b.WriteString("\n| case | adapter | holds | injected | jobs | ended | sent | effects | twice | lost | stale | verdict | seconds |\n|---|---|---|--:|--:|---|--:|--:|--:|--:|--:|---|--:|\n")
	for _, row := range r.Rows {
		if row.Verdict == NotApplicable {
			fmt.Fprintf(b, "| `%s` | %s | %s | | | %s | | | | | | – | |\n", row.Case, row.Adapter, row.Guarantees, row.Note)
			continue
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %d | %d | %s | %d | %d | %d | %d | %d | %s | %.1f |\n", row.Case, row.Adapter, row.Guarantees, row.Injected,
			row.Jobs, statesText(row.States), row.Sends, row.Effects, row.Duplicates, row.Lost, row.Stale, row.Verdict, row.Seconds)
	}
	for _, row := range r.Rows {
		for _, problem := range row.Problems {
			fmt.Fprintf(b, "\n- **%s on %s**: %s", row.Case, row.Adapter, problem)
		}
		if row.Verdict == Found {
			fmt.Fprintf(b, "\n- %s on %s: %s", row.Case, row.Adapter, row.Note)
		}
	}
	b.WriteString("\n")
}
