package bus_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/pkg/job"
)

const anyName = `[a-z0-9-]{1,64}`

func drawRef(t *rapid.T) job.Ref {
	return job.Ref{
		Job:        rapid.Int64Range(1, 1<<62).Draw(t, "job"),
		Generation: rapid.Int32Range(1, 1<<31-1).Draw(t, "generation"),
		Emission:   rapid.Int32Range(1, 1<<31-1).Draw(t, "emission"),
	}
}

func drawEnvelope(t *rapid.T) bus.Envelope {
	return bus.Envelope{
		Kind:        rapid.StringMatching(anyName).Draw(t, "kind"),
		Lane:        rapid.StringMatching(anyName).Draw(t, "lane"),
		Refs:        rapid.SliceOfN(rapid.Custom(drawRef), 1, 40).Draw(t, "refs"),
		Outbox:      rapid.SliceOfN(rapid.Int64Range(1, 1<<62), 1, 40).Draw(t, "outbox"),
		At:          time.Unix(rapid.Int64Range(0, 7_000_000_000).Draw(t, "at"), 0).UTC(),
		TraceParent: rapid.String().Draw(t, "traceparent"),
	}
}

func TestAnEnvelopeSurvivesItsJourney(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := drawEnvelope(t)
		m := e.Message()
		require.True(t, json.Valid(m.Body))
		got, err := bus.DecodeEnvelope(m.Body)
		require.NoError(t, err)
		want := bus.Received{Kind: e.Kind, Lane: e.Lane, Refs: e.Refs, Outbox: 0}
		for _, id := range e.Outbox {
			want.Outbox = max(want.Outbox, id)
		}
		require.Empty(t, cmp.Diff(want, got))
		require.LessOrEqual(t, len(m.ID), bus.MaxID)
		require.Equal(t, bus.Message{
			Type: bus.TypeWork, Lane: e.Lane, Kind: e.Kind, ID: m.ID, At: e.At, TraceParent: e.TraceParent, Body: m.Body,
		}, m)
	})
}

// TestOnlyTrueCopiesShareAnID: the id depends on every outbox id and every reference, and on
// nothing else.
func TestOnlyTrueCopiesShareAnID(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := drawEnvelope(t)
		id := e.Message().ID

		same := e
		same.At, same.TraceParent = e.At.Add(time.Hour), "another"
		require.Equal(t, id, same.Message().ID)

		for what, change := range map[string]func(e *bus.Envelope, i int){
			"job":           func(e *bus.Envelope, i int) { e.Refs[i%len(e.Refs)].Job++ },
			"generation":    func(e *bus.Envelope, i int) { e.Refs[i%len(e.Refs)].Generation ^= 1 },
			"emission":      func(e *bus.Envelope, i int) { e.Refs[i%len(e.Refs)].Emission ^= 1 },
			"outbox":        func(e *bus.Envelope, i int) { e.Outbox[i%len(e.Outbox)]++ },
			"one row more":  func(e *bus.Envelope, _ int) { e.Outbox = append(e.Outbox, 1) },
			"one ref more":  func(e *bus.Envelope, _ int) { e.Refs = append(e.Refs, job.Ref{Job: 1, Generation: 1, Emission: 1}) },
			"one row fewer": func(e *bus.Envelope, _ int) { e.Outbox = e.Outbox[1:] },
		} {
			other := e
			other.Refs = append([]job.Ref(nil), e.Refs...)
			other.Outbox = append([]int64(nil), e.Outbox...)
			change(&other, rapid.IntRange(0, 39).Draw(t, "which"))
			require.NotEqual(t, id, other.Message().ID, what)
		}
	})
}

// TestRowsAndReferencesAreNotConfused: a number means something else as an outbox id than
// in a reference.
func TestRowsAndReferencesAreNotConfused(t *testing.T) {
	t.Parallel()
	ref := job.Ref{Job: 1, Generation: 1, Emission: 1}
	a := bus.Envelope{Kind: "k", Lane: "l", Outbox: []int64{1, 1, 1}, Refs: []job.Ref{ref}}
	b := bus.Envelope{Kind: "k", Lane: "l", Outbox: nil, Refs: []job.Ref{ref, ref}}
	require.NotEqual(t, a.Message().ID, b.Message().ID)
}

