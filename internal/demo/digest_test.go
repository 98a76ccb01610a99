package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/pkg/job"
)

// The customers have everything that the digest is about, whatever their number is.
func TestTheCustomersAreTheSameEachTimeAndOfEverySort(t *testing.T) {
	t.Parallel()
	all := customers(5000)
	require.Equal(t, all, customers(5000))
	seen, inZones := map[string]int{}, map[string]bool{}
	ids := map[string]bool{}
	moved, refused, twice := 0, 0, 0
	for _, c := range all {
		require.False(t, ids[c.id])
		ids[c.id] = true
		seen[c.plan().does]++
		if c.refused {
			refused++
		} else {
			inZones[c.zone] = true
		}
		if c.twice {
			twice++
		}
		if c.moved() {
			moved++
		}
	}
	require.Len(t, inZones, 6)
	for _, b := range digestPlan {
		require.Positive(t, seen[b.does], b.does)
	}
	require.Equal(t, []int{500, 3, 5}, []int{moved, refused, twice})
	require.Equal(t, 10, seen["(has left altogether)"])
	require.Equal(t, 10, seen["(has no address any more)"])
}

// G10, G11: the whole path in one process; CI demonstrates 5,000 on NATS.
func TestG10G11TheDigestIsSentOnceAndItsRowsAreRemovedBehindIt(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	result, err := Digest(context.Background(), process(&out), DigestOptions{Options: Options{Bus: BusMemory, JSON: true}, Customers: 1001})
	require.NoError(t, err)
	require.Equal(t, []int64{1002, 2, 1000}, []int64{result.Selected, int64(result.Refused), result.Expected})
	require.True(t, result.Complete)
	require.Zero(t, result.Lost+result.DuplicateEffects+result.Disagreements)
	require.Equal(t, 4, result.States[job.Unknown])
	require.Equal(t, []int{100, 100}, []int{result.Moved, result.Reached})
	ended := 0
	for _, n := range result.States {
		ended += n
	}
	require.EqualValues(t, result.Expected, ended)
	require.Equal(t, 3*1001, result.Written)
	require.Equal(t, 3*result.States[job.Delivered], result.Removed, "what was surely sent, and nothing else")
	var printed DigestResult
	require.NoError(t, json.Unmarshal(out.Bytes(), &printed), "standard output holds the result and nothing else")
	require.Equal(t, result, printed)
	for _, field := range []string{`"expected":1000`, `"rows":1002`, `"lost":0`, `"duplicate_effects":0`} {
		require.Contains(t, out.String(), field)
	}
}

// What three sides say is told wherever they do not agree.
func TestTheDigestsVerdictFindsEveryDisagreement(t *testing.T) {
	t.Parallel()
	d := &digest{customers: []customer{{id: "c00001", then: "c00001@example.com", now: "c00001@example.com"}}, mail: &mailServer{}}
	key := "digest:2026-W48:c00001"
	const effect = "duly.57e4a7ba" // any
	sight := func(to ...string) (all []sighting) {
		for _, one := range to {
			all = append(all, sighting{Effect: d.effect(key), To: one})
		}
		return all
	}
	ok := sight("c00001@example.com")
	delivered := map[string]job.State{key: job.Delivered}
	for name, c := range map[string]struct {
		states map[string]job.State
		seen   []sighting
		left   map[string]int
		want   string
	}{
		"sent twice":      {delivered, slices.Concat(ok, ok), nil, "had 2 effects, and was to have 1"},
		"never sent":      {delivered, nil, nil, "had 0 effects, and was to have 1"},
		"to another":      {delivered, sight("old@example.com"), nil, "went to old@example.com, and its customer is at c00001@example.com"},
		"no job":          {nil, ok, nil, "was selected, and there is no job"},
		"still pending":   {map[string]job.State{key: job.Ready}, ok, nil, "is still ready"},
		"ended otherwise": {map[string]job.State{key: job.Unknown}, ok, map[string]int{key: 3}, "was planned to end delivered"},
		"rows are left":   {delivered, ok, map[string]int{key: 1}, "1 of its rows are left"},
		"a job of nobody": {map[string]job.State{key: job.Delivered, "x": job.Delivered}, ok, nil, "x is a job of nobody"},
		"another effect":  {delivered, append(slices.Clone(ok), sighting{Effect: effect}), nil, "of which the ledger knows nothing"},
	} {
		v := verdict{comparison: comparison{states: map[job.State]int{}}}
		d.compare(&v, "2026-W48", c.states, c.seen, c.left)
		require.NotEmpty(t, v.problems, name)
		require.Contains(t, joinedProblems(v), c.want, name)
	}
	v := verdict{comparison: comparison{states: map[job.State]int{}}}
	d.compare(&v, "2026-W48", map[string]job.State{key: job.Delivered}, ok, nil)
	require.Empty(t, v.problems)
	v.run.Selected = 1
	d.compare(&v, "2026-W48", map[string]job.State{key: job.Delivered}, ok, nil)
	require.Contains(t, joinedProblems(v), "expects 1 members, and 0 were counted")
}

func joinedProblems(v verdict) (all string) {
	for _, p := range v.problems {
		all += p + "\n"
	}
	return all
}

// A digest that does not end in time says so, and keeps its folder.
func TestADigestThatDoesNotEndInTimeFails(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	dir := enterable(t)
	result, err := Digest(context.Background(), process(&out), DigestOptions{Options: Options{Dir: dir, Bus: BusMemory, Patience: 10 * time.Millisecond}, Customers: 200})
	require.Error(t, err)
	require.ErrorContains(t, err, dir)
	require.Zero(t, result.Reached)
}
