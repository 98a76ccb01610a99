package dispatch

import (
	"math/rand/v2"
	"time"
)

// pace says how long to rest before the next look at a topic: not at all while there
// is work, a few milliseconds soon after it, and longer the longer it is quiet. So a
// reference waits little where work comes steadily, and an idle dispatcher costs next
// to nothing.
type pace struct {
	rest   time.Duration // the longest
	worked time.Time     // when there was work last
}

// soon is the shortest rest.
const soon = 5 * time.Millisecond

func (p *pace) next(worked bool, now time.Time) time.Duration {
	if worked {
		p.worked = now
		return 0
	}
	return min(max(now.Sub(p.worked)/8, soon), p.rest)
}

// backoff says how long to wait after failures: 50 ms, doubling to 5 s, with jitter,
// so that dispatchers that failed together do not come back together.
type backoff struct{ failures int }

const (
	firstWait   = 50 * time.Millisecond
	longestWait = 5 * time.Second
)

func (b *backoff) next() time.Duration {
	wait := longestWait
	if b.failures < 7 {
		wait = min(firstWait<<b.failures, longestWait)
		b.failures++
	}
	return wait/2 + rand.N(wait/2)
}

func (b *backoff) reset() { b.failures = 0 }
