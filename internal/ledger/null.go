package ledger

import "time"

// What is the zero value in Go is NULL in the ledger.

// null makes a zero instant NULL.
func null(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// orNull makes an empty text NULL.
func orNull[S ~string](s S) *string {
	if s == "" {
		return nil
	}
	v := string(s)
	return &v
}

// orNone makes the zero value NULL.
func orNone[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// value makes NULL the zero value.
func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// orBytes makes an empty payload NULL.
func orBytes(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}
