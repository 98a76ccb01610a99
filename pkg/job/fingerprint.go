package job

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
)

// Fingerprint groups failures that are the same but for numbers and ids: it hashes
// kind, class, code and the normalised detail to 16 hexadecimal digits.
func Fingerprint(kind string, class Class, code Code, detail string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{kind, string(class), string(code), Normalise(detail)}, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// Normalise strips what differs between two failures of one cause: every word that
// holds a digit or an '@' becomes '#', white space is folded, case is dropped.
func Normalise(detail string) string {
	words := strings.FieldsFunc(strings.ToLower(detail), func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune("\"'()[]<>,;=", r)
	})
	for i, w := range words {
		if strings.ContainsFunc(w, func(r rune) bool { return unicode.IsDigit(r) || r == '@' }) {
			words[i] = "#"
		}
	}
	return strings.Join(words, " ")
}
