package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// nothing is what a table shows where nothing was measured.
const nothing = "–"

// table is a table of Markdown.
type table struct {
	b     strings.Builder
	width int
}

// newTable begins a table; all columns but the first are right-aligned where numbers is
// set.
func newTable(numbers bool, titles ...string) *table {
	t := &table{width: len(titles)}
	t.row(titles...)
	align := "---"
	if numbers {
		align = "---:"
	}
	t.b.WriteString("|---" + strings.Repeat("|"+align, len(titles)-1) + "|\n")
	return t
}

// row adds a row.
func (t *table) row(cells ...string) {
	for len(cells) < t.width {
		cells = append(cells, "")
	}
	for i, c := range cells {
		cells[i] = strings.ReplaceAll(c, "|", "\\|")
	}
	t.b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

// String is the table.
func (t *table) String() string { return t.b.String() }

// number shows a figure to three digits or so, with thousands set apart.
func number(f float64) string {
	switch abs := math.Abs(f); {
	case abs >= 1000:
		return grouped(int64(math.Round(f)))
	case abs >= 100:
		return strconv.FormatFloat(f, 'f', 0, 64)
	case abs >= 10:
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return strconv.FormatFloat(f, 'f', 2, 64)
}

// grouped sets thousands apart by commas.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return sign + digits
}

// show shows a figure with its least and greatest.
func show(s Spread) string {
	switch s.Rounds {
	case 0:
		return nothing
	case 1:
		return number(s.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", number(s.Median), number(s.Min), number(s.Max))
}

// markdown writes the generated part of docs/performance.md.
func (r Report) markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured %s at `%s`: %s, %s jobs a bulk measurement of %d bytes each, singles for %s, latency for %s, idle for %s.\n\n",
		r.At.Format("2 January 2006"), r.Commit, rounds(r.Plan.Rounds), grouped(int64(r.Plan.Jobs)), r.Plan.Load.Payload, r.Plan.Singles, r.Plan.Latency, r.Plan.Idle)
	if r.Plan.Hasty {
		b.WriteString("**A quick look whether everything works: these figures mean nothing.**\n\n")
	}
	fmt.Fprintf(&b, "Every measurement waited until nothing else used the machine, and was made again, at most twice, where something else used more than %s of it: "+
		"%d times; %d measurements were disturbed in the end.\n\n", percent(calmBelow), r.Repeated, r.Disturbed)
	b.WriteString("![Jobs a second, by contestant](performance.svg)\n\n")
	r.targets(&b)
	r.throughput(&b)
	r.costs(&b)
	r.latencies(&b)
	r.limits(&b)
	r.gaps(&b)
	r.conditions(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func rounds(n int) string {
	if n == 1 {
		return "one round"
	}
	return strconv.Itoa(n) + " interleaved rounds, medians with (least–greatest)"
}

func (r Report) targets(b *strings.Builder) {
	b.WriteString("### Targets\n\n")
	t := newTable(false, "what", "target", "measured", "")
	for _, v := range r.Targets {
		sign := "≥"
		if v.AtMost {
			sign = "≤"
		}
		t.row(v.What, sign+" "+number(v.Wanted)+" "+v.Unit, show(v.Measured), v.By())
	}
	b.WriteString(t.String() + "\n")
}

// participants are those of the groups that took part, in order.
func (r Report) participants(groups ...Group) []Participant {
	var all []Participant
	for _, g := range groups {
		for _, p := range r.Contestants {
			if p.Group == g && p.Absent == "" {
				all = append(all, p)
			}
		}
	}
	return all
}

// family is the part of a key that variants share.
func family(key string) string {
	base, _, _ := strings.Cut(key, "-")
	return base
}

// unequal is the setting that says what is not the same as with the others.
const unequal = "unequal"

// title is the name, with an asterisk where something is unequal.
func (p Participant) title() string {
	for _, s := range p.Settings {
		if s.Name == unequal {
			return p.Name + " \\*"
		}
	}
	return p.Name
}

// asterisks explain those of the titles.
func (r Report) asterisks(b *strings.Builder) {
	for _, p := range r.participants(Peers, Variants) {
		for _, s := range p.Settings {
			if s.Name == unequal {
				fmt.Fprintf(b, "\\* %s: %s.\n\n", p.Name, strings.TrimSuffix(s.Value, "."))
			}
		}
	}
}

// throughputs are the measurements of the table of throughput, and their titles.
var throughputs = []struct{ measure, title string }{
	{"insert", "bulk insert"},
	{"drain", "work what was inserted"},
	{"both", "insert and work at once"},
	{"singles-8", "transactions, 8 clients"},
	{"singles-32", "transactions, 32 clients"},
}

func (r Report) throughput(b *strings.Builder) {
	b.WriteString("### Throughput, jobs a second\n\n\"×\" is how many times as fast Duly was in the same round.\n\n")
	titles := []string{""}
	for _, m := range throughputs {
		titles = append(titles, m.title)
	}
	t := newTable(true, titles...)
	for _, p := range r.participants(Peers, Variants) {
		row := []string{p.title()}
		seen := false
		for _, m := range throughputs {
			c, ok := cells(r.Cells).find(p.Key, m.measure)
			seen = seen || ok
			text := show(c.Rate)
			if family(p.Key) != reference && c.Ratio.Rounds > 0 {
				text += fmt.Sprintf(" · %s ×", number(c.Ratio.Median))
			}
			row = append(row, text)
		}
		if seen {
			t.row(row...)
		}
	}
	b.WriteString(t.String() + "\n")
	r.asterisks(b)
}

func (r Report) costs(b *strings.Builder) {
	b.WriteString("### What a job costs\n\nInsert and work at once. CPU is of the contestant's own processes (its broker included) and of the server's (PostgreSQL, or what else keeps the jobs). " +
		"Idle is everything that works jobs, without one.\n\n")
	t := newTable(true, "", "µs CPU, own", "µs CPU, server", "bytes of WAL", "round trips, one a transaction", "idle, own % of a core", "idle, server % of a core")
	for _, p := range r.participants(Peers, Variants) {
		both, working := cells(r.Cells).find(p.Key, "both")
		single, _ := cells(r.Cells).find(p.Key, "singles-32")
		idle, resting := cells(r.Cells).find(p.Key, "idle")
		if working || resting {
			t.row(p.title(), show(both.ClientCPU), show(both.ServerCPU), show(both.WAL), show(single.Trips), show(idle.ClientCPU), show(idle.ServerCPU))
		}
	}
	b.WriteString(t.String() + "\n")
}

func (r Report) latencies(b *strings.Builder) {
	b.WriteString("### Latency, ms from before the enqueue until durably done\n\n")
	t := newTable(true, "", "500/s: p50", "p99", "p99.9", "2,000/s: p50", "p99", "p99.9")
	for _, p := range r.participants(Peers, Variants) {
		low, ok := cells(r.Cells).find(p.Key, "latency-500")
		high, too := cells(r.Cells).find(p.Key, "latency-2000")
		if ok || too {
			t.row(p.title(), show(low.P50), show(low.P99), show(low.P999), show(high.P50), show(high.P99), show(high.P999))
		}
	}
	b.WriteString(t.String() + "\n")
}

func (r Report) limits(b *strings.Builder) {
	b.WriteString("### What this machine does at most\n\n")
	t := newTable(true, "", "a second", "µs CPU, client", "µs CPU, server", "bytes of WAL")
	for _, p := range r.participants(Limits) {
		for _, m := range throughputs {
			if c, ok := cells(r.Cells).find(p.Key, m.measure); ok {
				title := p.Name
				if clients, ok := strings.CutPrefix(m.measure, "singles-"); ok {
					title += ", " + clients + " clients"
				}
				t.row(title, show(c.Rate), show(c.ClientCPU), show(c.ServerCPU), show(c.WAL))
			}
		}
	}
	b.WriteString(t.String() + "\n")
}

// gaps say what is missing, and why.
func (r Report) gaps(b *strings.Builder) {
	var lines []string
	for _, p := range r.Contestants {
		if p.Absent != "" {
			lines = append(lines, fmt.Sprintf("- %s did not take part: %s", p.Name, p.Absent))
		}
	}
	for _, p := range r.participants(Peers) {
		for _, c := range r.Cells {
			if c.Contestant == p.Key && c.Unable != "" {
				lines = append(lines, fmt.Sprintf("- %s, %s: %s", p.Name, c.Measure, c.Unable))
			}
		}
	}
	for _, f := range cells(r.Cells).failed() {
		lines = append(lines, "- failed: "+f)
	}
	if len(lines) > 0 {
		b.WriteString("### What is missing\n\n" + strings.Join(lines, "\n") + "\n\n")
	}
}

// conditions are what the figures depend on.
func (r Report) conditions(b *strings.Builder) {
	b.WriteString("### Conditions\n\nWhat a variant does not say is as with the one that it is a variant of.\n\n")
	familiar := make(map[string][]Setting)
	fmt.Fprintf(b, "- machine: %s\n- PostgreSQL, for everybody: %s\n", assigned(r.Machine), assigned(r.Server))
	for _, p := range r.participants(Peers, Variants, Limits) {
		fmt.Fprintf(b, "- **%s** %s\n", p.Name, p.Version)
		for _, s := range p.Settings {
			if said := familiar[family(p.Key)]; !slices.Contains(said, s) {
				fmt.Fprintf(b, "  - %s: %s\n", s.Name, s.Value)
				familiar[family(p.Key)] = append(said, s)
			}
		}
	}
}

func assigned(settings []Setting) string {
	all := make([]string, len(settings))
	for i, s := range settings {
		all[i] = s.Name + " " + s.Value
		if s.Value == "" {
			all[i] += "(none)"
		}
	}
	return strings.Join(all, ", ")
}
