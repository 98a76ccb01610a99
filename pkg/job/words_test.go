package job_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"duly.dev/duly/pkg/job"
)

func TestEffectKeysAreStableAndFitTheWire(t *testing.T) {
	t.Parallel()
	require.Equal(t, "digest/2026-W42/c-1:3:smtp", job.EffectKey("digest", "2026-W42/c-1", 3, "smtp"))
	require.Equal(t, "digest/c 1:1:http", job.WireEffectKey("digest", "c 1", 1, "http"))
	long := strings.Repeat("k", job.MaxEffectKey)
	for name, key := range map[string]string{"too long": long, "not ASCII": "é", "control character": "a\x7f"} {
		wire := job.WireEffectKey("digest", key, 1, "http")
		require.Regexp(t, `^digest:sha256-[0-9a-f]{64}$`, wire, name)
		require.NotEqual(t, wire, job.WireEffectKey("digest", key, 2, "http"), name)
	}
	fits := strings.Repeat("k", job.MaxEffectKey-len("digest/:1:http"))
	require.Equal(t, job.EffectKey("digest", fits, 1, "http"), job.WireEffectKey("digest", fits, 1, "http"), "exactly the longest")
	require.NotEqual(t, job.EffectKey("digest", fits+"k", 1, "http"), job.WireEffectKey("digest", fits+"k", 1, "http"))
}

func TestWireEffectKeysAreOneToOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := func(n string) (string, int32) {
			return rapid.StringN(0, 300, 512).Draw(t, n), rapid.Int32Range(1, 99).Draw(t, n+" generation")
		}
		a, ga := draw("a")
		b, gb := draw("b")
		same := job.EffectKey("k", a, ga, "c") == job.EffectKey("k", b, gb, "c")
		require.Equal(t, same, job.WireEffectKey("k", a, ga, "c") == job.WireEffectKey("k", b, gb, "c"))
	})
}

func TestStorableMakesAnythingStorable(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a\uFFFDb c \uFFFD", job.Storable("a\x00b\nc\x7f\xff", 100))
	require.Equal(t, "né", job.Storable("née", 3))
	require.Equal(t, "n", job.Storable("née", 2), "a rune is never cut in two")
	rapid.Check(t, func(t *rapid.T) {
		in, max := string(rapid.SliceOf(rapid.Byte()).Draw(t, "in")), rapid.IntRange(0, 40).Draw(t, "max")
		out := job.Storable(in, max)
		require.True(t, utf8.ValidString(out))
		require.LessOrEqual(t, len(out), max)
		require.NotContains(t, out, "\x00")
		require.Equal(t, out, job.Storable(out, max), "once is enough")
	})
}

func TestResultsAreStorable(t *testing.T) {
	t.Parallel()
	r := job.NotDone(job.ClassPermanent, "CODE\x00", strings.Repeat("d", 600))
	r.Receipt = &job.Receipt{ID: "id\xff", Status: "250\r\nok"}
	got := r.Storable()
	require.Len(t, got.Detail, job.MaxDetail)
	require.Equal(t, job.Code("CODE\uFFFD"), got.Code)
	require.Equal(t, job.Receipt{ID: "id\uFFFD", Status: "250  ok"}, *got.Receipt)
	require.Equal(t, "id\xff", r.Receipt.ID, "the original is left")
	require.Nil(t, job.Done(nil).Storable().Receipt)
}

func TestOutcomesSayCertaintyBeforeClass(t *testing.T) {
	t.Parallel()
	require.Equal(t, job.OutcomeDelivered, job.Done(nil).Outcome)
	require.Equal(t, job.Result{Outcome: job.OutcomeFailed, Class: job.ClassTransient, Code: job.CodeThrottled, Detail: "later"}, job.NotDone(job.ClassTransient, job.CodeThrottled, "later"))
	require.Empty(t, job.MayBeDone(job.CodeTimeout, "").Class, "an unknown outcome has no class")
	require.Equal(t, job.OutcomeNotBegun, job.NotBegun("").Outcome)
	require.Len(t, job.Classes(), 3)
}

func TestFingerprintsGroupWhatIsTheSameButForNumbersAndIDs(t *testing.T) {
	t.Parallel()
	of := func(detail string) string {
		return job.Fingerprint("k", job.ClassPermanent, job.CodeRejected, detail)
	}
	require.Equal(t, of("550 5.1.1 <ann@example.com>: User unknown (id=7)"), of("550  5.1.1 <bob@example.org>: user UNKNOWN (id=8)"))
	require.NotEqual(t, of("user unknown"), of("mailbox full"))
	require.NotEqual(t, of("x"), job.Fingerprint("other", job.ClassPermanent, job.CodeRejected, "x"))
	require.NotEqual(t, of("x"), job.Fingerprint("k", job.ClassTransient, job.CodeRejected, "x"))
	require.Regexp(t, `^[0-9a-f]{16}$`, of(""))
}

func TestCodesEachHaveAnActionAndLabelsStayClosed(t *testing.T) {
	t.Parallel()
	require.GreaterOrEqual(t, len(job.Codes()), 20)
	for _, c := range job.Codes() {
		require.NotEmpty(t, c.Action(), string(c))
		require.True(t, c.Known())
		require.Equal(t, c, c.Label())
	}
	require.Empty(t, job.CodeNone.Action())
	own := job.Code("CARD_EXPIRED")
	require.Equal(t, own, own.Label("QUOTA", "CARD_EXPIRED"))
	require.Equal(t, job.CodeOther, own.Label("QUOTA"))
	require.Equal(t, job.CodeOther.Action(), own.Action())
}

func TestStatesHoldsAndReasonsAreClosedSets(t *testing.T) {
	t.Parallel()
	require.Len(t, job.States(), 7)
	for _, s := range job.States() {
		require.True(t, s.Valid())
	}
	require.False(t, job.State("done").Valid())
	require.True(t, job.Leased.Pending())
	require.False(t, job.Unknown.Pending())
	require.Len(t, job.Holds(), 7)
	require.Len(t, job.Reasons(), 5)
}

func TestHashesTellBodiesAndKeysApart(t *testing.T) {
	t.Parallel()
	require.NotEqual(t, job.KeyHash("a", "b"), job.KeyHash("ab", ""))
	s := good()
	changes := map[string]func(*job.Spec){
		"kind": func(s *job.Spec) { s.Kind = "other" }, "destination": func(s *job.Spec) { s.Destination = "x" },
		"payload": func(s *job.Spec) { s.Payload = []byte(`{"name": "Ann"}`) }, "due": func(s *job.Spec) { s.Due = time.Time{} },
		"deadline": func(s *job.Spec) { s.Deadline = s.Deadline.Add(time.Microsecond) },
		"moved":    func(s *job.Spec) { s.Destination, s.Payload = "", append([]byte(s.Destination), s.Payload...) },
	}
	for name, change := range changes {
		other := s
		change(&other)
		require.NotEqual(t, s.BodyHash(), other.BodyHash(), name)
	}
	for name, change := range map[string]func(*job.Spec){
		"the ledger keeps microseconds": func(s *job.Spec) { s.Due = s.Due.Add(time.Nanosecond) },
		"an instant has no zone":        func(s *job.Spec) { s.Due = s.Due.In(time.FixedZone("x", 3600)) },
		"the subject is no body":        func(s *job.Spec) { s.Subject = "x" },
	} {
		other := s
		change(&other)
		require.Equal(t, s.BodyHash(), other.BodyHash(), name)
	}
}
