package bus

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"duly.dev/duly/pkg/job"
)

// requireAsJSON compares what decodeOwn says with what encoding/json says, where it says
// anything, and reports whether it does.
func requireAsJSON(t require.TestingT, body []byte) bool {
	got, own := decodeOwn(slices.Clip(body))
	if own {
		var want envelopeJSON
		require.NoError(t, json.Unmarshal(body, &want), "%q", body)
		require.Equal(t, want, got, "%q", body)
	}
	return own
}

// TestWhatIsReadInOnePassIsWhatJSONSays damages bodies in one place or two.
func TestWhatIsReadInOnePassIsWhatJSONSays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := Envelope{
			Kind: rapid.StringMatching(`[a-z0-9-]{1,64}`).Draw(t, "kind"), Lane: rapid.StringMatching(`[a-z0-9-]{1,64}`).Draw(t, "lane"),
			Outbox: []int64{rapid.Int64Range(1, 1e18-1).Draw(t, "outbox")},
		}
		for range rapid.IntRange(1, 5).Draw(t, "references") {
			e.Refs = append(e.Refs, job.Ref{
				Job:        rapid.Int64Range(1, 1e18-1).Draw(t, "job"),
				Generation: rapid.Int32Min(1).Draw(t, "generation"), Emission: rapid.Int32Min(1).Draw(t, "emission"),
			})
		}
		body := e.body()
		require.True(t, requireAsJSON(t, body), "what was written here is read in one pass: %s", body)
		for range rapid.IntRange(1, 2).Draw(t, "damages") {
			at := rapid.IntRange(0, len(body)-1).Draw(t, "at")
			with := rapid.SliceOfN(rapid.SampledFrom([]byte(`{}[]",:0129-+.e \ukindlarefsoutbx`+"\x00\n\x80")), 0, 3).Draw(t, "with")
			body = slices.Replace(body, at, min(at+rapid.IntRange(0, 2).Draw(t, "without"), len(body)), with...)
		}
		requireAsJSON(t, body)
	})
}

// TestWhatIsWrittenOtherwiseIsReadAllTheSame: another version may write the same in
// another form.
func TestWhatIsWrittenOtherwiseIsReadAllTheSame(t *testing.T) {
	t.Parallel()
	want := Received{Kind: "k", Lane: "l", Refs: []job.Ref{{Job: 1, Generation: 2, Emission: 3}, {Job: 4, Generation: 5, Emission: 6}}, Outbox: 7}
	for body, own := range map[string]bool{
		`{"kind":"k","lane":"l","refs":[[1,2,3],[4,5,6]],"outbox":7}`:             true,
		`{"kind":"k","lane":"l","refs":[[1,2,3],[4,5,6]],"outbox":7} `:            false,
		`{"kind": "k", "lane": "l", "refs": [[1,2,3], [4,5,6]], "outbox": 7}`:     false,
		`{"outbox":7,"refs":[[1,2,3],[4,5,6]],"lane":"l","kind":"k"}`:             false,
		`{"kind":"k","lane":"l","refs":[[1,2,3],[4,5,6]],"outbox":7,"more":true}`: false,
		`{"kind":"\u006b","lane":"l","refs":[[1,2,3],[4,5,6]],"outbox":7}`:        false,
		`{"kind":"k","lane":"l","refs":[[1,2,3,9],[4,5,6]],"outbox":7}`:           false,
		`{"kind":"x","kind":"k","lane":"l","refs":[[1,2,3],[4,5,6]],"outbox":7}`:  false,
	} {
		require.Equal(t, own, requireAsJSON(t, []byte(body)), body)
		got, err := DecodeEnvelope([]byte(body))
		require.NoError(t, err, body)
		require.Equal(t, want, got, body)
	}
}

// FuzzDecodeOwn looks for a body that is read in one pass and means something else.
func FuzzDecodeOwn(f *testing.F) {
	f.Add([]byte(`{"kind":"k","lane":"l","refs":[[1,2,3],[4,5,6]],"outbox":7}`))
	f.Add([]byte(`{"kind":"k","lane":"l","refs":[[01,2,3]],"outbox":1234567890123456789}`))
	f.Fuzz(func(t *testing.T, body []byte) { requireAsJSON(t, body) })
}
