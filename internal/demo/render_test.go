package demo

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/examples"
	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/importer"
	"duly.dev/duly/pkg/job"
)

var start = time.Date(2026, 9, 30, 15, 0, 0, 250e6, time.UTC)

func TestOffsetsBecomeTimesAndEverythingElseStaysByteByByte(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"k,a,s,p,d,+3s,+10m,Europe/Paris,\"{}\"\n":                     "k,a,s,p,d,2026-09-30T17:00:03.25,2026-09-30T17:10:00.25,Europe/Paris,\"{}\"\n",
		"k,a,s,p,d,,-1h,,1\n":                                          "k,a,s,p,d,,2026-09-30T14:00:00.25Z,,1\n",
		"k,a,s,p,d,,+10m,Europe/Pari,1\n":                              "k,a,s,p,d,,2026-09-30T15:10:00.25Z,Europe/Pari,1\n",
		"k,a,s,p,d,,+10m\n":                                            "k,a,s,p,d,,+10m\n",
		"k,a,\"s,p,d,+1s,5 PM,,1\xff\n":                                "k,a,\"s,p,d,2026-09-30T15:00:01.25Z,5 PM,,1\xff\n",
		"k,a,s,p,http://127.0.0.1:8025/crm/1,5s,2099-01-01T00:00,,+3s": "k,a,s,p,http://127.0.0.1:9/crm/1,5s,2099-01-01T00:00,,+3s",
		"k,a,s,p,http://192.0.2.1:8025/crm/1,,,,":                      "k,a,s,p,http://192.0.2.1:8025/crm/1,,,,",
	} {
		require.Equal(t, want, string(render([]byte(line), start, "127.0.0.1:9")))
	}
}

// In the hour that clocks show twice a local time would be read as the first of the
// two, an hour too early.
func TestTimesThatClocksShowTwiceAreWrittenWithTheirOffset(t *testing.T) {
	t.Parallel()
	twice := time.Date(2026, 10, 25, 1, 30, 0, 0, time.UTC)
	require.Equal(t, "k,a,s,p,d,,2026-10-25T02:30:10+01:00,Europe/Paris,1",
		string(render([]byte("k,a,s,p,d,,+10s,Europe/Paris,1"), twice, "")))
}

// The example breaks every rule that a row of a CSV file can break, and nothing but
// what was meant to be broken.
func TestTheExampleIsRefusedWhereItShouldBe(t *testing.T) {
	t.Parallel()
	config, err := app.ParseConfig("examples/duly.yaml", examples.Config)
	require.NoError(t, err)
	require.Empty(t, config.Warnings())
	limits, checkers, err := importer.Rules(config)
	require.NoError(t, err)
	file := render(examples.Renewals, time.Now(), exampleHooks)
	rules := map[job.Rule]int{}
	counts, err := importer.Run(context.Background(), bytes.NewReader(file), importer.Options{
		Format: importer.CSV, Limits: limits, Checkers: checkers,
		Refused: func(r importer.Refused) error { rules[r.Rule]++; return nil },
	})
	require.NoError(t, err)
	require.Equal(t, rowsOf(file), counts.Rows)
	require.GreaterOrEqual(t, counts.Rows, 1000)
	for _, rule := range job.Rules() {
		switch rule {
		case job.RuleConflict, job.RuleField, job.RuleTwice, job.RuleText: // not to be seen in a row by itself
			require.Zero(t, rules[rule], rule)
		default:
			require.NotZero(t, rules[rule], rule)
		}
	}
	require.Equal(t, 25, counts.Refused, "examples/mkrenewals lists them")
}
