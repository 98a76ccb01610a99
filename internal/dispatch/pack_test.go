package dispatch

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

var noon = time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)

// single are n rows of one reference each, as single enqueues write them.
func single(n int) []machine.OutboxRow {
	rows := make([]machine.OutboxRow, n)
	for i := range rows {
		rows[i] = machine.OutboxRow{ID: int64(i + 1), Kind: "reminder", Refs: refs(int64(i+1), 1)}
	}
	return rows
}

// refs are n references of jobs from first on.
func refs(first int64, n int) []job.Ref {
	all := make([]job.Ref, n)
	for i := range all {
		all[i] = job.Ref{Job: first + int64(i), Generation: 1, Emission: 1}
	}
	return all
}

func decode(t require.TestingT, m packed) []job.Ref {
	got, err := bus.DecodeEnvelope(m.message.Body)
	require.NoError(t, err)
	return got.Refs
}

func TestQuietPageSpreadsOverTheFleet(t *testing.T) {
	t.Parallel()
	all := newPacking("main", 32, 1<<20).pack(single(50))
	require.Len(t, all, 50)
	for _, m := range all {
		require.Equal(t, 1, m.refs())
	}
}

func TestDeepPageTravelsTogether(t *testing.T) {
	t.Parallel()
	all := newPacking("main", 32, 1<<20).pack(single(3200))
	require.Len(t, all, 100)
	for _, m := range all {
		require.Equal(t, 32, m.refs())
	}
}

func TestLaneOfSlowKindsSendsOneByOne(t *testing.T) {
	t.Parallel()
	require.Len(t, newPacking("slow", 1, 1<<20).pack(single(3200)), 3200)
}

func TestRowOfABulkTransactionIsSplit(t *testing.T) {
	t.Parallel()
	row := machine.OutboxRow{ID: 1, Kind: "reminder", Refs: refs(1, 5000)}
	all := newPacking("main", 32, 1<<20).pack([]machine.OutboxRow{row})
	require.Len(t, all, 157)
	ids := make(map[string]bool)
	for _, m := range all {
		ids[m.message.ID] = true
	}
	require.Len(t, ids, 157, "each part is a message of its own to the broker's dedupe window")
}

func TestMessageFitsTheBroker(t *testing.T) {
	t.Parallel()
	const limit = 4 << 10
	var rows []machine.OutboxRow
	for i := range 3000 {
		id := int64(1<<62 + i)
		rows = append(rows, machine.OutboxRow{ID: id, Kind: fmt.Sprintf("%064d", 1), Refs: []job.Ref{{Job: id, Generation: 1<<31 - 1, Emission: 1<<31 - 1}}})
	}
	for _, m := range newPacking(fmt.Sprintf("%064d", 1), bus.MaxRefs, limit).pack(rows) {
		require.LessOrEqual(t, len(m.message.Body), limit)
	}
}

func TestDelayedReferencesTravelTogetherOnlyIfTheirInstantsAreNear(t *testing.T) {
	t.Parallel()
	rows := single(400)
	for i := range rows {
		rows[i].At = noon.Add(time.Duration(i%2)*time.Minute + time.Duration(i)*100*time.Microsecond)
	}
	rows[0].At = time.Time{}
	all := newPacking("main", 32, 1<<20).pack(rows)
	require.Less(t, len(all), 100)
	require.True(t, all[0].message.At.IsZero())
	require.Equal(t, 1, all[0].refs(), "what is due now does not wait for what is delayed")
	for _, m := range all {
		for _, r := range m.rows {
			require.False(t, m.message.At.Before(r.At), "no reference comes early")
			require.LessOrEqual(t, m.message.At.Sub(r.At), together)
		}
	}
}

// C42: a message has the id of its copies, and of nothing else: what is emitted again
// is another message, whatever the broker's dedupe window remembers.
func TestC42OnlyATrueCopyHasTheSameID(t *testing.T) {
	t.Parallel()
	p := newPacking("main", 32, 1<<20)
	id := func(r machine.OutboxRow) string { return p.pack([]machine.OutboxRow{r})[0].message.ID }
	row := machine.OutboxRow{ID: 7, Kind: "reminder", Refs: []job.Ref{{Job: 1, Generation: 1, Emission: 1}}}
	same := row
	same.Refs = slices.Clone(row.Refs)
	require.Equal(t, id(row), id(same))

	again := row
	again.ID = 8 // the same reference, announced by another outbox row
	redriven := row
	redriven.Refs = []job.Ref{{Job: 1, Generation: 2, Emission: 2}}
	require.NotEqual(t, id(row), id(again))
	require.NotEqual(t, id(row), id(redriven))
}

func TestTraceOfOneProducerIsKeptAndOfSeveralIsNot(t *testing.T) {
	t.Parallel()
	rows := single(2)
	rows[0].TraceParent, rows[1].TraceParent = "a", "a"
	require.Equal(t, "a", newPacking("main", 32, 1<<20).envelope(rows).message.TraceParent)
	rows[1].TraceParent = "b"
	require.Empty(t, newPacking("main", 32, 1<<20).envelope(rows).message.TraceParent)
}

// Whatever a page holds, each of its references is in exactly one message, with its
// own kind, its own row and no more neighbours than the lane allows.
func TestPackingKeepsEveryReferenceOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 40).Draw(t, "most")
		var rows []machine.OutboxRow
		want := make(map[job.Ref]machine.OutboxRow)
		var next int64
		for i := range rapid.IntRange(0, 60).Draw(t, "rows") {
			r := machine.OutboxRow{ID: int64(i + 1), Kind: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "kind")}
			r.Refs = refs(next+1, rapid.IntRange(1, 100).Draw(t, "refs"))
			next += int64(len(r.Refs))
			if rapid.Bool().Draw(t, "delayed") {
				r.At = noon.Add(time.Duration(rapid.IntRange(0, 500).Draw(t, "ms")) * time.Millisecond)
			}
			rows = append(rows, r)
			for _, ref := range r.Refs {
				want[ref] = r
			}
		}
		p := newPacking("main", most, 1<<20)
		messages := p.pack(rows)
		if len(messages) > 0 && messages[0].refs() > 1 {
			messages = append(p.halve(messages[0]), messages[1:]...)
		}
		for _, m := range messages {
			var carried []job.Ref
			for _, piece := range m.rows {
				for _, ref := range piece.Refs {
					require.Equal(t, want[ref].ID, piece.ID)
					require.Equal(t, want[ref].Kind, m.message.Kind)
					delete(want, ref)
				}
				carried = append(carried, piece.Refs...)
			}
			require.Equal(t, carried, decode(t, m))
			require.NotEmpty(t, carried)
			require.LessOrEqual(t, len(carried), most)
		}
		require.Empty(t, want)
	})
}
