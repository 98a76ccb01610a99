package main

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPatternsChooseContestantsAndMeasurements(t *testing.T) {
	t.Parallel()
	require.True(t, matches(nil, "duly"))
	require.True(t, matches([]string{"river", "duly"}, "duly"))
	require.True(t, matches([]string{"raw-*"}, "raw-copy"))
	require.False(t, matches([]string{"duly"}, "duly-sync"))
	require.False(t, matches([]string{"["}, "["), "a pattern that is none fits nothing")

	names := func(measures ...string) (all []string) {
		for _, turn := range (Plan{Measures: measures}).turns() {
			for _, m := range turn {
				all = append(all, m.name)
			}
		}
		return all
	}
	require.Equal(t, []string{"insert", "drain", "both", "singles-8", "singles-32", "latency-500", "latency-2000", "idle"}, names())
	require.Equal(t, []string{"insert", "drain"}, names("drain"), "there is nothing to drain that was not inserted")
	require.Equal(t, []string{"singles-8", "singles-32"}, names("singles-*"))
	require.Empty(t, names("nonsense"))
}

// guest is a contestant that is never there.
type guest struct{ Contestant }

func (guest) Name() string                          { return "guest" }
func (guest) Prepare(context.Context, *Stack) error { return Absent("it is not installed") }

func TestWhoeverIsAbsentIsListed(t *testing.T) {
	t.Parallel()
	all := []entry{{"guest", Peers, func(Load) Contestant { return guest{} }}}
	r := &runner{plan: Plan{Rounds: 1}, out: io.Discard}
	require.NoError(t, r.invite(t.Context(), all))
	require.Len(t, r.seats, 1)
	require.Equal(t, "it is not installed", r.seats[0].absent)
	require.NoError(t, r.run(t.Context()), "nobody is asked to do what it cannot")
	require.Empty(t, r.samples)

	r = &runner{plan: Plan{Only: []string{"nobody"}}, out: io.Discard}
	require.ErrorContains(t, r.invite(t.Context(), all), "--only nobody: there is no such contestant")
}

func TestRestrictedContestantsSayWhy(t *testing.T) {
	t.Parallel()
	c := restrict(cannotAnything{cannot{"deep inside"}}, "like the other's", "both")
	why, ok := unableReason(c.Insert(t.Context(), nil, 1))
	require.True(t, ok)
	require.Equal(t, "like the other's", why)
	why, ok = unableReason(c.Both(t.Context(), nil, 1))
	require.True(t, ok)
	require.Equal(t, "deep inside", why)
	for _, err := range []error{c.Drain(t.Context(), nil, 1), c.Singles(t.Context(), nil, 1, 1), c.Latency(t.Context(), nil, 1, 1), c.Idle(t.Context(), nil, 1)} {
		require.ErrorIs(t, err, Unable("like the other's"))
	}
}

type cannotAnything struct{ cannot }

func (cannotAnything) Name() string                       { return "" }
func (cannotAnything) Version() string                    { return "" }
func (cannotAnything) Settings() []Setting                { return nil }
func (cannotAnything) Open(context.Context, *Stack) error { return nil }
func (cannotAnything) Close(context.Context) error        { return nil }

func TestEveryContestantHasAKeyOfItsOwn(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, e := range contestants() {
		require.False(t, seen[e.key], e.key)
		seen[e.key] = true
		c := e.make(Load{Payload: 100})
		require.NotEmpty(t, c.Name())
	}
	require.True(t, seen[reference])
}

func TestOnlyADurableServerIsMeasured(t *testing.T) {
	t.Parallel()
	require.NoError(t, durable([]Setting{{"fsync", "on"}, {"wal_level", "replica"}}))
	require.ErrorContains(t, durable([]Setting{{"synchronous_commit", "off"}}), "synchronous_commit is off: it must be on")

	settings, err := assignments([]string{"max_wal_size=4GB", "a=b=c"})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"max_wal_size": "4GB", "a": "b=c"}, settings)
	_, err = assignments([]string{"nonsense"})
	require.ErrorContains(t, err, `--postgres "nonsense": it must be name=value`)
}
