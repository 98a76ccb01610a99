package importer_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/importer"
	"duly.dev/duly/pkg/job"
)

func TestNDJSONKeepsThePayloadByteByByte(t *testing.T) {
	t.Parallel()
	as := `{"b": 1.50,  "a":"\u00e9<"}`
	got := importText(t, importer.NDJSON, `{"kind":"mail","key":"a","payload":`+as+`,"subject":null,"destination":"x@example.com"}`+"\n")
	require.Equal(t, importer.Counts{Rows: 1, Jobs: 1}, got.Counts)
	require.Equal(t, as, string(got.door.jobs[0].Payload))
	require.Equal(t, "x@example.com", got.door.jobs[0].Destination)
}

func TestOneBrokenLineOfNDJSONNeverCostsItsNeighbours(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		`{"kind":"mail","key":"x","payload":`:    {"2 row json"},
		`{"kind":"mail","key":"x","payload":{]}`: {"2 row json"},
		`[1]`:                                    {"2 row json"},
		`nonsense`:                               {"2 row json"},
		`{"kind":"mail","key":"x","payload":1} {"kind":"mail"}`:     {"2 row json"},
		`{"kind":"mail","key":"x","payload":1}}`:                    {"2 row json"},
		`{"kind":"mail","key":"x","payload":1`:                      {"2 row json"},
		"{\"kind\":\"mail\",\"key\":\"\xff\",\"payload\":1}":        {"2 row utf8"},
		`{"kind":"mail","key":"x","payload":1,"dedline":"z"}`:       {"2 dedline unknown_field"},
		`{"kind":"mail","key":"x","key":"y","payload":1}`:           {"2 key given_twice"},
		`{"kind":"mail","key":7,"payload":1}`:                       {"2 key text"},
		`{"kind":"mail","key":"x"}`:                                 {"2 payload required"},
		`{"kind":"mail","key":"x","payload":1,"due":"5 PM"}`:        {"2 due time"},
		`{"kind":"mail","key":"x","payload":1,"destination":"a b"}`: {strings.Join([]string{"2", "destination", string(job.RuleDestination)}, " ")},
		`{"key":"` + strings.Repeat("x", 70_000) + `"}`:             {"2 row too_long"},
	} {
		got := importText(t, importer.NDJSON, `{"kind":"mail","key":"a","payload":1}`+"\n"+line+"\n\n"+`{"kind":"mail","key":"b","payload":1}`)
		require.Equal(t, want, got.rules(), "%.80s", line)
		require.Equal(t, []string{"a", "b"}, got.door.keys(), "%.80s", line)
	}
}

func FuzzNDJSONIsReadToItsEndAndBalanced(f *testing.F) {
	for _, seed := range []string{`{}`, `{"kind":"mail","key":"a","payload":1}`, `{"a":{"b":[`, `"`, `{"kind":1}`, "{\n}", `{"key":"\ud800"}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := tryText(importer.NDJSON, "{}\n"+text)
		if strings.HasPrefix(text, "\xff\xfe") || err != nil {
			return
		}
		if !got.Balanced() || got.Rows < 1 {
			t.Fatalf("%+v", got.Counts)
		}
	})
}
