package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const introduction = `# Mutants

Each line below is a protection that was taken away, and the test that noticed. A mutant is a patch in
[test/mutants](../../test/mutants), applied to a copy of the files that it changes; ` + "`make mutants`" + ` tries all of them and writes this page.
A mutant counts as caught when every test that it names was started and did not pass. A patch that no longer applies, code that does
not build, a statement that the database refuses to read and a test that fails without the patch are failures of the run and catch
nothing.

`

// markdown is the report of a run over all mutants.
func markdown(results []result, revision string) string {
	var b strings.Builder
	b.WriteString(introduction)
	counts := map[verdict]int{}
	seconds := 0.0
	for _, r := range results {
		counts[r.verdict]++
		seconds += r.took.Seconds()
	}
	fmt.Fprintf(&b, "Last run: revision %s, %d mutants, %d caught", revision, len(results), counts[caught])
	for _, v := range []verdict{survived, stale, broken, unproved} {
		if counts[v] > 0 {
			fmt.Fprintf(&b, ", %d: %s", counts[v], v)
		}
	}
	fmt.Fprintf(&b, "; %.0f s of tests.\n\n", seconds)
	results = slices.Clone(results)
	slices.SortStableFunc(results, func(a, b result) int {
		return cmp.Or(cmp.Compare(number(a.guarantee), number(b.guarantee)), cmp.Compare(a.name, b.name))
	})
	b.WriteString("| guarantee | mutant | what it weakens | caught by | result | seconds |\n|---|---|---|---|---|---:|\n")
	for _, r := range results {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %.1f |\n", r.guarantee, r.name, escaped(r.says), proofsOf(r.mutant), outcome(r), r.took.Seconds())
	}
	b.WriteString(survivors(results))
	return b.String()
}

// number is that of a guarantee.
func number(guarantee string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(guarantee, "G")) // which the patch was checked for
	return n
}

func proofsOf(m mutant) string {
	all := make([]string, len(m.proofs))
	for i, p := range m.proofs {
		all[i] = "`" + p.folder + "`: `" + p.test + "`"
	}
	return strings.Join(all, "; ")
}

func outcome(r result) string {
	if r.verdict == caught {
		return string(caught)
	}
	return "**" + string(r.verdict) + "**"
}

// survivors lists what was not caught, with what is known of why.
func survivors(results []result) string {
	var b strings.Builder
	for _, r := range results {
		if r.verdict != caught {
			fmt.Fprintf(&b, "- %s: %s. %s\n", r.name, r.verdict, escaped(shortened(r.why)))
		}
	}
	if b.Len() == 0 {
		return "\nNothing survived.\n"
	}
	return "\n## Not caught\n\n" + b.String()
}

func escaped(text string) string { return strings.ReplaceAll(text, "|", "\\|") }
