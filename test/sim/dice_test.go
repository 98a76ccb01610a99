package sim

import (
	"time"
)

// dice decide whatever is left to chance in one schedule. An answer depends on the seed and
// on what is asked about, and on nothing else: neither on what was asked before nor on
// which goroutine asks first. So the same seed always plays the same schedule.
type dice uint64

// chance is one answer of the dice.
type chance uint64

// roll answers about something.
func (d dice) roll(about ...any) chance {
	h := mix(uint64(d) + 0x9e3779b97f4a7c15)
	for _, a := range about {
		h = mix(h ^ number(a))
	}
	return chance(h)
}

// number makes a number of a part of a question.
func number(a any) uint64 {
	switch v := a.(type) {
	case string:
		h := uint64(14695981039346656037)
		for i := range len(v) {
			h = (h ^ uint64(v[i])) * 1099511628211
		}
		return h
	case int:
		return uint64(v)
	case int32:
		return uint64(v)
	case int64:
		return uint64(v)
	case uint64:
		return v
	case time.Duration:
		return uint64(v)
	}
	panic("the dice know no such type")
}

// mix spreads every bit over all others (splitmix64).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// of is another answer about the same, for another purpose.
func (c chance) of(purpose string) chance { return chance(mix(uint64(c) ^ number(purpose))) }

// unit is the chance as a number in [0, 1).
func (c chance) unit() float64 { return float64(mix(uint64(c))>>11) / (1 << 53) }

// below is true in so many of all cases.
func (c chance) below(share float64) bool { return c.unit() < share }

// upTo is one of 0 … n-1.
func (c chance) upTo(n int) int { return int(c.unit() * float64(n)) }

// between is a duration from a to b.
func (c chance) between(a, b time.Duration) time.Duration {
	return a + time.Duration(c.unit()*float64(b-a))
}
