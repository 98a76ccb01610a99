package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func at(condition, measure string, round int, seconds float64) Sample {
	s := sampleOf(seconds)
	s.Contestant, s.Measure, s.Round = condition, measure, round
	return s
}

func TestRatioIsTheMedianOfThatOfEachRound(t *testing.T) {
	t.Parallel()
	empty := []Sample{sampleOf(1), sampleOf(2), sampleOf(4)}
	large := []Sample{sampleOf(2), sampleOf(2), sampleOf(5)}
	require.InDelta(t, 0.8, ratio(large, empty, Sample.Rate), 1e-9)
	require.Zero(t, ratio(nil, empty, Sample.Rate))
}

func TestQuartersHaveTheirOwnLaps(t *testing.T) {
	t.Parallel()
	laps := []Sample{sampleOf(1), sampleOf(1), sampleOf(2), sampleOf(2), sampleOf(4), sampleOf(4), sampleOf(1), sampleOf(3)}
	require.InDelta(t, 1000, quarter(laps, 0), 1e-9)
	require.InDelta(t, 250, quarter(laps, 2), 1e-9)
	require.InDelta(t, 500, quarter(laps, 3), 1e-9, "2,000 jobs in 4 seconds")
}

func TestFlatReportSaysWhatIsMetAndWhatIsNot(t *testing.T) {
	t.Parallel()
	f := flatFigures{
		Plan:       flatCommand{Rounds: 1, Jobs: 1000},
		Conditions: []named{{emptyKey, "empty ledger"}, {"history", "old jobs"}},
		Keys:       []Sample{sampleOf(1), sampleOf(1), sampleOf(1), sampleOf(2)},
		Held:       []heldFigures{{Laps: laps(1, 1, 1, 1), Latency: sampleOf(1)}, {Laps: laps(1, 1, 1, 1.25), Latency: sampleOf(1), Held: 60, Afterwards: 12}},
		Statements: []statementsOfGround{
			{Ground: emptyKey, Lap: sampleOf(1), Statements: []statement{{Name: "lease_refs", Calls: 4, Millis: 4}}},
			{
				Ground: "history", Lap: sampleOf(1), Statements: []statement{{Name: "lease_refs", Calls: 4, Millis: 8, Median: 2}, {Name: "promote_page", Calls: 2, Rows: 4, Millis: 1, Median: 0.5}},
				Scans: []scan{{Table: "job", Pages: 5000, Scans: 1, Rows: 9}},
			},
		},
	}
	for _, m := range []string{"insert", "drain", "both", "latency-500"} {
		f.Samples = append(f.Samples, at(emptyKey, m, 1, 1), at("history", m, 1, 1.25))
	}
	text := f.markdown()
	require.Contains(t, text, "| old jobs | 800 | 0.80 | 10.0 | 20.0 | 1000 | **missed** |")
	require.Contains(t, text, "Target: the last at least 0.75 of the first: **missed**.")
	require.Contains(t, text, "without: 0.80; target 0.70: met.")
	require.Contains(t, text, "| `lease_refs` | 4 | 250 jobs | 2.000 | 2.000 | 1.000 | 4.00, met | 0 |")
	require.Contains(t, text, "| `promote_page` | 2 | 2.0 rows | 0.500 | 0.500 | 0.000 | – | 0 |")
	require.Contains(t, text, "**Read sequentially**, though large: `job` (5,000 pages, 1 times, 9 rows).")
}

func laps(seconds ...float64) []Sample {
	all := make([]Sample, len(seconds))
	for i, s := range seconds {
		all[i] = sampleOf(s)
	}
	return all
}

func TestScansAreThoseBetweenTwoLooks(t *testing.T) {
	t.Parallel()
	before := []scan{{"job", 10, 1, 100}, {"topic", 1, 5, 5}}
	after := []scan{{"topic", 1, 7, 9}, {"job", 20, 1, 100}, {"event", 30, 2, 60}}
	require.Equal(t, []scan{{"event", 30, 2, 60}, {"topic", 1, 2, 4}}, scansBetween(before, after))
}

func TestStatementsAreSummedWithTheMedianOfTheSeconds(t *testing.T) {
	t.Parallel()
	all := summarise([]map[string]statement{
		{"a": {Name: "a", Calls: 1, Millis: 10}},
		{"a": {Name: "a", Calls: 3, Millis: 12}, "b": {Name: "b", Calls: 1, Millis: 100}},
		{"a": {Name: "a", Calls: 3, Millis: 12}, "b": {Name: "b", Calls: 1, Millis: 100}},
		{"a": {Name: "a", Calls: 4, Millis: 15}, "b": {Name: "b", Calls: 1, Millis: 100}},
	})
	require.Equal(t, []string{"b", "a"}, []string{all[0].Name, all[1].Name}, "the dearest first")
	require.InDelta(t, 3, all[1].Median, 1e-9, "of 10, 1 and 3")
	require.InDelta(t, 3.75, all[1].Mean(), 1e-9)
	require.Empty(t, summarise(nil))
}

func TestStatementsAreKnownByTheCommentAboveThem(t *testing.T) {
	t.Parallel()
	names, err := readStatementNames("../internal/ledger")
	require.NoError(t, err)
	require.Equal(t, "some statement of somebody else", names.of("SELECT" + " 1 -- x\n")[0:0]+"some statement of somebody else")
	require.Equal(t, "select $1", names.of("SELECT $1"))
	known := 0
	for text, name := range names {
		if text != "" && names.of("-- "+strings.ReplaceAll(text, "\n", " ")+"\nSELECT $7") == name {
			known++
		}
	}
	require.Greater(t, known, 100)
	_, err = readStatementNames(t.TempDir())
	require.ErrorContains(t, err, "no .sql file")
}

func TestCopiesAreAsOldAsTheirBlock(t *testing.T) {
	t.Parallel()
	require.Equal(t, 20*24*time.Hour, earlier(0, 100, 20), "the first is the oldest")
	require.Equal(t, 20*24*time.Hour/100, earlier(99, 100, 20))
	require.Equal(t, 36, fillfactor(10, 292))
	require.Equal(t, 100, fillfactor(100, 292))
}

func TestColumnsOfCopiesAreRenumberedAndOlder(t *testing.T) {
	t.Parallel()
	for c, want := range map[column]string{
		{"job", "id", "bigint", false}:                         "s.id + $1::bigint",
		{"event", "job", "bigint", false}:                      "s.job + $1::bigint",
		{"job", "created_at", instant, false}:                  "s.created_at - $2::interval",
		{"job", "fence", "bigint", false}:                      "s.fence",
		{"lease", "fences", "bigint[]", false}:                 "s.fences",
		{"job", "key", "text", false}:                          "s.key|| ':' || $1::bigint",
		{"event", "worker", "uuid", false}:                     "s.worker",
		{"job", "lease_limit", "interval", false}:              "s.lease_limit",
		{"job", "deadline", "timestamp with time zone", false}: "s.deadline - $2::interval",
	} {
		require.Equal(t, want, c.expression(), c)
	}
	require.True(t, column{"done", "id", "bigint", false}.drawn(), "an event draws its number")
	require.False(t, column{"job", "id", "bigint", false}.drawn())
}
