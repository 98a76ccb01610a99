package importer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/importer"
)

func TestTimesHaveAnOffsetOrTheRowsZone(t *testing.T) {
	t.Parallel()
	utc := func(text string) time.Time {
		at, err := time.Parse(time.RFC3339, text)
		require.NoError(t, err)
		return at.UTC()
	}
	for name, c := range map[string]struct {
		deadline, zone string
		want           time.Time
		wantZone       string
		wantLocal      string
	}{
		"an offset":                   {"2099-09-30T17:00:00+02:00", "", utc("2099-09-30T15:00:00Z"), "", ""},
		"an offset and a zone":        {"2099-09-30T17:00:00+02:00", "America/New_York", utc("2099-09-30T15:00:00Z"), "America/New_York", "2099-09-30T11:00:00"},
		"a fraction":                  {"2099-09-30T17:00:00.25Z", "", utc("2099-09-30T17:00:00.25Z"), "", ""},
		"local time":                  {"2099-09-30 17:00", "Asia/Tokyo", utc("2099-09-30T08:00:00Z"), "Asia/Tokyo", "2099-09-30T17:00:00"},
		"a gap: the first valid time": {"2030-03-31T02:30:00", "Europe/Paris", utc("2030-03-31T01:00:00Z"), "Europe/Paris", "2030-03-31T02:30:00"},
		"an overlap: the first":       {"2030-10-27T02:30:00", "Europe/Paris", utc("2030-10-27T00:30:00Z"), "Europe/Paris", "2030-10-27T02:30:00"},
		"an old name of a zone":       {"2099-01-01T00:00", "Asia/Calcutta", utc("2098-12-31T18:30:00Z"), "Asia/Kolkata", "2099-01-01T00:00:00"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := importText(t, importer.CSV, "kind,key,deadline,zone,payload\nmail,a,"+c.deadline+","+c.zone+",1\n")
			require.Empty(t, got.refused)
			spec := got.door.jobs[0]
			require.Equal(t, c.want, spec.Deadline)
			require.Equal(t, c.wantZone, spec.DeadlineZone)
			require.Equal(t, c.wantLocal, spec.DeadlineLocal)
		})
	}
}

func TestTimesThatAreNoneAreRefused(t *testing.T) {
	t.Parallel()
	for row, want := range map[string][]string{
		"mail,a,,5 PM,,1":                                     {"2 deadline time"},
		"mail,a,,5 PM,Europe/Paris,1":                         {"2 deadline time"},
		"mail,a,,2099-09-30T17:00:00,,1":                      {"2 deadline time"},
		"mail,a,,2099-02-30T17:00:00Z,,1":                     {"2 deadline time"},
		"mail,a,2099-02-30T17:00,,UTC,1":                      {"2 due time"},
		"mail,a,,2099-09-30T17:00,Mars/X,1":                   {"2 zone unknown_zone"},
		"mail,a,,2099-09-30T17:00Z,Local,1":                   {"2 zone unknown_zone", "2 deadline time"},
		"mail,a,,1999-01-01T00:00:00Z,,1":                     {"2 deadline years_2000_2200"},
		"mail,a,2300-01-01T00:00:00Z,,UTC,1":                  {"2 due years_2000_2200"},
		"mail,a,2099-01-01T00:00:00Z,2098-01-01T00:00:00Z,,1": {"2 due due_before_deadline"},
		"mail,a,now,never,,1":                                 {"2 due time", "2 deadline time"},
	} {
		got := importText(t, importer.CSV, "kind,key,due,deadline,zone,payload\n"+row+"\n")
		require.Equal(t, want, got.rules(), row)
	}
}
