package job

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// MaxEffectKey is the longest effect key, in bytes, that goes on the wire as it is.
const MaxEffectKey = 200

// EffectKey identifies the external effect of a generation over all its attempts:
// "kind/key:generation:channel". It is what a receiver dedupes on.
func EffectKey(kind, key string, generation int32, channel string) string {
	return kind + "/" + key + ":" + strconv.Itoa(int(generation)) + ":" + channel
}

// WireEffectKey is the effect key as it goes on the wire: the key itself, or,
// where that is over MaxEffectKey bytes or not plain ASCII, the kind and a
// SHA-256 of it ("kind:sha256-…"), so that any header can carry it.
func WireEffectKey(kind, key string, generation int32, channel string) string {
	full := EffectKey(kind, key, generation, channel)
	if len(full) <= MaxEffectKey && printableASCII(full) {
		return full
	}
	sum := sha256.Sum256([]byte(full))
	return kind + ":sha256-" + hex.EncodeToString(sum[:])
}

func printableASCII(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// HashPrefix begins what ToHash returns.
const HashPrefix = "sha256:"

// ToHash stands for a destination that is private: a SHA-256 of the effect key as it goes on
// the wire, a line feed, and the destination. Who knows the address can tell that it was
// this one; two effects to one address do not look alike.
func ToHash(wireEffectKey, destination string) string {
	sum := sha256.Sum256([]byte(wireEffectKey + "\n" + destination))
	return HashPrefix + hex.EncodeToString(sum[:])
}
