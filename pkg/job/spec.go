package job

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// Spec is a job as a producer asks for it. The zero values of the optional
// fields mean "not given"; a spec is never repaired: Validate refuses it instead.
type Spec struct {
	// Kind names a configured kind. Required.
	Kind string
	// Key is the operation key, the identity of the job within its kind, such as
	// "digest:2026-W42:customer-1842". Required; printable UTF-8 in NFC, at most
	// MaxKey bytes, no leading or trailing space.
	Key string
	// Subject is whom or what the job is about; it is what `duly erase` looks for.
	Subject string
	// Period is the occurrence that the job belongs to, such as "2026-W42".
	Period string
	// Destination is the address of the effect: a URL, a mail address, or what a
	// Go handler makes of it.
	Destination string
	// Payload is one valid JSON value in UTF-8, kept byte for byte. Required.
	Payload []byte
	// Due is when the job may first be tried; zero means now.
	Due time.Time
	// Deadline is the instant from which the effect must not begin any more; zero
	// means none.
	Deadline time.Time
	// DeadlineZone and DeadlineLocal are the IANA zone and the local wall time
	// ("2026-09-30T17:00:00") that produced Deadline; kept beside it for people.
	DeadlineZone, DeadlineLocal string
	// TraceParent is the W3C trace context of the producer, if any.
	TraceParent string
}

// Hash is a 16-byte digest: the first half of a SHA-256.
type Hash [16]byte

// KeyHash identifies the job among all jobs: the digest of kind and key.
func KeyHash(kind, key string) Hash {
	h := sha256.New()
	h.Write([]byte(kind))
	h.Write([]byte{0})
	h.Write([]byte(key))
	return Hash(h.Sum(nil)[:16])
}

// BodyHash is the digest of what makes two requests with one key the same
// request: kind, destination, payload byte by byte, due time and deadline as
// given, before any default.
func (s Spec) BodyHash() Hash {
	h := sha256.New()
	var n [8]byte
	field := func(b []byte) {
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		h.Write(n[:])
		h.Write(b)
	}
	instant := func(t time.Time) {
		if t.IsZero() {
			field(nil)
			return
		}
		// The ledger keeps microseconds; what it cannot tell apart is the same.
		binary.BigEndian.PutUint64(n[:], uint64(t.UnixMicro()))
		h.Write([]byte{8})
		h.Write(n[:])
	}
	field([]byte(s.Kind))
	field([]byte(s.Destination))
	field(s.Payload)
	instant(s.Due)
	instant(s.Deadline)
	return Hash(h.Sum(nil)[:16])
}

// Ref is a reference on the bus: which generation of which job, announced by
// which emission. It is a hint; the ledger decides what becomes of it.
type Ref struct {
	Job        int64
	Generation int32
	Emission   int32
}

// Compare orders references by job, generation and emission, which is the order in which
// rows are locked.
func (r Ref) Compare(other Ref) int {
	return cmp.Or(cmp.Compare(r.Job, other.Job), cmp.Compare(r.Generation, other.Generation), cmp.Compare(r.Emission, other.Emission))
}
