package kafkabus

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"duly.dev/duly/internal/bus"
)

// recordAt is a record, a mark or not, at an offset.
func recordAt(offset int64, mark bool) *kgo.Record {
	r := &kgo.Record{Offset: offset, LeaderEpoch: int32(offset / 10)}
	if mark {
		r.Headers = []kgo.RecordHeader{{Key: typeHeader, Value: []byte(bus.TypeMark)}}
	}
	return r
}

// TestWatermark holds a partition to what it must do, whatever is done with it: what is
// before the watermark is settled, it never falls, new records come in order, what was
// given back comes first, and a mark comes when its consumer has all that is open before it.
func TestWatermark(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := newPartition(nil, "t", 0)
		next := rapid.Int64Range(0, 100).Draw(t, "start")
		first, newest := next, next-1
		settled, out := map[int64]bool{}, map[int64]*place{} // by offset
		var offsets []int64                                  // that exist, in order
		back := map[int64]bool{}                             // given back and not handed out again
		consumers := []*consumer{{}, {}}
		watermark := int64(-1)
		t.Repeat(map[string]func(*rapid.T){
			"poll": func(t *rapid.T) {
				var records []*kgo.Record
				for range rapid.IntRange(1, 5).Draw(t, "records") {
					next += rapid.Int64Range(0, 2).Draw(t, "gap")
					records = append(records, recordAt(next, rapid.Float64Range(0, 1).Draw(t, "mark") < 0.3))
					offsets = append(offsets, next)
					next++
				}
				if p.polled < 0 {
					first = records[0].Offset
				}
				require.True(t, p.add(records))
			},
			"take": func(t *rapid.T) {
				c := rapid.SampledFrom(consumers).Draw(t, "consumer")
				pl := p.take(c)
				if pl == nil {
					return
				}
				offset := pl.record.Offset
				require.NotContains(t, out, offset)
				require.False(t, settled[offset])
				if back[offset] {
					for other := range back {
						require.LessOrEqual(t, offset, other, "the first of what was given back")
					}
					delete(back, offset)
				} else {
					require.Empty(t, back, "what was given back comes first")
					require.Greater(t, offset, newest)
					newest = offset
				}
				if isMark(pl.record) {
					for other, held := range out {
						require.True(t, other > offset || held.holder == c, "a mark overtook %d", other)
					}
				}
				out[offset] = pl
			},
			"settle": func(t *rapid.T) {
				if len(out) == 0 {
					return
				}
				offset := drawKey(t, out)
				require.True(t, p.settle(out[offset]))
				require.False(t, p.settle(out[offset]), "once")
				delete(out, offset)
				settled[offset] = true
			},
			"give back": func(t *rapid.T) {
				if len(out) == 0 {
					return
				}
				offset := drawKey(t, out)
				require.True(t, p.giveBack(out[offset]))
				require.False(t, p.giveBack(out[offset]), "once")
				delete(out, offset)
				back[offset] = true
			},
			"": func(t *rapid.T) {
				now := p.watermark().Offset
				require.GreaterOrEqual(t, now, watermark)
				watermark = now
				var behind int64
				for _, offset := range offsets {
					if offset < now {
						require.True(t, settled[offset], "offset %d is not settled, the watermark is %d", offset, now)
					} else if settled[offset] {
						behind++
					}
				}
				require.Equal(t, behind, p.holes())
				if len(out) == 0 && len(back) == 0 && len(offsets) > 0 {
					require.Equal(t, max(newest+1, first), now, "it is as far as it can be")
				}
			},
		})
	})
}

func drawKey(t *rapid.T, m map[int64]*place) int64 {
	keys := make([]int64, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return rapid.SampledFrom(keys).Draw(t, "offset")
}

func TestRecordsThatBeginBeforeWhatWasPolledAreOthers(t *testing.T) {
	t.Parallel()
	p := newPartition(nil, "t", 0)
	require.True(t, p.add([]*kgo.Record{recordAt(5, false), recordAt(6, false)}))
	require.False(t, p.add([]*kgo.Record{recordAt(6, false)}))
	require.True(t, p.add([]*kgo.Record{recordAt(9, false)}), "a gap is one")
	require.Len(t, p.backlog, 3)
}

func TestWhatIsRevokedIsNotSettled(t *testing.T) {
	t.Parallel()
	p := newPartition(nil, "t", 0)
	require.True(t, p.add([]*kgo.Record{recordAt(0, false), recordAt(1, false)}))
	c := &consumer{}
	a, b := p.take(c), p.take(c)
	p.phase = leaving
	require.True(t, p.settle(a), "until it is gone")
	require.Nil(t, p.take(c))
	p.phase = revoked
	require.False(t, p.settle(b))
	require.False(t, p.giveBack(b))
	require.EqualValues(t, 1, p.watermark().Offset)
}

func TestPartitionIsPausedByNumberAndBySize(t *testing.T) {
	t.Parallel()
	p := newPartition(nil, "t", 0)
	require.True(t, p.add([]*kgo.Record{{Offset: 0, Value: make([]byte, maxWaiting)}}))
	require.True(t, p.crowded(100))
	require.False(t, p.roomy(100))
	p.take(&consumer{})
	require.False(t, p.crowded(100))
	require.True(t, p.roomy(100))
	for offset := range int64(100) {
		require.True(t, p.add([]*kgo.Record{recordAt(offset+1, false)}))
	}
	require.True(t, p.crowded(100))
	for range 50 {
		require.False(t, p.roomy(100))
		p.take(&consumer{})
	}
	require.True(t, p.roomy(100))
}
