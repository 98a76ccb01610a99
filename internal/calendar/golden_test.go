package calendar

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// golden is what testdata/golden.py wrote: when expressions fire, by an implementation
// that shares nothing with this one.
type golden struct {
	Release     string
	From, Until time.Time
	Zones       map[string]map[string]struct {
		Count  int
		SHA256 string
	}
}

func TestOccurrencesOfFiveYearsInFortyZonesAgreeWithAnotherImplementation(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/golden.json")
	require.NoError(t, err)
	var g golden
	require.NoError(t, json.Unmarshal(data, &g))
	require.Equal(t, Release(), g.Release, "run testdata/golden.py with the tzdata of the embedded release")
	require.Len(t, g.Zones, 40)
	for zone, crons := range g.Zones {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			for cron, want := range crons {
				s := compile(t, Spec{Cron: cron, Zone: zone, Gap: GapSkip, Overlap: OverlapBoth, Period: PeriodOccurrence})
				hash := sha256.New()
				count := 0
				for o := range s.All(g.From.Add(-time.Second)) {
					if !o.At.Before(g.Until) {
						break
					}
					if o.Skip == "" {
						count++
						hash.Write([]byte(o.At.Format(time.RFC3339) + "\n"))
					}
				}
				require.Equal(t, want.Count, count, cron)
				require.Equal(t, want.SHA256, hex.EncodeToString(hash.Sum(nil)), cron)
			}
		})
	}
}
