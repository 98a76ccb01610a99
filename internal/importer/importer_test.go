package importer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"duly.dev/duly/internal/importer"
	"duly.dev/duly/pkg/job"
)

func TestRowsAreRefusedOrDuplicatesOrJobs(t *testing.T) {
	t.Parallel()
	got := importText(t, importer.CSV, "kind,key,payload\nmail,a,1\nhook,a,1\nmail,a,1\nmail,a,2\nmail,b,x\n")
	require.Equal(t, importer.Counts{Rows: 5, Refused: 2, SameKey: 1, Jobs: 2}, got.Counts)
}

func TestImportingAgainMakesNothingNew(t *testing.T) {
	t.Parallel()
	const text = "kind,key,payload\nmail,a,1\nmail,b,1\nmail,c,x\n"
	d := &door{}
	first, err := importer.Run(context.Background(), strings.NewReader(text), options(importer.CSV, d))
	require.NoError(t, err)
	require.Equal(t, importer.Counts{Rows: 3, Refused: 1, Jobs: 2}, first)
	again, err := importer.Run(context.Background(), strings.NewReader(text), options(importer.CSV, d))
	require.NoError(t, err)
	require.Equal(t, importer.Counts{Rows: 3, Refused: 1, SameKey: 2}, again)
	require.Len(t, d.jobs, 2)
}

func TestAnImportThatBrokeIsContinuedByRunningItAgain(t *testing.T) {
	t.Parallel()
	const rows = 95
	down := errors.New("the ledger is down")
	d := &door{before: func(call int) error {
		if call == 4 {
			return down
		}
		return nil
	}}
	o := options(importer.CSV, d)
	o.Batch = 10
	first, err := importer.Run(context.Background(), manyRows(rows), o)
	require.ErrorIs(t, err, down)
	require.ErrorContains(t, err, "lines 32 to 41")
	require.ErrorContains(t, err, "import the file again")
	require.Equal(t, importer.Counts{Rows: 30, Jobs: 30}, first)

	again, err := importer.Run(context.Background(), manyRows(rows), o)
	require.NoError(t, err)
	require.Equal(t, importer.Counts{Rows: rows, SameKey: 30, Jobs: rows - 30}, again)
}

func TestAnImportStopsBetweenBatchesWhenItIsTold(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	d := &door{before: func(call int) error {
		if call == 2 {
			stop()
		}
		return nil
	}}
	o := options(importer.CSV, d)
	o.Batch = 10
	counts, err := importer.Run(ctx, manyRows(100), o)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, importer.Counts{Rows: 20, Jobs: 20}, counts)
}

func TestADryRunEnqueuesNothingAndStillChecks(t *testing.T) {
	t.Parallel()
	o := options(importer.CSV, nil)
	var refused []importer.Refused
	o.Refused = func(r importer.Refused) error { refused = append(refused, r); return nil }
	counts, err := importer.Run(context.Background(),
		strings.NewReader("kind,key,deadline,payload\nmail,a,,1\nmail,b,2001-01-01T00:00:00Z,1\n"), o)
	require.NoError(t, err)
	require.Equal(t, importer.Counts{Rows: 2, Refused: 1, Jobs: 1}, counts)
	require.Equal(t, job.RuleDeadlinePast, refused[0].Rule)
}

// A file of a billion rows takes no more memory than one of a thousand: what was read
// from it and not yet given to the door stays within a bound.
func TestAFileIsReadAsAStream(t *testing.T) {
	t.Parallel()
	source := &countingReader{r: manyRows(50_000)}
	d := &door{}
	o := options(importer.CSV, d)
	most := int64(0)
	d.before = func(int) error { most = max(most, source.n); source.n = 0; return nil }
	counts, err := importer.Run(context.Background(), source, o)
	require.NoError(t, err)
	require.Equal(t, 50_000, counts.Jobs)
	require.Less(t, most, int64(256<<10))
}

