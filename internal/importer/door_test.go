package importer_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/importer"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/ledger/ledgertest"
	"duly.dev/duly/pkg/job"
)

func TestMain(m *testing.M) { ledgertest.Main(m) }

const configuration = `
lanes: {mail: {}}
kinds:
  renewal-reminder:
    lane: mail
    channel: smtp
    smtp: {server: "127.0.0.1:2525", tls: none, from: a@example.com, subject: s, text: t}
limits: {max_payload: 2KiB}
`

// What the door in memory is said to do, the ledger does.
func TestTheLedgerTakesAFileAndTakesItAgainAsNothingNew(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := ledgertest.New(t)
	l := ledger.New(pool)
	config, err := app.ParseConfig("duly.yaml", []byte(configuration))
	require.NoError(t, err)
	require.NoError(t, l.SyncKinds(ctx, config.Kinds()))
	limits, checkers, err := importer.Rules(config)
	require.NoError(t, err)

	var text strings.Builder
	text.WriteString("kind,key,destination,due,deadline,payload\n")
	for i := range 1200 {
		fmt.Fprintf(&text, "renewal-reminder,k%d,a@example.com,,,1\n", i)
	}
	soon := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	text.WriteString("renewal-reminder,k7,a@example.com,,,1\n")                       // known
	text.WriteString("renewal-reminder,k8,a@example.com,,,2\n")                       // conflict
	text.WriteString("renewal-reminder,late,a@example.com,,2001-01-01T00:00:00Z,1\n") // by the ledger's clock
	text.WriteString("renewal-reminder,bad,nobody,,,1\n")                             // by the channel
	text.WriteString("renewal-reminder,twice,a@example.com," + soon + ",,1\nrenewal-reminder,twice,a@example.com," + soon + ",,1\n")

	var refused []importer.Refused
	o := importer.Options{
		Format: importer.CSV, Door: importer.NewLedgerDoor(pool, config.MaxPayload), Limits: limits, Checkers: checkers,
		Refused: func(r importer.Refused) error { refused = append(refused, r); return nil },
	}
	counts, err := importer.Run(ctx, strings.NewReader(text.String()), o)
	require.NoError(t, err)
	require.Equal(t, importer.Counts{Rows: 1206, Refused: 3, SameKey: 2, Jobs: 1201}, counts)
	require.Equal(t, []job.Rule{job.RuleConflict, job.RuleDeadlinePast, job.RuleDestination},
		[]job.Rule{refused[0].Rule, refused[1].Rule, refused[2].Rule})

	again, err := importer.Run(ctx, strings.NewReader(text.String()), o)
	require.NoError(t, err)
	require.Equal(t, importer.Counts{Rows: 1206, Refused: 3, SameKey: 1203}, again)

	tally, err := l.Tally(ctx)
	require.NoError(t, err)
	require.Equal(t, map[job.State]int{job.Ready: 1200, job.Scheduled: 1}, tally)
}