func TestWhatIsNoEnvelopeIsRefused(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		``:                                  "0 bytes",
		`{`:                                 "decoding",
		`null`:                              "not a name",
		`{"kind":"k","lane":"l"}`:           "0 references",
		`{"kind":"k","lane":"l","refs":[]}`: "0 references",
		`{"kind":"K","lane":"l","refs":[[1,1,1]]}`:                                                `kind "K"`,
		`{"kind":"k","lane":"l.m","refs":[[1,1,1]]}`:                                              `lane "l.m"`,
		`{"kind":"k","lane":"l","refs":[[0,1,1]]}`:                                                "reference 0",
		`{"kind":"k","lane":"l","refs":[[1,1,1],[1,0,1]]}`:                                        "reference 1",
		`{"kind":"k","lane":"l","refs":[[1,1,2147483648]]}`:                                       "reference 0",
		`{"kind":"k","lane":"l","refs":[[1,1,-1]]}`:                                               "reference 0",
		`{"kind":"k","lane":"l","refs":[[1,1,1e99]]}`:                                             "decoding",
		`{"kind":"k","lane":"l","refs":["1"]}`:                                                    "decoding",
		`{"kind":"k","lane":"l","refs":[[1,1,1]],"outbox":""}`:                                    "decoding",
		`{"kind":"k","lane":"l","refs":[` + strings.Repeat("[1,1,1],", bus.MaxRefs) + `[1,1,1]]}`: "1 to 1024",
	} {
		_, err := bus.DecodeEnvelope([]byte(body))
		require.ErrorContains(t, err, want, body)
	}
}

func TestAMarkSurvivesItsJourney(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		mark := bus.Mark{
			Lane:   rapid.StringMatching(anyName).Draw(t, "lane"),
			Number: rapid.Int64Range(1, 1<<62).Draw(t, "number"),
		}
		partition := rapid.Int32Range(0, 100).Draw(t, "partition")
		m, err := mark.Message(partition)
		require.NoError(t, err)
		require.Empty(t, m.ID, "no broker may take it for a copy")
		require.Equal(t, bus.Message{Type: bus.TypeMark, Lane: mark.Lane, Partition: partition, Body: m.Body}, m)
		got, err := bus.DecodeMark(m.Body)
		require.NoError(t, err)
		require.Equal(t, mark, got)
	})
}

func TestWhatIsNoMarkIsRefused(t *testing.T) {
	t.Parallel()
	for _, body := range []string{``, `null`, `{"lane":"l"}`, `{"lane":"l","mark":0}`, `{"lane":"","mark":1}`, `{"lane":"l","mark":"1"}`} {
		_, err := bus.DecodeMark([]byte(body))
		require.Error(t, err, body)
	}
}

func TestAttributesSurviveTheirJourney(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := drawEnvelope(t).Message()
		if m.At.Unix() == 0 {
			m.At = time.Time{}
		}
		attributes := map[string]string{}
		for _, a := range m.Attributes("duly", "unused") {
			require.Regexp(t, `^[a-z0-9]{1,20}$`, a.Name, "a name of CloudEvents")
			require.NotContains(t, attributes, a.Name)
			attributes[a.Name] = a.Value
		}
		for _, required := range []string{"specversion", "id", "source", "type"} {
			require.NotEmpty(t, attributes[required])
		}
		require.Equal(t, m, bus.FromAttributes(func(name string) string { return attributes[name] }, m.Body))
	})
}

func TestAMarkHasAnIDOnTheWireOnly(t *testing.T) {
	t.Parallel()
	sent, err := bus.Mark{Lane: "mail", Number: 1}.Message(0)
	require.NoError(t, err)
	attributes := map[string]string{}
	for _, a := range sent.Attributes("duly", "wire-id") {
		attributes[a.Name] = a.Value
	}
	require.Equal(t, "wire-id", attributes["id"])
	require.Equal(t, sent, bus.FromAttributes(func(name string) string { return attributes[name] }, sent.Body))
}

func TestAForeignMessageHasNoType(t *testing.T) {
	t.Parallel()
	got := bus.FromAttributes(func(name string) string { return map[string]string{"type": "duly.work"}[name] }, []byte("x"))
	require.Equal(t, bus.Message{Body: []byte("x")}, got)
}

func FuzzDecodeEnvelope(f *testing.F) {
	f.Add([]byte(`{"kind":"k","lane":"l","refs":[[1,1,1]],"outbox":1}`))
	f.Add([]byte(`{"kind":"k","lane":"l","refs":[[1,1]],"outbox":1e3}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := bus.DecodeEnvelope(body)
		if err != nil {
			require.Empty(t, got)
			return
		}
		// What is taken is within its rules, and goes round.
		require.True(t, job.ValidName(got.Kind) && job.ValidName(got.Lane))
		require.NotEmpty(t, got.Refs)
		again, err := bus.DecodeEnvelope(bus.Envelope{
			Kind: got.Kind, Lane: got.Lane, Refs: got.Refs, Outbox: []int64{got.Outbox},
		}.Message().Body)
		require.NoError(t, err)
		got.Outbox = max(got.Outbox, 0)
		require.Equal(t, got, again)
	})
}

func FuzzDecodeMark(f *testing.F) {
	f.Add([]byte(`{"lane":"mail","mark":7}`))
	f.Add([]byte(`{"lane":1}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := bus.DecodeMark(body)
		if err != nil {
			require.Empty(t, got)
			return
		}
		m, err := got.Message(0)
		require.NoError(t, err)
		again, err := bus.DecodeMark(m.Body)
		require.NoError(t, err)
		require.Equal(t, got, again)
	})
}