func TestProgressIsToldAfterEveryBatch(t *testing.T) {
	t.Parallel()
	o := options(importer.CSV, &door{})
	o.Batch = 10
	var told []importer.Counts
	var last int64
	o.Progress = func(c importer.Counts, bytes int64) {
		require.Positive(t, bytes)
		require.GreaterOrEqual(t, bytes, last)
		told, last = append(told, c), bytes
	}
	_, err := importer.Run(context.Background(), manyRows(25), o)
	require.NoError(t, err)
	require.Equal(t, []importer.Counts{{Rows: 10, Jobs: 10}, {Rows: 20, Jobs: 20}, {Rows: 25, Jobs: 25}}, told)
}

func TestReportsAreWrittenAsCSVOrNDJSON(t *testing.T) {
	t.Parallel()
	refused := importer.Refused{Line: 7, Kind: "mail", Key: "a,b", Field: "key", Value: "a,b", Rule: job.RuleConflict, Text: "why"}
	for format, want := range map[importer.Format]string{
		importer.CSV:    "line,kind,key,field,value,rule,text\n7,mail,\"a,b\",key,\"a,b\",conflict,why\n",
		importer.NDJSON: `{"line":7,"kind":"mail","key":"a,b","field":"key","value":"a,b","rule":"conflict","text":"why"}` + "\n",
	} {
		var b bytes.Buffer
		report, err := importer.NewReport(&b, format)
		require.NoError(t, err)
		require.NoError(t, report.Add(refused))
		require.NoError(t, report.Flush())
		require.Equal(t, want, b.String())
	}
}

func TestAReportThatCannotBeWrittenEndsTheImport(t *testing.T) {
	t.Parallel()
	o := options(importer.CSV, &door{})
	full := errors.New("disk full")
	o.Refused = func(importer.Refused) error { return full }
	_, err := importer.Run(context.Background(), strings.NewReader("kind,key,payload\nmial,a,1\n"), o)
	require.ErrorIs(t, err, full)
	require.ErrorContains(t, err, "line 2")
}

func TestTheFormatIsInTheNameOfTheFile(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]importer.Format{"a.csv": importer.CSV, "b/A.CSV": importer.CSV, "a.ndjson": importer.NDJSON, "a.jsonl": importer.NDJSON} {
		got, err := importer.FormatOf(name)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := importer.FormatOf("a.xlsx")
	require.ErrorContains(t, err, `"a.xlsx"`)
	_, err = importer.Run(context.Background(), strings.NewReader(""), importer.Options{Format: "xml"})
	require.ErrorContains(t, err, `"xml"`)
}

// However a file is damaged, the good rows around the damage become jobs.
func TestGoodRowsSurviveAnyDamageBetweenThem(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		text.WriteString("kind,key,payload\n")
		damage := rapid.SliceOfN(rapid.SampledFrom([]string{
			`mail,x,"`, `mail,"x,1`, `"`, `mail,x,"""`, `,`, `mail,x"y,1`, `mail,x,1,1`, "mail,\xff,1", `""x`, `mail,x,{`,
		}), 1, 8).Draw(t, "damage")
		for i, bad := range damage {
			fmt.Fprintf(&text, "mail,good-%d,\"%d\"\n%s\n", i, i, bad)
		}
		got, err := tryText(importer.CSV, text.String()+"mail,last,\"1\"\n")
		require.NoError(t, err)
		require.True(t, got.Balanced())
		for i := range damage {
			require.Contains(t, got.door.keys(), fmt.Sprintf("good-%d", i))
		}
		require.Contains(t, got.door.keys(), "last")
	})
}

func manyRows(n int) io.Reader {
	var text strings.Builder
	text.WriteString("kind,key,payload\n")
	for i := range n {
		fmt.Fprintf(&text, "mail,k%d,%d\n", i, i)
	}
	return strings.NewReader(text.String())
}

type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
