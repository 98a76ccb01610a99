// Mkbuses runs the suite of buses on every bus and writes what came of it as a table: a
// case a row, a bus a column. With -check it compares with a table that was written
// before: the same cases, on the same buses, and all passed; times may differ.
//
//	scripts/kafka run -- go run ./internal/bus/bustest/mkbuses -out docs/buses.md
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// column is a bus on which the suite runs.
type column struct {
	title, packages, pattern string
	// environment is what its tests are told besides.
	environment []string
	// trim is what the names of its cases begin with.
	trim string
}

func columns(kafka string) []column {
	all := []column{
		{title: "memory", packages: "membus", pattern: "^TestSuite$", trim: "TestSuite/"},
		{title: "NATS JetStream", packages: "natsbus", pattern: "^TestSuite$", trim: "TestSuite/"},
	}
	for _, partitions := range []string{"1", "3"} {
		name := partitions + "_partitions"
		all = append(all, column{
			title: "Kafka's protocol in memory, " + counted(partitions), packages: "kafkabus",
			pattern: "^TestSuite$/^" + name + "$", trim: "TestSuite/" + name + "/", environment: []string{"DULY_TEST_KAFKA="},
		})
	}
	if kafka == "" {
		return all
	}
	for _, partitions := range []string{"1", "3"} {
		name := partitions + "_partitions"
		all = append(all, column{
			title: "Apache Kafka, " + counted(partitions), packages: "kafkabus",
			pattern: "^TestSuite$/^" + name + "$", trim: "TestSuite/" + name + "/", environment: []string{"DULY_TEST_KAFKA=" + kafka},
		})
	}
	return all
}

// result is what came of a case.
type result struct {
	passed  bool
	seconds float64
	figures string // what it has measured
}

func (r result) String() string {
	if !r.passed {
		return "**failed**"
	}
	return fmt.Sprintf("passed, %.1f s%s", r.seconds, r.figures)
}

func main() {
	out := flag.String("out", "", "file that the table is written to; standard output otherwise")
	check := flag.String("check", "", "file with a table that this run must agree with")
	kafka := flag.String("kafka", os.Getenv("DULY_TEST_KAFKA"), "host:port of an Apache Kafka")
	flag.Parse()
	if err := run(*out, *check, *kafka); err != nil {
		fmt.Fprintln(os.Stderr, "mkbuses:", err)
		os.Exit(1)
	}
}

func run(out, check, kafka string) error {
	all := columns(kafka)
	results := make([]map[string]result, len(all))
	var failed []error
	for i, c := range all {
		fmt.Fprintln(os.Stderr, "running the suite on", c.title)
		var err error
		if results[i], err = suite(c); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", c.title, err))
		}
	}
	table := render(all, results)
	if err := errors.Join(failed...); err != nil {
		_, _ = io.WriteString(os.Stderr, table)
		return err
	}
	if check != "" {
		return agree(check, table)
	}
	if out == "" {
		_, err := io.WriteString(os.Stdout, table)
		return err
	}
	return os.WriteFile(out, []byte(table), 0o644)
}

// suite runs the suite on a bus; the error is that of a case or of the run.
func suite(c column) (map[string]result, error) {
	command := exec.Command("go", "test", "-json", "-count=1", "-run", c.pattern, "./internal/bus/"+c.packages)
	command.Env = append(os.Environ(), c.environment...)
	var said bytes.Buffer
	command.Stdout, command.Stderr = &said, os.Stderr
	failed := command.Run()
	results, figures, failures := map[string]result{}, map[string]string{}, ""
	events := json.NewDecoder(&said)
	for {
		var e struct {
			Action, Test, Output string
			Elapsed              float64
		}
		if err := events.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return results, fmt.Errorf("reading what go test says: %w", err)
		}
		name, isCase := strings.CutPrefix(e.Test, c.trim)
		switch {
		case e.Action == "output":
			failures += e.Output
			if _, figure, ok := strings.Cut(e.Output, "figure:"); ok {
				figures[name] = "; " + strings.TrimSpace(figure) // of the last round
			}
		case isCase && !strings.Contains(name, "/") && (e.Action == "pass" || e.Action == "fail"):
			results[strings.ReplaceAll(name, "_", " ")] = result{e.Action == "pass", e.Elapsed, figures[name]}
		}
	}
	if failed != nil {
		return results, fmt.Errorf("%w\n%s", failed, failures)
	}
	if len(results) == 0 {
		return results, errors.New("no case ran")
	}
	return results, nil
}

const heading = `# Buses

Every bus passes one suite, ` + "`internal/bus/bustest`" + `: what dispatchers and workers rely on, whichever broker there is. This page is written by
` + "`scripts/kafka run -- go run ./internal/bus/bustest/mkbuses -out docs/buses.md`" + `, which runs it on all of them; CI does the same with ` + "`-check`" + ` and
fails where a case fails, is new, or is missing. Seconds are those of one run, with all cases of a bus at the same time: most of them wait on purpose.
A dash is a case that needs what this broker cannot be asked for: the real one is shared by all cases, and so is neither restarted nor filled for one; memory has
no settings that could be unsafe; and NATS itself passes over what its storage has damaged. What whole programs do when a broker loses its topics, its
newest messages or its disk is tried by ` + "`test/e2e`" + `, on a NATS and on an Apache Kafka of each test's own.

`

func render(all []column, results []map[string]result) string {
	names := map[string]bool{}
	for _, r := range results {
		for name := range r {
			names[name] = true
		}
	}
	var b strings.Builder
	b.WriteString(heading)
	b.WriteString("| case |")
	for _, c := range all {
		b.WriteString(" " + c.title + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(all)) + "\n")
	for _, name := range slices.Sorted(maps.Keys(names)) {
		b.WriteString("| " + name + " |")
		for _, r := range results {
			cell := "–"
			if one, ok := r[name]; ok {
				cell = one.String()
			}
			b.WriteString(" " + cell + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

var seconds = regexp.MustCompile(`passed, [0-9.]+ s[^|]*`)

// agree compares with a table that was written before, times and other figures apart.
func agree(file, table string) error {
	written, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if seconds.ReplaceAllString(string(written), "passed ") != seconds.ReplaceAllString(table, "passed ") {
		return fmt.Errorf("%s is of another suite, or of other buses, than this run: write it anew. This run:\n%s", file, table)
	}
	fmt.Fprintf(os.Stderr, "every case passed, and %s says so\n", file)
	return nil
}

func counted(partitions string) string {
	if partitions == "1" {
		return "1 partition"
	}
	return partitions + " partitions"
}
